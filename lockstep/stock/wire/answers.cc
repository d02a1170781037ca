#include "lockstep/stock/wire/answers.h"

#include "google/protobuf/message_lite.h"
#include "lockstep/stock/wire/append.h"

namespace lockstep::wire::stock {
namespace {

// All but one of what a KeyValueEntry is made of: the value, which ends it, is left where it is.
std::string EntryWithoutValue(const coord::KeyValue& entry) {
  std::string bytes;
  if (!entry.key.empty()) AppendBlock(1, entry.key, bytes);
  if (entry.value && !entry.value->empty()) AppendBlockHead(2, entry.value->size(), bytes);
  return bytes;
}

EncodedAnswer Incarnated(ServiceIncarnation service) {
  EncodedAnswer encoded;
  AppendFixed64(1, service.value(), encoded.head);
  return encoded;
}

}  // namespace

EncodedAnswer Serialized(const google::protobuf::MessageLite& message) {
  return {message.SerializeAsString(), nullptr};
}

EncodedAnswer Encode(const coord::Registered& answer) { return Incarnated(answer.service); }

EncodedAnswer Encode(const coord::HeartbeatTaken& answer) { return Incarnated(answer.service); }

EncodedAnswer Encode(const coord::KeyRead& answer) {
  const std::string inside = EntryWithoutValue(answer.entry);
  const size_t value_size = answer.entry.value ? answer.entry.value->size() : 0;
  EncodedAnswer encoded;
  AppendBlockHead(1, inside.size() + value_size, encoded.head);
  encoded.head.append(inside);
  if (value_size > 0) encoded.tail = answer.entry.value;
  return encoded;
}

EncodedAnswer Encode(const coord::KeysListed& answer, std::string_view directory) {
  EncodedAnswer encoded;
  if (!directory.empty()) AppendBlock(1, directory, encoded.head);
  for (const coord::KeyValue& entry : answer.entries) {
    const std::string inside = EntryWithoutValue(entry);
    AppendBlockHead(2, inside.size() + (entry.value ? entry.value->size() : 0), encoded.head);
    encoded.head.append(inside);
    if (entry.value) encoded.head.append(*entry.value);
  }
  return encoded;
}

EncodedAnswer Encode(const coord::BarrierPassed& answer) {
  EncodedAnswer encoded;
  AppendInt64(1, answer.counter, encoded.head);
  return encoded;
}

}  // namespace lockstep::wire::stock

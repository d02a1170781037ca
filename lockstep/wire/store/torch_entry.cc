#include "lockstep/wire/store/torch_entry.h"

#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/store/records_messages.h"

namespace lockstep::wire::store {
namespace {

namespace record = tcpstore::record;

// Of Entry, as it is listed in messages.h; a test compares.
constexpr uint32_t kTorchField = 7;

// --- To messages ---

TorchStoreOpened MessageOf(const record::Opened& from) {
  return {.attempt = from.attempt, .port = from.port, .keeps = from.keeps};
}
TorchStoreUsed MessageOf(const record::Used&) { return {}; }
TorchKeySet MessageOf(const record::KeySet& from) {
  return {.key = {from.key}, .value = {from.value}};
}
TorchValueAppended MessageOf(const record::ValueAppended& from) {
  return {.key = {from.key}, .more = {from.more}};
}
TorchKeyDeleted MessageOf(const record::KeyDeleted& from) { return {.key = {from.key}}; }
TorchQueuePushed MessageOf(const record::QueuePushed& from) {
  return {.key = {from.key}, .value = {from.value}};
}
TorchQueuePopped MessageOf(const record::QueuePopped& from) { return {.key = {from.key}}; }
TorchStoreCleared MessageOf(const record::Cleared&) { return {}; }
TorchGroupCleared MessageOf(const record::GroupCleared&) { return {}; }
TorchPassedConnection MessageOf(const tcpstore::PassedConnection& from) {
  return {.agent_high = from.agent.high, .agent_low = from.agent.low, .number = from.number};
}
TorchCommandDone MessageOf(const record::CommandDone& from) {
  return {.by = MessageOf(from.by), .number = from.number, .answer = {from.answer}};
}
TorchPassedGone MessageOf(const record::PassedGone& from) { return {.gone = MessageOf(from.gone)}; }

// Puts the message into the field of TorchRecord that has its type.
template <class Message>
void Put(Message message, TorchRecord& to) {
  native::ForEachField<TorchRecord>([&](const auto& field) {
    using T = typename std::decay_t<decltype(field)>::Type;
    if constexpr (std::is_same_v<T, std::optional<Message>>) to.*field.member = std::move(message);
  });
}

// --- And back ---

// What is empty comes as nothing.
tcpstore::ValuePtr ValueOf(SharedBytes& from) {
  if (from.data == nullptr) return std::make_shared<const std::string>();
  return std::move(from.data);
}

tcpstore::Record RecordOf(TorchStoreOpened& from) {
  return record::Opened{
      .attempt = from.attempt, .port = static_cast<uint16_t>(from.port), .keeps = from.keeps};
}
tcpstore::Record RecordOf(TorchStoreUsed&) { return record::Used{}; }
tcpstore::Record RecordOf(TorchKeySet& from) {
  return record::KeySet{std::move(from.key.data), ValueOf(from.value)};
}
tcpstore::Record RecordOf(TorchValueAppended& from) {
  return record::ValueAppended{std::move(from.key.data), ValueOf(from.more)};
}
tcpstore::Record RecordOf(TorchKeyDeleted& from) {
  return record::KeyDeleted{std::move(from.key.data)};
}
tcpstore::Record RecordOf(TorchQueuePushed& from) {
  return record::QueuePushed{std::move(from.key.data), ValueOf(from.value)};
}
tcpstore::Record RecordOf(TorchQueuePopped& from) {
  return record::QueuePopped{std::move(from.key.data)};
}
tcpstore::Record RecordOf(TorchStoreCleared&) { return record::Cleared{}; }
tcpstore::Record RecordOf(TorchGroupCleared&) { return record::GroupCleared{}; }
tcpstore::PassedConnection ConnectionOf(const TorchPassedConnection& from) {
  return {.agent = {.high = from.agent_high, .low = from.agent_low}, .number = from.number};
}
tcpstore::Record RecordOf(TorchCommandDone& from) {
  return record::CommandDone{ConnectionOf(from.by), from.number, std::move(from.answer.data)};
}
tcpstore::Record RecordOf(TorchPassedGone& from) {
  return record::PassedGone{ConnectionOf(from.gone)};
}

}  // namespace

size_t EncodeTorchRecords(const std::string& job, absl::Time wall,
                          absl::Span<const tcpstore::Record> records, std::string& out) {
  native::EncodeTo(Entry{.job = job, .wall_us = absl::ToUnixMicros(wall)}, out);
  size_t put = 0;
  while (put < records.size() && out.size() < kEntryBytesSoftMax) {
    TorchRecord to;
    std::visit([&to](const auto& of) { Put(MessageOf(of), to); }, records[put++]);
    native::EncodeFieldTo(kTorchField, to, out);
  }
  return put;
}

absl::StatusOr<tcpstore::Record> TorchRecordOf(TorchRecord& from) {
  int set = 0;
  tcpstore::Record to;
  native::ForEachField<TorchRecord>([&](const auto& field) {
    auto& message = from.*field.member;
    if (!message) return;
    ++set;
    to = RecordOf(*message);
  });
  if (from.opened && (from.opened->port < 0 || from.opened->port > 65535)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a store for torch's clients at port %d", from.opened->port));
  }
  if (set == 1) return to;
  // None: a kind that was added later.
  return absl::InvalidArgumentError(
      absl::StrFormat("a record of torch's store of %d kinds that this program knows, instead of "
                      "one: a newer version wrote it",
                      set));
}

}  // namespace lockstep::wire::store

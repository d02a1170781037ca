#include "lockstep/wire/xla/answers.h"

#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/error.h"
#include "proto/compat/xla/coordination_service.pb.h"

namespace lockstep::wire::xla {
namespace {

namespace pb = ::xla::coordination;
using google::protobuf::io::CodedOutputStream;

pb::TaskState StateOf(coord::MemberState state) {
  switch (state) {
    case coord::MemberState::kDisconnected:
      return pb::TASKSTATE_DISCONNECTED;
    case coord::MemberState::kConnected:
      return pb::TASKSTATE_CONNECTED;
    case coord::MemberState::kError:
      return pb::TASKSTATE_ERROR;
  }
  return pb::TASKSTATE_UNSPECIFIED;
}

EncodedAnswer Serialized(const google::protobuf::MessageLite& message) {
  return {message.SerializeAsString(), nullptr};
}

void AppendLengthDelimited(uint32_t field, size_t length, std::string& to) {
  uint8_t bytes[20];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(field << 3 | 2, bytes);
  end = CodedOutputStream::WriteVarint64ToArray(length, end);
  to.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

// GetKeyValueResponse, TryGetKeyValueResponse and IncrementKeyValueResponse are alike. By hand, so
// that the value, which ends the message, is left where it is.
EncodedAnswer Encode(const coord::KeyRead& answer) {
  const coord::KeyValue& entry = answer.entry;
  std::string inside;
  if (!entry.key.empty()) {
    AppendLengthDelimited(pb::KeyValueEntry::kKeyFieldNumber, entry.key.size(), inside);
    inside.append(entry.key);
  }
  size_t value_size = entry.value ? entry.value->size() : 0;
  if (value_size > 0) {
    AppendLengthDelimited(pb::KeyValueEntry::kValueFieldNumber, value_size, inside);
  }
  EncodedAnswer encoded;
  AppendLengthDelimited(pb::GetKeyValueResponse::kKvFieldNumber, inside.size() + value_size,
                        encoded.head);
  encoded.head.append(inside);
  if (value_size > 0) encoded.tail = entry.value;
  return encoded;
}

EncodedAnswer Encode(const coord::KeysListed& answer) {
  pb::GetKeyValueDirResponse response;
  response.mutable_kv()->Reserve(static_cast<int>(answer.entries.size()));
  for (const coord::KeyValue& entry : answer.entries) {
    pb::KeyValueEntry* kv = response.add_kv();
    kv->set_key(entry.key);
    if (entry.value) kv->set_value(*entry.value);
  }
  return Serialized(response);
}

EncodedAnswer Encode(const coord::AliveMembers& answer) {
  pb::GetAliveTasksResponse response;
  if (answer.members) {
    for (const coord::AliveMember& alive : *answer.members) {
      response.add_alive_task_ids(alive.member.value());
      response.add_incarnations(alive.incarnation.value());
    }
  }
  return Serialized(response);
}

EncodedAnswer Encode(const coord::MembersWatched& answer) {
  pb::WatchTasksResponse response;
  response.set_version_number(answer.version);
  if (!answer.members) return Serialized(response);
  for (const coord::MemberStatus& member : *answer.members) {
    pb::TaskInfo* info = response.add_task_state();
    info->set_task_id(member.member.value());
    info->set_state(StateOf(member.state));
    info->set_incarnation(member.incarnation.value());
    if (!member.error) continue;
    info->set_error_code(static_cast<int32_t>(member.error->code));
    info->set_error_message(member.error->message);
    pb::CoordinationServiceError* payload = info->mutable_error_payload();
    payload->set_is_reported_error(member.error->reported);
    if (member.error->origin) payload->set_source_task_id(member.error->origin->value());
  }
  return Serialized(response);
}

EncodedAnswer Encode(const coord::Registered& answer) {
  pb::RegisterTaskResponse response;
  response.set_service_incarnation(answer.service.value());
  return Serialized(response);
}

EncodedAnswer Encode(const coord::HeartbeatTaken& answer) {
  pb::HeartbeatResponse response;
  response.set_service_incarnation(answer.service.value());
  return Serialized(response);
}

EncodedAnswer Encode(const coord::BarrierPassed& answer) {
  pb::BarrierResponse response;
  response.set_counter(answer.counter);
  return Serialized(response);
}

EncodedAnswer Encode(std::monostate) { return {}; }

// Answers to requests that stock clients cannot make.
template <class NativeAnswer>
EncodedAnswer Encode(const NativeAnswer&) {
  LOCKSTEP_CHECK(false);
}

}  // namespace

EncodedAnswer EncodeAnswer(const coord::Answer& answer) {
  return std::visit([](const auto& some) { return Encode(some); }, answer);
}

EncodedAnswer AnswerEncoder::Encode(const coord::Answer& answer) {
  std::shared_ptr<const void> list;
  int64_t version = 0;
  if (const auto* watched = std::get_if<coord::MembersWatched>(&answer)) {
    list = watched->members;
    version = watched->version;
  } else if (const auto* alive = std::get_if<coord::AliveMembers>(&answer)) {
    list = alive->members;
  }
  if (!list) return EncodeAnswer(answer);
  if (list != list_ || version != version_) {
    bytes_ = std::make_shared<const std::string>(EncodeAnswer(answer).head);
    list_ = std::move(list);
    version_ = version;
  }
  return {std::string(), bytes_};
}

}  // namespace lockstep::wire::xla

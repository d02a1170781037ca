#include "lockstep/stock/xla/answers.h"

#include "lockstep/base/check.h"
#include "proto/compat/xla/coordination_service.pb.h"

namespace lockstep::wire::xla {
namespace {

namespace pb = ::xla::coordination;
using stock::EncodedAnswer;

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

void SetPayload(const coord::Error& error, pb::CoordinationServiceError& payload) {
  payload.set_is_reported_error(error.reported);
  if (error.origin) payload.set_source_task_id(error.origin->value());
}

EncodedAnswer Encode(const coord::AliveMembers& answer) {
  pb::GetAliveTasksResponse response;
  if (answer.members) {
    for (const coord::AliveMember& alive : *answer.members) {
      response.add_alive_task_ids(alive.member.value());
      response.add_incarnations(alive.incarnation.value());
    }
  }
  return stock::Serialized(response);
}

EncodedAnswer Encode(const coord::MembersWatched& answer) {
  pb::WatchTasksResponse response;
  response.set_version_number(answer.version);
  if (!answer.members) return stock::Serialized(response);
  for (const coord::MemberStatus& member : *answer.members) {
    pb::TaskInfo* info = response.add_task_state();
    info->set_task_id(member.member.value());
    info->set_state(StateOf(member.state));
    info->set_incarnation(member.incarnation.value());
    if (!member.error) continue;
    info->set_error_code(static_cast<int32_t>(member.error->code));
    info->set_error_message(member.error->message);
    SetPayload(*member.error, *info->mutable_error_payload());
  }
  return stock::Serialized(response);
}

EncodedAnswer Encode(const coord::KeysListed& answer) { return stock::Encode(answer, ""); }

// What both families share; and answers to requests that stock clients cannot make.
template <class Other>
EncodedAnswer Encode(const Other& answer) {
  if constexpr (requires { stock::Encode(answer); }) {
    return stock::Encode(answer);
  } else {
    LOCKSTEP_CHECK(false);
  }
}

}  // namespace

EncodedAnswer EncodeAnswer(const coord::Answer& answer) {
  return std::visit([](const auto& some) { return Encode(some); }, answer);
}

stock::EncodedError EncodeError(const coord::Error& error) {
  pb::CoordinationServiceError payload;
  SetPayload(error, payload);
  return stock::EncodeError(error, payload.SerializeAsString());
}

}  // namespace lockstep::wire::xla

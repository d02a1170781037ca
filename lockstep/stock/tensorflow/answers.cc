#include "lockstep/stock/tensorflow/answers.h"

#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/stock/wire/append.h"
#include "proto/compat/tensorflow/coordination_service.pb.h"

namespace lockstep::wire::tensorflow {
namespace {

namespace pb = ::tensorflow;
using stock::EncodedAnswer;

struct Scope {
  Method method;
  const Roles& roles;
  const stock::Asked& asked;
};

pb::CoordinatedTaskState StateOf(coord::MemberState state) {
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

void SetTask(MemberIndex member, const Roles& roles, const stock::Asked& asked,
             pb::CoordinatedTask& to) {
  const Roles::Task task = roles.NameOf(member, asked.role);
  to.set_job_name(std::string(task.role));
  to.set_task_id(task.index);
}

void SetPayload(const coord::Error& error, const Roles& roles, const stock::Asked& asked,
                pb::CoordinationServiceError& payload) {
  payload.set_is_reported_error(error.reported);
  if (error.origin) SetTask(*error.origin, roles, asked, *payload.mutable_source_task());
}

EncodedAnswer Encode(const coord::AliveMembers& answer, const Scope& scope) {
  pb::GetAliveTasksResponse response;
  if (answer.members) {
    for (const coord::AliveMember& alive : *answer.members) {
      SetTask(alive.member, scope.roles, scope.asked, *response.add_alive_tasks());
      response.add_incarnations(alive.incarnation.value());
    }
  }
  return stock::Serialized(response);
}

void SetState(const coord::MemberStatus& member, const Scope& scope,
              pb::CoordinatedTaskStateInfo& info) {
  SetTask(member.member, scope.roles, scope.asked, *info.mutable_task());
  info.set_state(StateOf(member.state));
  info.set_incarnation(member.incarnation.value());
  if (!member.error) return;
  info.set_error_code(static_cast<int32_t>(member.error->code));
  info.set_error_message(member.error->message);
  SetPayload(*member.error, scope.roles, scope.asked, *info.mutable_error_payload());
}

// GetTaskState has what was asked for; WatchJobState, the members of one role.
EncodedAnswer Encode(const coord::MembersWatched& answer, const Scope& scope) {
  pb::WatchJobStateResponse response;
  const bool watch = scope.method == Method::kWatchJobState;
  if (watch) response.set_version_number(answer.version);
  if (!answer.members) return stock::Serialized(response);
  for (const coord::MemberStatus& member : *answer.members) {
    const Roles::Task task = scope.roles.NameOf(member.member, scope.asked.role);
    if (watch && task.role != scope.asked.role) continue;
    SetState(member, scope, *response.add_task_state());
  }
  return stock::Serialized(response);
}

EncodedAnswer Encode(const coord::KeysListed& answer, const Scope& scope) {
  return stock::Encode(answer, scope.asked.directory);
}

EncodedAnswer Encode(const coord::BarrierPassed& answer, const Scope& scope) {
  if (scope.method != Method::kWaitForAllTasks) return stock::Encode(answer);
  std::string devices;
  if (answer.values) {
    for (const coord::MemberValue& brought : *answer.values) devices.append(brought.value);
  }
  const int field = scope.asked.first_generation
                        ? pb::WaitForAllTasksResponse::kClusterDeviceInfoFieldNumber
                        : pb::WaitForAllTasksResponse::kDeviceInfoFieldNumber;
  EncodedAnswer encoded;
  stock::AppendFixed64(pb::WaitForAllTasksResponse::kLeaderIncarnationFieldNumber,
                       scope.asked.service.value(), encoded.head);
  stock::AppendBlock(static_cast<uint32_t>(field), devices, encoded.head);
  return encoded;
}

// What both families share; and answers to requests that stock clients cannot make.
template <class Other>
EncodedAnswer Encode(const Other& answer, const Scope&) {
  if constexpr (requires { stock::Encode(answer); }) {
    return stock::Encode(answer);
  } else {
    LOCKSTEP_CHECK(false);
  }
}

}  // namespace

EncodedAnswer EncodeAnswer(Method method, const Roles& roles, const coord::Answer& answer,
                           const stock::Asked& asked) {
  const Scope scope{method, roles, asked};
  return std::visit([&](const auto& some) { return Encode(some, scope); }, answer);
}

stock::EncodedError EncodeError(const Roles& roles, const coord::Error& error,
                                const stock::Asked& asked) {
  pb::CoordinationServiceError payload;
  SetPayload(error, roles, asked, payload);
  return stock::EncodeError(error, payload.SerializeAsString());
}

}  // namespace lockstep::wire::tensorflow

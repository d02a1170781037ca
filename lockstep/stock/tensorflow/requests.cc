#include "lockstep/stock/tensorflow/requests.h"

#include <array>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/stock/wire/requests.h"
#include "proto/compat/tensorflow/coordination_service.pb.h"

namespace lockstep::wire::tensorflow {
namespace {

namespace pb = ::tensorflow;
using Result = std::variant<coord::Event, coord::ErrorPtr>;

// What decoding looks at and leaves behind.
struct Scope {
  const Roles& roles;
  CallContext& context;
  stock::Asked& asked;
};

coord::Caller CallerOf(const Scope& scope) { return {.call = scope.context.call}; }

// The event that `make` builds for the task's member; or why there is no such member.
template <class Make>
Result ForTask(pb::CoordinatedTask& task, Scope& scope, Make make) {
  auto found = scope.roles.Find(task.job_name(), task.task_id());
  if (auto* refusal = std::get_if<coord::ErrorPtr>(&found)) return std::move(*refusal);
  scope.asked.role = std::move(*task.mutable_job_name());
  return make(std::get<MemberIndex>(found));
}

std::vector<MemberIndex> MembersOf(
    const google::protobuf::RepeatedPtrField<pb::CoordinatedTask>& in, const Scope& scope) {
  std::vector<MemberIndex> members;
  members.reserve(static_cast<size_t>(in.size()));
  for (const pb::CoordinatedTask& task : in) {
    members.push_back(scope.roles.FindOrStranger(task.job_name(), task.task_id()));
  }
  return members;
}

Result EventOf(pb::RegisterTaskRequest& request, Scope& scope) {
  pb::CoordinatedTask& task = *request.mutable_source_task();
  return ForTask(task, scope, [&](MemberIndex member) {
    return coord::RegisterMember{.call = scope.context.call,
                                 .member = member,
                                 .incarnation = Incarnation(request.incarnation()),
                                 .deadline = scope.context.deadline,
                                 .peer = std::move(scope.context.peer),
                                 .role = scope.asked.role,
                                 .recoverable = task.recoverable()};
  });
}

Result EventOf(pb::HeartbeatRequest& request, Scope& scope) {
  return ForTask(*request.mutable_source_task(), scope, [&](MemberIndex member) {
    coord::Caller caller = CallerOf(scope);
    caller.incarnation = Incarnation(request.incarnation());
    return coord::Heartbeat{.caller = caller, .member = member, .incarnation = caller.incarnation};
  });
}

// As long as a registration may take; the service of these clients has no option for it either.
constexpr absl::Duration kWaitForAllTimeout = absl::Hours(1);

Result EventOf(pb::WaitForAllTasksRequest& request, Scope& scope) {
  return ForTask(*request.mutable_source_task(), scope, [&](MemberIndex member) {
    scope.asked.first_generation = request.has_local_device_info();
    std::string& devices = scope.asked.first_generation ? *request.mutable_local_device_info()
                                                        : *request.mutable_device_info();
    return coord::ArriveAtBarrier{.caller = CallerOf(scope),
                                  .member = member,
                                  .id = "WaitForAllTasks",
                                  .timeout = kWaitForAllTimeout,
                                  .value = std::move(devices),
                                  .once = true};
  });
}

Result EventOf(pb::ShutdownTaskRequest& request, Scope& scope) {
  return ForTask(*request.mutable_source_task(), scope, [&](MemberIndex member) {
    return coord::LeaveJob{.caller = CallerOf(scope), .member = member};
  });
}

Result EventOf(pb::ResetTaskRequest& request, Scope& scope) {
  return ForTask(*request.mutable_source_task(), scope, [&](MemberIndex member) {
    return coord::ResetMember{.caller = CallerOf(scope), .member = member};
  });
}

Result EventOf(pb::ReportErrorToTaskRequest&, Scope&) {
  return coord::MakeError(absl::StatusCode::kUnimplemented, coord::Reason::kInvalidArgument,
                          "ReportErrorToTask is served by tasks, and called by their service; a "
                          "task reports by ReportErrorToService. Nothing was changed.");
}

Result EventOf(pb::ReportErrorToServiceRequest& request, Scope& scope) {
  return ForTask(*request.mutable_error_origin(), scope, [&](MemberIndex member) {
    return coord::ReportError{.caller = CallerOf(scope),
                              .member = member,
                              .code = stock::ErrorCodeOf(request.error_code()),
                              .message = std::move(*request.mutable_error_message())};
  });
}

Result EventOf(pb::GetTaskStateRequest& request, Scope& scope) {
  if (auto refusal = stock::CheckListed("GetTaskState", request.source_task_size())) return refusal;
  if (request.source_task_size() > 0) scope.asked.role = request.source_task(0).job_name();
  coord::GetMemberStates event{.caller = CallerOf(scope)};
  for (const pb::CoordinatedTask& task : request.source_task()) {
    auto found = scope.roles.Find(task.job_name(), task.task_id());
    if (auto* refusal = std::get_if<coord::ErrorPtr>(&found)) return std::move(*refusal);
    event.members.push_back(std::get<MemberIndex>(found));
  }
  return event;
}

Result EventOf(pb::WatchJobStateRequest& request, Scope& scope) {
  scope.asked.role = std::move(*request.mutable_job_name());
  return stock::WatchMembersOf(request, CallerOf(scope));
}

Result EventOf(pb::InsertKeyValueRequest& request, Scope& scope) {
  return stock::SetKeyOf(request, CallerOf(scope));
}

Result EventOf(pb::GetKeyValueRequest& request, Scope& scope) {
  return stock::GetKeyOf(request, CallerOf(scope));
}

Result EventOf(pb::TryGetKeyValueRequest& request, Scope& scope) {
  return stock::TryGetKeyOf(request, CallerOf(scope));
}

Result EventOf(pb::IncrementKeyValueRequest& request, Scope& scope) {
  return stock::IncrementKeyOf(request, CallerOf(scope));
}

Result EventOf(pb::GetKeyValueDirRequest& request, Scope& scope) {
  scope.asked.directory = request.directory_key();
  return stock::ListKeysOf(request, CallerOf(scope));
}

Result EventOf(pb::DeleteKeyValueRequest& request, Scope& scope) {
  return stock::DeleteKeyOf(request, CallerOf(scope));
}

Result EventOf(pb::BarrierRequest& request, Scope& scope) {
  if (auto refusal = stock::CheckListed("Barrier", request.tasks_size())) return refusal;
  return ForTask(*request.mutable_source_task(), scope, [&](MemberIndex member) {
    coord::ArriveAtBarrier event = stock::ArriveAtBarrierOf(request, CallerOf(scope), member);
    event.members = MembersOf(request.tasks(), scope);
    return event;
  });
}

Result EventOf(pb::CancelBarrierRequest& request, Scope& scope) {
  return ForTask(*request.mutable_source_task(), scope, [&](MemberIndex member) {
    return stock::CancelBarrierOf(request, CallerOf(scope), member);
  });
}

Result EventOf(pb::GetAliveTasksRequest& request, Scope& scope) {
  if (auto refusal = stock::CheckListed("GetAliveTasks", request.tasks_size())) return refusal;
  return ForTask(*request.mutable_requesting_task(), scope, [&](MemberIndex member) {
    return coord::GetAliveMembers{
        .caller = CallerOf(scope), .member = member, .members = MembersOf(request.tasks(), scope)};
  });
}

Result EventOf(pb::PollForErrorRequest& request, Scope& scope) {
  return ForTask(*request.mutable_source_task(), scope, [&](MemberIndex member) {
    return coord::PollForError{.caller = CallerOf(scope), .member = member};
  });
}

template <class Request>
Result Decode(std::string_view method, google::protobuf::io::ZeroCopyInputStream* bytes,
              Scope& scope) {
  auto parsed = stock::Parse<Request>(method, bytes);
  if (auto* refusal = std::get_if<coord::ErrorPtr>(&parsed)) return std::move(*refusal);
  return EventOf(std::get<Request>(parsed), scope);
}

using Decoder = Result (*)(std::string_view, google::protobuf::io::ZeroCopyInputStream*, Scope&);

// Both in the order of `Method`.
constexpr std::array<std::string_view, 19> kNames = {
    "RegisterTask",      "Heartbeat",         "WaitForAllTasks",      "ShutdownTask",
    "ResetTask",         "ReportErrorToTask", "ReportErrorToService", "GetTaskState",
    "WatchJobState",     "InsertKeyValue",    "GetKeyValue",          "TryGetKeyValue",
    "IncrementKeyValue", "GetKeyValueDir",    "DeleteKeyValue",       "Barrier",
    "CancelBarrier",     "GetAliveTasks",     "PollForError"};
constexpr std::array<Decoder, kNames.size()> kDecoders = {&Decode<pb::RegisterTaskRequest>,
                                                          &Decode<pb::HeartbeatRequest>,
                                                          &Decode<pb::WaitForAllTasksRequest>,
                                                          &Decode<pb::ShutdownTaskRequest>,
                                                          &Decode<pb::ResetTaskRequest>,
                                                          &Decode<pb::ReportErrorToTaskRequest>,
                                                          &Decode<pb::ReportErrorToServiceRequest>,
                                                          &Decode<pb::GetTaskStateRequest>,
                                                          &Decode<pb::WatchJobStateRequest>,
                                                          &Decode<pb::InsertKeyValueRequest>,
                                                          &Decode<pb::GetKeyValueRequest>,
                                                          &Decode<pb::TryGetKeyValueRequest>,
                                                          &Decode<pb::IncrementKeyValueRequest>,
                                                          &Decode<pb::GetKeyValueDirRequest>,
                                                          &Decode<pb::DeleteKeyValueRequest>,
                                                          &Decode<pb::BarrierRequest>,
                                                          &Decode<pb::CancelBarrierRequest>,
                                                          &Decode<pb::GetAliveTasksRequest>,
                                                          &Decode<pb::PollForErrorRequest>};

}  // namespace

std::span<const std::string_view> MethodNames() { return kNames; }

stock::Decoded DecodeRequest(Method method, const Roles& roles,
                             google::protobuf::io::ZeroCopyInputStream* bytes,
                             CallContext context) {
  auto asked = std::make_unique<stock::Asked>();
  Scope scope{roles, context, *asked};
  const size_t index = static_cast<size_t>(method);
  Result event = kDecoders[index](kNames[index], bytes, scope);
  return {std::move(event), std::move(asked)};
}

void SetAttempt(ServiceIncarnation service, coord::Event& event, stock::Asked* asked) {
  if (asked) asked->service = service;
  std::visit(
      [&](auto& some) {
        if constexpr (requires { some.caller; }) some.caller.service = service;
      },
      event);
  // A name that no program chooses for a barrier of its own.
  if (auto* arrival = std::get_if<coord::ArriveAtBarrier>(&event); arrival && arrival->once) {
    absl::StrAppend(&arrival->id, "::", service.value());
  }
}

}  // namespace lockstep::wire::tensorflow

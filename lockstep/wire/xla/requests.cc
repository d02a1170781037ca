#include "lockstep/wire/xla/requests.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"
#include "proto/compat/xla/coordination_service.pb.h"

namespace lockstep::wire::xla {
namespace {

namespace pb = ::xla::coordination;
using Result = std::variant<coord::Event, coord::ErrorPtr>;

coord::Caller CallerOf(CallId call, const pb::Incarnations& from) {
  return {.call = call,
          .service = ServiceIncarnation(from.service_incarnation()),
          .incarnation = Incarnation(from.task_incarnation())};
}

// A status code that some client made up is an error all the same, but not success.
absl::StatusCode ErrorCodeOf(int32_t code) {
  const bool known = code > 0 && code <= static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  return known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
}

std::vector<MemberIndex> MembersOf(const google::protobuf::RepeatedField<int32_t>& ids) {
  std::vector<MemberIndex> members;
  members.reserve(static_cast<size_t>(ids.size()));
  for (int32_t id : ids) members.push_back(MemberIndex(id));
  return members;
}

coord::ErrorPtr TooManyMembers(Method method, int listed) {
  return coord::MakeError(
      absl::StatusCode::kResourceExhausted, coord::Reason::kLimitExceeded,
      absl::StrFormat("%s lists %d tasks; a job has at most %d (members_max). Nothing was changed.",
                      std::string(MethodName(method)), listed, kMembersMax));
}

Result EventOf(pb::RegisterTaskRequest& request, CallContext& context) {
  return coord::RegisterMember{.call = context.call,
                               .member = MemberIndex(request.source_task_id()),
                               .incarnation = Incarnation(request.incarnation()),
                               .deadline = context.deadline,
                               .peer = std::move(context.peer)};
}

Result EventOf(pb::HeartbeatRequest& request, CallContext& context) {
  return coord::Heartbeat{.caller = CallerOf(context.call, request.incarnations()),
                          .member = MemberIndex(request.source_task_id()),
                          .incarnation = Incarnation(request.incarnation())};
}

Result EventOf(pb::PollForErrorRequest& request, CallContext& context) {
  return coord::PollForError{.caller = CallerOf(context.call, request.incarnations()),
                             .member = MemberIndex(request.source_task_id())};
}

Result EventOf(pb::ReportErrorToServiceRequest& request, CallContext& context) {
  return coord::ReportError{.caller = CallerOf(context.call, request.incarnations()),
                            .member = MemberIndex(request.source_task_id()),
                            .code = ErrorCodeOf(request.error_code()),
                            .message = std::move(*request.mutable_error_message())};
}

Result EventOf(pb::ShutdownTaskRequest& request, CallContext& context) {
  return coord::LeaveJob{.caller = CallerOf(context.call, request.incarnations()),
                         .member = MemberIndex(request.source_task_id())};
}

Result EventOf(pb::WatchTasksRequest& request, CallContext& context) {
  coord::WatchMembers event{.caller = CallerOf(context.call, request.incarnations())};
  if (request.has_version_number() && request.version_number() != -1) {
    event.version = request.version_number();
  }
  return event;
}

Result EventOf(pb::InsertKeyValueRequest& request, CallContext& context) {
  return coord::SetKey{.caller = CallerOf(context.call, request.incarnations()),
                       .key = std::move(*request.mutable_kv()->mutable_key()),
                       .value = std::move(*request.mutable_kv()->mutable_value()),
                       .overwrite = request.allow_overwrite()};
}

Result EventOf(pb::GetKeyValueRequest& request, CallContext& context) {
  return coord::GetKey{.caller = CallerOf(context.call, request.incarnations()),
                       .key = std::move(*request.mutable_key())};
}

Result EventOf(pb::TryGetKeyValueRequest& request, CallContext& context) {
  return coord::TryGetKey{.caller = CallerOf(context.call, request.incarnations()),
                          .key = std::move(*request.mutable_key())};
}

Result EventOf(pb::IncrementKeyValueRequest& request, CallContext& context) {
  return coord::IncrementKey{.caller = CallerOf(context.call, request.incarnations()),
                             .key = std::move(*request.mutable_key()),
                             .increment = request.increment()};
}

Result EventOf(pb::GetKeyValueDirRequest& request, CallContext& context) {
  return coord::ListKeys{.caller = CallerOf(context.call, request.incarnations()),
                         .directory = std::move(*request.mutable_directory_key())};
}

Result EventOf(pb::DeleteKeyValueRequest& request, CallContext& context) {
  return coord::DeleteKey{.caller = CallerOf(context.call, request.incarnations()),
                          .key = std::move(*request.mutable_key())};
}

Result EventOf(pb::BarrierRequest& request, CallContext& context) {
  if (request.task_ids_size() > kMembersMax) {
    return TooManyMembers(Method::kBarrier, request.task_ids_size());
  }
  return coord::ArriveAtBarrier{
      .caller = CallerOf(context.call, request.incarnations()),
      .member = MemberIndex(request.source_task_id()),
      .id = std::move(*request.mutable_barrier_id()),
      .counter = request.counter(),
      // A time-out in the past is over at once, however far in the past.
      .timeout = absl::Milliseconds(std::max<int64_t>(0, request.barrier_timeout_in_ms())),
      .members = MembersOf(request.task_ids())};
}

Result EventOf(pb::CancelBarrierRequest& request, CallContext& context) {
  coord::CancelBarrier event{.caller = CallerOf(context.call, request.incarnations()),
                             .member = MemberIndex(request.source_task_id()),
                             .id = std::move(*request.mutable_barrier_id())};
  // Zero is not on the wire: it is what every stock client says, whichever instance it means.
  if (request.counter() != 0) event.counter = request.counter();
  return event;
}

Result EventOf(pb::GetAliveTasksRequest& request, CallContext& context) {
  if (request.task_ids_size() > kMembersMax) {
    return TooManyMembers(Method::kGetAliveTasks, request.task_ids_size());
  }
  return coord::GetAliveMembers{.caller = CallerOf(context.call, request.incarnations()),
                                .member = MemberIndex(request.requesting_task_id()),
                                .members = MembersOf(request.task_ids())};
}

template <class Request>
Result Decode(Method method, google::protobuf::io::ZeroCopyInputStream* bytes,
              CallContext& context) {
  Request request;
  if (!request.ParseFromZeroCopyStream(bytes)) {
    return coord::MakeError(
        absl::StatusCode::kInvalidArgument, coord::Reason::kInvalidArgument,
        absl::StrCat("The bytes sent as ", std::string(MethodName(method)), " are not a ",
                     Request::descriptor()->full_name(),
                     " message (or a key in it is not UTF-8). Nothing was changed."));
  }
  return EventOf(request, context);
}

}  // namespace

std::string_view MethodName(Method method) {
  switch (method) {
    case Method::kRegisterTask:
      return "RegisterTask";
    case Method::kHeartbeat:
      return "Heartbeat";
    case Method::kPollForError:
      return "PollForError";
    case Method::kReportErrorToService:
      return "ReportErrorToService";
    case Method::kShutdownTask:
      return "ShutdownTask";
    case Method::kWatchTasks:
      return "WatchTasks";
    case Method::kInsertKeyValue:
      return "InsertKeyValue";
    case Method::kGetKeyValue:
      return "GetKeyValue";
    case Method::kTryGetKeyValue:
      return "TryGetKeyValue";
    case Method::kIncrementKeyValue:
      return "IncrementKeyValue";
    case Method::kGetKeyValueDir:
      return "GetKeyValueDir";
    case Method::kDeleteKeyValue:
      return "DeleteKeyValue";
    case Method::kBarrier:
      return "Barrier";
    case Method::kCancelBarrier:
      return "CancelBarrier";
    case Method::kGetAliveTasks:
      return "GetAliveTasks";
  }
  return "?";
}

Result DecodeRequest(Method method, google::protobuf::io::ZeroCopyInputStream* bytes,
                     CallContext context) {
  switch (method) {
    case Method::kRegisterTask:
      return Decode<pb::RegisterTaskRequest>(method, bytes, context);
    case Method::kHeartbeat:
      return Decode<pb::HeartbeatRequest>(method, bytes, context);
    case Method::kPollForError:
      return Decode<pb::PollForErrorRequest>(method, bytes, context);
    case Method::kReportErrorToService:
      return Decode<pb::ReportErrorToServiceRequest>(method, bytes, context);
    case Method::kShutdownTask:
      return Decode<pb::ShutdownTaskRequest>(method, bytes, context);
    case Method::kWatchTasks:
      return Decode<pb::WatchTasksRequest>(method, bytes, context);
    case Method::kInsertKeyValue:
      return Decode<pb::InsertKeyValueRequest>(method, bytes, context);
    case Method::kGetKeyValue:
      return Decode<pb::GetKeyValueRequest>(method, bytes, context);
    case Method::kTryGetKeyValue:
      return Decode<pb::TryGetKeyValueRequest>(method, bytes, context);
    case Method::kIncrementKeyValue:
      return Decode<pb::IncrementKeyValueRequest>(method, bytes, context);
    case Method::kGetKeyValueDir:
      return Decode<pb::GetKeyValueDirRequest>(method, bytes, context);
    case Method::kDeleteKeyValue:
      return Decode<pb::DeleteKeyValueRequest>(method, bytes, context);
    case Method::kBarrier:
      return Decode<pb::BarrierRequest>(method, bytes, context);
    case Method::kCancelBarrier:
      return Decode<pb::CancelBarrierRequest>(method, bytes, context);
    case Method::kGetAliveTasks:
      return Decode<pb::GetAliveTasksRequest>(method, bytes, context);
  }
  return coord::MakeError(absl::StatusCode::kUnimplemented, coord::Reason::kInvalidArgument,
                          "No such call.");
}

}  // namespace lockstep::wire::xla

#include "lockstep/stock/xla/requests.h"

#include <array>
#include <utility>
#include <vector>

#include "lockstep/stock/wire/requests.h"
#include "proto/compat/xla/coordination_service.pb.h"

namespace lockstep::wire::xla {
namespace {

namespace pb = ::xla::coordination;
using Result = std::variant<coord::Event, coord::ErrorPtr>;

template <class Request>
coord::Caller CallerOf(const Request& request, const CallContext& context) {
  return {.call = context.call,
          .service = ServiceIncarnation(request.incarnations().service_incarnation()),
          .incarnation = Incarnation(request.incarnations().task_incarnation())};
}

std::vector<MemberIndex> MembersOf(const google::protobuf::RepeatedField<int32_t>& ids) {
  std::vector<MemberIndex> members;
  members.reserve(static_cast<size_t>(ids.size()));
  for (int32_t id : ids) members.push_back(MemberIndex(id));
  return members;
}

Result EventOf(pb::RegisterTaskRequest& request, CallContext& context) {
  return coord::RegisterMember{.call = context.call,
                               .member = MemberIndex(request.source_task_id()),
                               .incarnation = Incarnation(request.incarnation()),
                               .deadline = context.deadline,
                               .peer = std::move(context.peer)};
}

Result EventOf(pb::HeartbeatRequest& request, CallContext& context) {
  return coord::Heartbeat{.caller = CallerOf(request, context),
                          .member = MemberIndex(request.source_task_id()),
                          .incarnation = Incarnation(request.incarnation())};
}

Result EventOf(pb::PollForErrorRequest& request, CallContext& context) {
  return coord::PollForError{.caller = CallerOf(request, context),
                             .member = MemberIndex(request.source_task_id())};
}

Result EventOf(pb::ReportErrorToServiceRequest& request, CallContext& context) {
  return coord::ReportError{.caller = CallerOf(request, context),
                            .member = MemberIndex(request.source_task_id()),
                            .code = stock::ErrorCodeOf(request.error_code()),
                            .message = std::move(*request.mutable_error_message())};
}

Result EventOf(pb::ShutdownTaskRequest& request, CallContext& context) {
  return coord::LeaveJob{.caller = CallerOf(request, context),
                         .member = MemberIndex(request.source_task_id())};
}

Result EventOf(pb::WatchTasksRequest& request, CallContext& context) {
  return stock::WatchMembersOf(request, CallerOf(request, context));
}

Result EventOf(pb::InsertKeyValueRequest& request, CallContext& context) {
  return stock::SetKeyOf(request, CallerOf(request, context));
}

Result EventOf(pb::GetKeyValueRequest& request, CallContext& context) {
  return stock::GetKeyOf(request, CallerOf(request, context));
}

Result EventOf(pb::TryGetKeyValueRequest& request, CallContext& context) {
  return stock::TryGetKeyOf(request, CallerOf(request, context));
}

Result EventOf(pb::IncrementKeyValueRequest& request, CallContext& context) {
  return stock::IncrementKeyOf(request, CallerOf(request, context));
}

Result EventOf(pb::GetKeyValueDirRequest& request, CallContext& context) {
  return stock::ListKeysOf(request, CallerOf(request, context));
}

Result EventOf(pb::DeleteKeyValueRequest& request, CallContext& context) {
  return stock::DeleteKeyOf(request, CallerOf(request, context));
}

Result EventOf(pb::BarrierRequest& request, CallContext& context) {
  if (auto refusal = stock::CheckListed("Barrier", request.task_ids_size())) return refusal;
  coord::ArriveAtBarrier event = stock::ArriveAtBarrierOf(request, CallerOf(request, context),
                                                          MemberIndex(request.source_task_id()));
  event.members = MembersOf(request.task_ids());
  return event;
}

Result EventOf(pb::CancelBarrierRequest& request, CallContext& context) {
  return stock::CancelBarrierOf(request, CallerOf(request, context),
                                MemberIndex(request.source_task_id()));
}

Result EventOf(pb::GetAliveTasksRequest& request, CallContext& context) {
  if (auto refusal = stock::CheckListed("GetAliveTasks", request.task_ids_size())) return refusal;
  return coord::GetAliveMembers{.caller = CallerOf(request, context),
                                .member = MemberIndex(request.requesting_task_id()),
                                .members = MembersOf(request.task_ids())};
}

template <class Request>
Result Decode(std::string_view method, google::protobuf::io::ZeroCopyInputStream* bytes,
              CallContext& context) {
  auto parsed = stock::Parse<Request>(method, bytes);
  if (auto* refusal = std::get_if<coord::ErrorPtr>(&parsed)) return std::move(*refusal);
  return EventOf(std::get<Request>(parsed), context);
}

using Decoder = Result (*)(std::string_view, google::protobuf::io::ZeroCopyInputStream*,
                           CallContext&);

// Both in the order of `Method`.
constexpr std::array<std::string_view, 15> kNames = {
    "RegisterTask",   "Heartbeat",      "PollForError", "ReportErrorToService", "ShutdownTask",
    "WatchTasks",     "InsertKeyValue", "GetKeyValue",  "TryGetKeyValue",       "IncrementKeyValue",
    "GetKeyValueDir", "DeleteKeyValue", "Barrier",      "CancelBarrier",        "GetAliveTasks"};
constexpr std::array<Decoder, kNames.size()> kDecoders = {
    &Decode<pb::RegisterTaskRequest>,   &Decode<pb::HeartbeatRequest>,
    &Decode<pb::PollForErrorRequest>,   &Decode<pb::ReportErrorToServiceRequest>,
    &Decode<pb::ShutdownTaskRequest>,   &Decode<pb::WatchTasksRequest>,
    &Decode<pb::InsertKeyValueRequest>, &Decode<pb::GetKeyValueRequest>,
    &Decode<pb::TryGetKeyValueRequest>, &Decode<pb::IncrementKeyValueRequest>,
    &Decode<pb::GetKeyValueDirRequest>, &Decode<pb::DeleteKeyValueRequest>,
    &Decode<pb::BarrierRequest>,        &Decode<pb::CancelBarrierRequest>,
    &Decode<pb::GetAliveTasksRequest>};

}  // namespace

std::span<const std::string_view> MethodNames() { return kNames; }

Result DecodeRequest(Method method, google::protobuf::io::ZeroCopyInputStream* bytes,
                     CallContext context) {
  const size_t index = static_cast<size_t>(method);
  return kDecoders[index](kNames[index], bytes, context);
}

}  // namespace lockstep::wire::xla

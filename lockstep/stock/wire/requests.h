// What the requests of both families of stock clients have in common. Their messages differ in
// field numbers and in how tasks are named, but not in the names of their other fields: the
// templates below take either family's.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"

namespace lockstep::wire::stock {

// A status code that some client made up is an error all the same, but not success.
absl::StatusCode ErrorCodeOf(int32_t code);

// INVALID_ARGUMENT: the bytes are not such a message.
coord::ErrorPtr NotAMessage(std::string_view method, std::string_view message);

// RESOURCE_EXHAUSTED when a request lists more than any job has (`members_max`), else null.
coord::ErrorPtr CheckListed(std::string_view method, int listed);

template <class Request>
std::variant<Request, coord::ErrorPtr> Parse(std::string_view method,
                                             google::protobuf::io::ZeroCopyInputStream* bytes) {
  Request request;
  if (!request.ParseFromZeroCopyStream(bytes)) {
    return NotAMessage(method, Request::default_instance().GetTypeName());
  }
  return request;
}

template <class InsertKeyValueRequest>
coord::SetKey SetKeyOf(InsertKeyValueRequest& request, coord::Caller caller) {
  return {.caller = caller,
          .key = std::move(*request.mutable_kv()->mutable_key()),
          .value = std::move(*request.mutable_kv()->mutable_value()),
          .overwrite = request.allow_overwrite()};
}

template <class GetKeyValueRequest>
coord::GetKey GetKeyOf(GetKeyValueRequest& request, coord::Caller caller) {
  return {.caller = caller, .key = std::move(*request.mutable_key())};
}

template <class TryGetKeyValueRequest>
coord::TryGetKey TryGetKeyOf(TryGetKeyValueRequest& request, coord::Caller caller) {
  return {.caller = caller, .key = std::move(*request.mutable_key())};
}

template <class IncrementKeyValueRequest>
coord::IncrementKey IncrementKeyOf(IncrementKeyValueRequest& request, coord::Caller caller) {
  return {
      .caller = caller, .key = std::move(*request.mutable_key()), .increment = request.increment()};
}

template <class GetKeyValueDirRequest>
coord::ListKeys ListKeysOf(GetKeyValueDirRequest& request, coord::Caller caller) {
  return {.caller = caller, .directory = std::move(*request.mutable_directory_key())};
}

template <class DeleteKeyValueRequest>
coord::DeleteKey DeleteKeyOf(DeleteKeyValueRequest& request, coord::Caller caller) {
  return {.caller = caller, .key = std::move(*request.mutable_key())};
}

// All but the list of members.
template <class BarrierRequest>
coord::ArriveAtBarrier ArriveAtBarrierOf(BarrierRequest& request, coord::Caller caller,
                                         MemberIndex member) {
  return {.caller = caller,
          .member = member,
          .id = std::move(*request.mutable_barrier_id()),
          .counter = request.counter(),
          // A time-out in the past is over at once, however far in the past.
          .timeout = absl::Milliseconds(std::max<int64_t>(0, request.barrier_timeout_in_ms()))};
}

template <class CancelBarrierRequest>
coord::CancelBarrier CancelBarrierOf(CancelBarrierRequest& request, coord::Caller caller,
                                     MemberIndex member) {
  coord::CancelBarrier event{
      .caller = caller, .member = member, .id = std::move(*request.mutable_barrier_id())};
  // Zero is not on the wire: it is what every stock client says, whichever instance it means.
  if (request.counter() != 0) event.counter = request.counter();
  return event;
}

template <class WatchRequest>
coord::WatchMembers WatchMembersOf(const WatchRequest& request, coord::Caller caller) {
  coord::WatchMembers event{.caller = caller};
  if (request.has_version_number() && request.version_number() != -1) {
    event.version = request.version_number();
  }
  return event;
}

}  // namespace lockstep::wire::stock

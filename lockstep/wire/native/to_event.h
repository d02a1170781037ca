// Requests of native clients: bytes -> events of the coordinator. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/events.h"
#include "lockstep/wire/native/field.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::wire::native {

// Whose request it is, and when it came.
struct RequestContext {
  coord::Caller caller;
  Time now;
  std::string_view peer;  // where its link comes from
};

// Of all requests of a session but OpenSession, which names the job first.
//
// Errors carry a reason: INVALID_ARGUMENT (`invalid_argument`) for bytes that are not the message
// and for values that no request may have, UNIMPLEMENTED (`unknown_request`) for other kinds. What
// only the job can judge (members, keys, limits) is judged by the coordinator.
absl::StatusOr<coord::Event> ToEvent(RequestKind kind, std::string_view payload,
                                     const RequestContext& from);

// The 16 bytes of a session's id; all zero is none, and refused. INVALID_ARGUMENT,
// `invalid_argument`.
absl::StatusOr<SessionId> ToSessionId(const Bytes& bytes);
Bytes ToBytes(SessionId session);

}  // namespace lockstep::wire::native

// Why an operation of the rendezvous failed. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lockstep/base/ids.h"

namespace lockstep::rendezvous {

// Why, in one word. The names printed by `ReasonName` are a contract: never renamed, never reused.
enum class Reason {
  kStepAborted,    // somebody aborted the step; the text says who, and why
  kStepClosed,     // the step was closed here, or by the one who would have sent
  kStepNotOpened,  // the sender never opened the step
  kPeerLost,       // the other member died, left or failed
  kPeerRestarted,  // it came back as another incarnation
  kUnreachable,    // it is a member, but no connection to it can be made
  kTimedOut,
  kCancelled,
  kQuotaExceeded,  // too many bytes or values are held for those who have not received them
  kTooManyWaits,   // too many receives wait
  kSizeMismatch,   // what came does not fit where it was to go
  kKeyInvalid,
  kUnknownMember,
  kInvalidArgument,
  kRendezvousClosed,
  kProtocol,  // the other member sent what no version of ours would send
};

// The stable name, such as "step_aborted".
std::string_view ReasonName(Reason reason);

struct Error {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  Reason reason = Reason::kInvalidArgument;
  std::string message;
  // Where it began, when another member told of it: then this is an echo, not the root.
  std::optional<MemberIndex> origin;
};

// Shared, since one abort answers many receives. Null means success.
using ErrorPtr = std::shared_ptr<const Error>;

ErrorPtr MakeError(absl::StatusCode code, Reason reason, std::string message);

}  // namespace lockstep::rendezvous

#include "lockstep/rendezvous/error.h"

#include <iterator>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::rendezvous {

namespace {

struct NamedReason {
  Reason reason;
  std::string_view name;
};

// In the order of `Reason`.
constexpr NamedReason kReasons[] = {
    {Reason::kStepAborted, "step_aborted"},
    {Reason::kStepClosed, "step_closed"},
    {Reason::kStepNotOpened, "step_not_opened"},
    {Reason::kPeerLost, "peer_lost"},
    {Reason::kPeerRestarted, "peer_restarted"},
    {Reason::kUnreachable, "unreachable"},
    {Reason::kTimedOut, "receive_timed_out"},
    {Reason::kCancelled, "cancelled"},
    {Reason::kQuotaExceeded, "quota_exceeded"},
    {Reason::kTooManyWaits, "too_many_waits"},
    {Reason::kSizeMismatch, "size_mismatch"},
    {Reason::kKeyInvalid, "key_invalid"},
    {Reason::kUnknownMember, "unknown_member"},
    {Reason::kInvalidArgument, "invalid_argument"},
    {Reason::kRendezvousClosed, "rendezvous_closed"},
    {Reason::kProtocol, "protocol"},
};

}  // namespace

// In the table are all of them, up to the last.
static_assert(std::size(kReasons) == static_cast<size_t>(Reason::kProtocol) + 1);

std::string_view ReasonName(Reason reason) {
  const auto index = static_cast<size_t>(reason);
  LOCKSTEP_CHECK(index < std::size(kReasons) && kReasons[index].reason == reason);
  return kReasons[index].name;
}

ErrorPtr MakeError(absl::StatusCode code, Reason reason, std::string message) {
  return std::make_shared<const Error>(
      Error{.code = code, .reason = reason, .message = std::move(message)});
}

}  // namespace lockstep::rendezvous

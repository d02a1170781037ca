#include "lockstep/coord/error.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

namespace {

struct NamedReason {
  Reason reason;
  absl::string_view name;
};

// In the order of `Reason`.
constexpr NamedReason kReasons[] = {
    {Reason::kServiceStopped, "service_stopped"},
    {Reason::kWrongServiceIncarnation, "wrong_service_incarnation"},
    {Reason::kUnknownMember, "unknown_member"},
    {Reason::kNotRegistered, "not_registered"},
    {Reason::kMemberLeft, "member_left"},
    {Reason::kMemberFailed, "member_failed"},
    {Reason::kMemberRestarted, "member_restarted"},
    {Reason::kSuperseded, "superseded"},
    {Reason::kHeartbeatTimeout, "heartbeat_timeout"},
    {Reason::kConnectionLost, "connection_lost"},
    {Reason::kProcessEnded, "process_ended"},
    {Reason::kReportedError, "reported_error"},
    {Reason::kRegistrationFailed, "registration_failed"},
    {Reason::kShutdownFailed, "shutdown_failed"},
    {Reason::kClusterFailed, "cluster_failed"},
    {Reason::kBarrierTimedOut, "barrier_timed_out"},
    {Reason::kBarrierCancelled, "barrier_cancelled"},
    {Reason::kBarrierMemberFailed, "barrier_member_failed"},
    {Reason::kBarrierMemberLeft, "barrier_member_left"},
    {Reason::kBarrierCounterMismatch, "barrier_counter_mismatch"},
    {Reason::kBarrierConflictingMembers, "barrier_conflicting_members"},
    {Reason::kBarrierNotParticipant, "barrier_not_participant"},
    {Reason::kBarrierUnknownMember, "barrier_unknown_member"},
    {Reason::kBarrierAlreadyPassed, "barrier_already_passed"},
    {Reason::kBarrierValuesForgotten, "barrier_values_forgotten"},
    {Reason::kAgreementTimedOut, "agreement_timed_out"},
    {Reason::kAgreementCounterMismatch, "agreement_counter_mismatch"},
    {Reason::kAgreementConflict, "agreement_conflict"},
    {Reason::kKeyExists, "key_exists"},
    {Reason::kKeyNotFound, "key_not_found"},
    {Reason::kKeyInvalid, "key_invalid"},
    {Reason::kKeyNotANumber, "key_not_a_number"},
    {Reason::kNumberOverflow, "number_overflow"},
    {Reason::kCallerNotListed, "caller_not_listed"},
    {Reason::kUnknownSession, "unknown_session"},
    {Reason::kNotAMember, "not_a_member"},
    {Reason::kUnknownRole, "unknown_role"},
    {Reason::kJobFull, "job_full"},
    {Reason::kMemberExists, "member_exists"},
    {Reason::kNoPreemption, "no_preemption"},
    {Reason::kWrongAttempt, "wrong_attempt"},
    {Reason::kConditionFailed, "condition_failed"},
    {Reason::kNotPermitted, "not_permitted"},
    {Reason::kInvalidArgument, "invalid_argument"},
    {Reason::kMemoryMax, "memory_max"},
    {Reason::kLimitExceeded, "limit_exceeded"},
    {Reason::kAgentEnded, "agent_ended"},
    {Reason::kHostLost, "host_lost"},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kReasons); ++i) {
    if (kReasons[i].reason != static_cast<Reason>(i)) return false;
  }
  return true;
}
static_assert(InOrder() && kReasons[std::size(kReasons) - 1].reason == kLastReason);

}  // namespace

absl::string_view ReasonName(Reason reason) {
  const auto index = static_cast<size_t>(reason);
  LOCKSTEP_CHECK(index < std::size(kReasons));
  return kReasons[index].name;
}

ErrorPtr MakeError(Error error) { return std::make_shared<const Error>(std::move(error)); }

ErrorPtr MakeError(absl::StatusCode code, Reason reason, std::string message) {
  return MakeError(Error{.code = code, .reason = reason, .message = std::move(message)});
}

std::string ToString(const Error& error) {
  return absl::StrCat(absl::StatusCodeToString(error.code), ": ", error.message);
}

absl::string_view MemberConditionName(MemberCondition condition) {
  switch (condition) {
    case MemberCondition::kMissing:
      return "missing";
    case MemberCondition::kRegistering:
      return "registering";
    case MemberCondition::kConnected:
      return "connected";
    case MemberCondition::kSuspect:
      return "suspect";
    case MemberCondition::kLost:
      return "lost";
    case MemberCondition::kFailed:
      return "failed";
    case MemberCondition::kLeft:
      return "left";
  }
  LOCKSTEP_CHECK(false);
}

absl::string_view AttemptStateName(AttemptState state) {
  switch (state) {
    case AttemptState::kWaiting:
      return "waiting";
    case AttemptState::kRunning:
      return "running";
    case AttemptState::kLeaving:
      return "leaving";
    case AttemptState::kEnded:
      return "ended";
    case AttemptState::kFailed:
      return "failed";
    case AttemptState::kStopped:
      return "stopped";
  }
  LOCKSTEP_CHECK(false);
}

}  // namespace lockstep::coord

#include "lockstep/coord/error.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

absl::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kServiceStopped:
      return "service_stopped";
    case Reason::kWrongServiceIncarnation:
      return "wrong_service_incarnation";
    case Reason::kUnknownMember:
      return "unknown_member";
    case Reason::kNotRegistered:
      return "not_registered";
    case Reason::kMemberLeft:
      return "member_left";
    case Reason::kMemberFailed:
      return "member_failed";
    case Reason::kMemberRestarted:
      return "member_restarted";
    case Reason::kSuperseded:
      return "superseded";
    case Reason::kHeartbeatTimeout:
      return "heartbeat_timeout";
    case Reason::kConnectionLost:
      return "connection_lost";
    case Reason::kProcessEnded:
      return "process_ended";
    case Reason::kReportedError:
      return "reported_error";
    case Reason::kRegistrationFailed:
      return "registration_failed";
    case Reason::kShutdownFailed:
      return "shutdown_failed";
    case Reason::kClusterFailed:
      return "cluster_failed";
    case Reason::kBarrierTimedOut:
      return "barrier_timed_out";
    case Reason::kBarrierCancelled:
      return "barrier_cancelled";
    case Reason::kBarrierMemberFailed:
      return "barrier_member_failed";
    case Reason::kBarrierMemberLeft:
      return "barrier_member_left";
    case Reason::kBarrierCounterMismatch:
      return "barrier_counter_mismatch";
    case Reason::kBarrierConflictingMembers:
      return "barrier_conflicting_members";
    case Reason::kBarrierNotParticipant:
      return "barrier_not_participant";
    case Reason::kBarrierUnknownMember:
      return "barrier_unknown_member";
    case Reason::kBarrierAlreadyPassed:
      return "barrier_already_passed";
    case Reason::kBarrierValuesForgotten:
      return "barrier_values_forgotten";
    case Reason::kAgreementTimedOut:
      return "agreement_timed_out";
    case Reason::kAgreementCounterMismatch:
      return "agreement_counter_mismatch";
    case Reason::kAgreementConflict:
      return "agreement_conflict";
    case Reason::kKeyExists:
      return "key_exists";
    case Reason::kKeyNotFound:
      return "key_not_found";
    case Reason::kKeyInvalid:
      return "key_invalid";
    case Reason::kKeyNotANumber:
      return "key_not_a_number";
    case Reason::kNumberOverflow:
      return "number_overflow";
    case Reason::kCallerNotListed:
      return "caller_not_listed";
    case Reason::kUnknownSession:
      return "unknown_session";
    case Reason::kNotAMember:
      return "not_a_member";
    case Reason::kUnknownRole:
      return "unknown_role";
    case Reason::kJobFull:
      return "job_full";
    case Reason::kMemberExists:
      return "member_exists";
    case Reason::kConditionFailed:
      return "condition_failed";
    case Reason::kInvalidArgument:
      return "invalid_argument";
    case Reason::kLimitExceeded:
      return "limit_exceeded";
  }
  LOCKSTEP_CHECK(false);
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

// What a coordination request is refused or failed with. Pure.
//
// A machine answers with an `Error`; lockstep/wire turns it into the status, payloads and metadata
// that each kind of client tests. Programs test `reason` (stable names, docs/errors.md), people
// read `message`, and the status code says what the caller should do next.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"

namespace lockstep::coord {

// Why, in one word. The names printed by `ReasonName` are a contract: never renamed, never reused.
enum class Reason {
  kServiceStopped,           // this job's coordinator was stopped
  kWrongServiceIncarnation,  // the request belongs to another attempt, or to none
  kUnknownMember,            // no member of this job has that index
  kNotRegistered,            // the member has not registered in this attempt
  kMemberLeft,               // the member has left
  kMemberFailed,             // the member is in error already
  kMemberRestarted,          // the member came back as another incarnation
  kSuperseded,               // a newer call of the same member took this one's place
  kHeartbeatTimeout,         // nothing was heard for heartbeat_timeout
  kConnectionLost,           // the member's connection broke and did not come back
  kProcessEnded,             // its launcher saw the member's process end
  kReportedError,            // the member itself reported an error
  kRegistrationFailed,       // not everybody registered
  kShutdownFailed,           // not everybody reached the end
  kClusterFailed,            // set to error with everybody else, since nobody polls for errors
  kBarrierTimedOut,
  kBarrierCancelled,
  kBarrierMemberFailed,
  kBarrierMemberLeft,
  kBarrierCounterMismatch,
  kBarrierConflictingMembers,
  kBarrierNotParticipant,
  kBarrierUnknownMember,
  kBarrierAlreadyPassed,
  kBarrierValuesForgotten,  // the barrier passed, but what was brought to it is not kept any more
  kAgreementTimedOut,
  kAgreementCounterMismatch,
  kAgreementConflict,  // callers of one agreement name different members or strides
  kKeyExists,
  kKeyNotFound,
  kKeyInvalid,
  kKeyNotANumber,
  kNumberOverflow,
  kCallerNotListed,  // the caller is not in the list that it asks about
  kUnknownSession,   // this server does not know the session, or not any more
  kNotAMember,       // the session has not joined the job
  kUnknownRole,
  kJobFull,          // nobody's index is left
  kMemberExists,     // another process is this member, and lives
  kNoPreemption,     // there is none to cancel or to move
  kWrongAttempt,     // the process was started for another attempt than would take it
  kConditionFailed,  // of a conditional deletion
  kNotPermitted,     // the caller's token or certificate does not allow that
  kInvalidArgument,
  kMemoryMax,      // the server's memory is full; nothing was changed
  kLimitExceeded,  // a named limit; nothing was changed
  kAgentEnded,     // the agent of the member's host disconnected and did not come back
  kHostLost,       // the member's host was given up: its agent was not heard
};
// New ones come behind it: traces of simulations have their numbers.
inline constexpr Reason kLastReason = Reason::kHostLost;

// The stable name, such as "barrier_timed_out".
absl::string_view ReasonName(Reason reason);

// Which instance of a barrier, or of an agreement, an error is about; stock agents take the counter
// of their next call from it.
struct BarrierRef {
  std::string id;
  int64_t counter = 0;
  friend bool operator==(const BarrierRef&, const BarrierRef&) = default;
};

struct Error {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  Reason reason = Reason::kInvalidArgument;
  std::string message;

  // True when the coordination service itself speaks. Stock agents retry or die by it: an error
  // without the mark is taken for a failure of the transport.
  bool from_service = true;
  // The member that the error is about, when it is about one.
  std::optional<MemberIndex> origin;
  // The origin reported the error itself, by request.
  bool reported = false;
  std::optional<BarrierRef> barrier;
  // Set with kWrongServiceIncarnation: the one that would have been right.
  std::optional<ServiceIncarnation> right_service;
  // Of what timed out: who did not come, for programs; JobRecord::ListNames.
  std::string missing;
};

// Shared, because one failure answers a thousand waiters. Null means success.
using ErrorPtr = std::shared_ptr<const Error>;

// Shared by all who are told of it.
ErrorPtr MakeError(Error error);

// The usual case: code, reason and text, spoken by the service.
ErrorPtr MakeError(absl::StatusCode code, Reason reason, std::string message);

// "DEADLINE_EXCEEDED: Barrier timed out ...": as stock clients print a status.
std::string ToString(const Error& error);

}  // namespace lockstep::coord

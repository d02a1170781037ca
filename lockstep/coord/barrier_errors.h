// What callers of barriers are told when something is wrong. Pure; no decision is made here.
//
// Each error names the instance (`barrier 'id::counter'`), who did what, and what to do next. Words
// that stock clients look for ("Barrier timed out", "Conflicting tasks", "A non-participating
// task") stand at the beginning.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// How texts call an instance: barrier 'id::counter'.
std::string NameOfInstance(absl::string_view id, int64_t counter);
inline std::string NameOfInstance(const BarrierRef& barrier) {
  return NameOfInstance(barrier.id, barrier.counter);
}

// Makes the errors of barriers from what is given, and of the job and its members what people need
// to know. Thread-compatible; owns nothing.
class BarrierErrors {
 public:
  // Both must outlive it.
  BarrierErrors(const JobRecord& job, const Membership& membership)
      : job_(job), membership_(membership) {}

  // The request is too large. `brought`: the bytes that the others have brought to the open
  // instance. INVALID_ARGUMENT, invalid_argument: a native caller names no barrier;
  // RESOURCE_EXHAUSTED, limit_exceeded: a limit, which the text names. Null when it fits.
  ErrorPtr OfSizes(const ArriveAtBarrier& request, std::optional<size_t> brought) const;
  // Null when it lists members of the job only.
  ErrorPtr OfUnknownMembers(const BarrierRef& barrier, const ArriveAtBarrier& request) const;
  // The request and what the others want differ. Null when they agree.
  ErrorPtr OfMembers(const BarrierRef& barrier, const Participants& participants,
                     const ArriveAtBarrier& request) const;
  // INVALID_ARGUMENT, barrier_not_participant: the list does not have the member. Null when it
  // does.
  ErrorPtr OfListed(const BarrierRef& barrier, const Participants& participants,
                    MemberIndex member) const;
  // A participant is in error already. Null when none is.
  ErrorPtr OfHealth(const BarrierRef& barrier, const Participants& participants) const;

  // RESOURCE_EXHAUSTED, limit_exceeded: open_barriers_max.
  ErrorPtr TooManyOpen(const ArriveAtBarrier& request, size_t open) const;
  // INTERNAL, barrier_counter_mismatch: nothing is known of the id, so the first counter is 0.
  ErrorPtr FirstWithWrongCounter(const ArriveAtBarrier& request) const;
  // INTERNAL, barrier_counter_mismatch: the caller means another instance than this one.
  ErrorPtr WrongCounter(const BarrierRef& barrier, const ArriveAtBarrier& request) const;
  // DATA_LOSS, barrier_values_forgotten: it passed, and its values are no longer kept.
  ErrorPtr ValuesForgotten(const BarrierRef& barrier) const;
  // CANCELLED, superseded: for the older call of a member that called again.
  ErrorPtr MoreRecentCall(const BarrierRef& barrier, MemberIndex member) const;
  // FAILED_PRECONDITION, barrier_already_passed: for a cancel.
  ErrorPtr AlreadyOver(const BarrierRef& barrier) const;
  // FAILED_PRECONDITION, barrier_counter_mismatch. `current`: -1 when nothing is known of the id.
  ErrorPtr WrongCounterToCancel(const CancelBarrier& request, int64_t current) const;
  // CANCELLED, superseded: for the call of a member's former life.
  ErrorPtr Restarted(const BarrierRef& barrier, MemberIndex member) const;
  // CANCELLED, barrier_cancelled: who did it, and who waited.
  ErrorPtr Cancelled(const BarrierRef& barrier, const Gathering& open, MemberIndex by) const;
  // INTERNAL, barrier_member_failed or barrier_member_left; quotes `because`.
  ErrorPtr ParticipantGone(const BarrierRef& barrier, const Gathering& open,
                           const ErrorPtr& because) const;
  // DEADLINE_EXCEEDED, barrier_timed_out: who is missing, and when each was last heard.
  ErrorPtr TimedOut(Time now, const BarrierRef& barrier, const Gathering& open) const;

 private:
  const JobRecord& job_;
  const Membership& membership_;
};

}  // namespace lockstep::coord

// The barriers of one attempt. Pure. Start here: it is the smallest machine that is whole.
//
// Fed by Attempt, which knows who is alive and answers callers with what is written into Effects.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "lockstep/coord/barrier_errors.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/kept_verdicts.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/participant_index.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// An open barrier as people see it.
BarrierView ViewOf(BarrierRef barrier, const Gathering& gathering);

// Decides when the members that wait under one id may go on together.
//
// An id is used again and again; each use is an instance with a counter, printed `id::counter`.
// Callers say which instance they mean, so that one that was late for the last is not taken for one
// that is early for the next.
//
//   (unseen) --first arrival--> open --all wait--------------------> passed
//                                |  --deadline, cancel, a loss-----> failed
//                                '--the last waiter left-----------> as before
//   passed, failed --arrival with the next counter--> open
//
// Invariants: (1) every arrival is answered exactly once, unless its caller left; (2) an instance
// passes only while all its participants wait; (3) all waiters of an instance get the same verdict,
// and later callers of that instance get it too; (4) a verdict never changes; (5) a call is found
// by its id exactly while it waits in an open instance; (6) what is open with a deadline is found
// by it.
//
// Members may bring values, which all get when the instance passes. They are kept with the verdict
// (KeptVerdicts) for those who ask again, as long as there is room.
//
// A native caller asks again, with the counter that it had, when its link broke before it had the
// answer, and the others may have gone on meanwhile: while the next instance is open, it gets the
// verdict of the last.
//
// Threads: thread-compatible. Bounds: open_barriers_max, barrier_id_bytes_max,
// barrier_value_bytes_max, barrier_values_bytes_max, and those of KeptVerdicts. Time: the timeout
// counts from the first arrival and is the first arriver's.
class BarrierTable {
 public:
  // `job` and `membership` must outlive the table.
  BarrierTable(const JobRecord& job, const Membership& membership);

  // The caller is a member of the job. It is answered when the instance ends: OK with the counter
  // and what the members brought; DEADLINE_EXCEEDED (barrier_timed_out) by the first arriver's
  // timeout; INTERNAL (barrier_member_failed, barrier_member_left) when a participant is gone;
  // CANCELLED (barrier_cancelled). At once: with the verdict of an instance that is over; INTERNAL
  // (barrier_counter_mismatch); INVALID_ARGUMENT (barrier_unknown_member, barrier_not_participant,
  // barrier_conflicting_members: then all who wait get it); RESOURCE_EXHAUSTED (limit_exceeded);
  // DATA_LOSS (barrier_values_forgotten).
  void Arrive(Time now, const ArriveAtBarrier& request, Effects& out);
  // OK: all who wait got CANCELLED. FAILED_PRECONDITION: barrier_already_passed when the instance
  // is over, barrier_counter_mismatch when another one is current.
  void Cancel(const CancelBarrier& request, Effects& out);

  // The member failed or left: what is open and lists it fails with `because`; a recoverable one is
  // only not counted any more.
  void MemberGone(MemberIndex member, const ErrorPtr& because, Effects& out);
  // A recoverable member came back in a new life: its old call is not its own any more.
  void MemberRestarted(MemberIndex member, Effects& out);

  // The caller left. False when no barrier holds the call.
  bool Forget(CallId call);

  // Fails all whose time is up, with barrier_timed_out for each waiter.
  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;  // infinite when none that is open has a deadline

  // Every waiter gets the error; used when the attempt is over. No verdict: nothing is recorded.
  void FailAll(const ErrorPtr& error, Effects& out);

  // INVALID_ARGUMENT: no state could have written this record next.
  absl::Status Apply(Time at, const record::BarrierEnded& record);
  // The verdicts that are kept; what is open is not recorded.
  void Snapshot(std::vector<TimedRecord>& out) const { kept_.Snapshot(out); }

  size_t waits() const { return calls_.size(); }  // calls that wait
  size_t kept() const { return kept_.size(); }    // ids with a verdict that are not open
  size_t open() const { return open_.size(); }    // instances that have begun and not ended
  // What it holds, about as it costs.
  size_t memory() const { return memory_ + kept_.memory(); }
  // The oldest open ones, at most so many.
  std::vector<BarrierView> View(size_t rows_max) const;

 private:
  // The instance of an id that members wait in.
  struct Instance {
    std::string id;
    int64_t counter = 0;
    Participants participants;  // null: the list is not lawful
    std::optional<Gathering> gathering;
    std::map<MemberIndex, std::string> brought;  // by those who wait
    size_t brought_bytes = 0;
    size_t cost = 0;  // as it was counted last, in bytes

    BarrierRef ref() const { return {id, counter}; }
  };
  struct Waiter {
    Instance* instance;
    MemberIndex member;
  };

  void AnswerLate(const KeptVerdicts::Verdict& last, const ArriveAtBarrier& request,
                  Effects& out) const;
  // Null when the instance has failed at once; then its verdict is kept.
  Instance* Open(Time now, const ArriveAtBarrier& request, Effects& out);
  void Join(Instance& instance, const ArriveAtBarrier& request, Effects& out);

  // Ends with a verdict, which is recorded and kept; `tell`: a failure is worth a line of its own.
  void End(Instance& instance, ErrorPtr error, Effects& out, bool tell = true);
  // Answers who waits, and destroys the instance.
  void Close(Instance& instance, const ErrorPtr& error, const MemberValues& values, Effects& out);
  // Call it after a member's call was withdrawn from the gathering. If no member waits any more, it
  // destroys the instance and restores the id.
  void Withdraw(Instance& instance, MemberIndex member);
  void DropBrought(Instance& instance, MemberIndex member);
  void Count(Instance& instance);
  void Erase(Instance& instance);
  bool InvariantsHold() const;  // ends the process otherwise

  const JobRecord& job_;
  const BarrierErrors errors_;
  KeptVerdicts kept_;
  std::map<std::string, Instance> open_;
  ParticipantIndex<Instance> index_;
  std::set<std::pair<Time, std::string>> deadlines_;
  absl::flat_hash_map<CallId, Waiter> calls_;  // looked up only
  size_t memory_ = 0;                          // the costs of what is open
};

}  // namespace lockstep::coord

// The barriers of one attempt. Pure. Start here: it is the smallest machine that is whole.
//
// Fed by Attempt, which knows who is alive and answers callers with what is written into Effects.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/participant_index.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

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
// and later callers of that instance get it too; (4) a verdict never changes.
//
// Members may bring values, which all get when the instance passes. They are kept with the verdict
// for those who ask again, as long as there is room.
//
// A native caller asks again, with the counter that it had, when its link broke before it had the
// answer, and the others may have gone on meanwhile: while the next instance is open, it gets the
// verdict of the last.
//
// Threads: thread-compatible. Bounds: open_barriers_max, kept_barriers_max, barrier_id_bytes_max,
// barrier_value_bytes_max, barrier_values_bytes_max, kept_barrier_values_bytes_max.
// Time: the timeout counts from the first arrival and is the first arriver's.
class BarrierTable {
 public:
  // `job` and `membership` must outlive the table.
  BarrierTable(const JobRecord& job, const Membership& membership);

  // The caller is a member of the job.
  void Arrive(Time now, const ArriveAtBarrier& request, Effects& out);
  void Cancel(const CancelBarrier& request, Effects& out);

  // The member failed or left: what is open and lists it fails with `because`; a recoverable one is
  // only not counted any more.
  void MemberGone(MemberIndex member, const ErrorPtr& because, Effects& out);
  // A recoverable member came back in a new life: its old call is not its own any more.
  void MemberRestarted(MemberIndex member, Effects& out);

  // The caller left. False when no barrier holds the call.
  bool Forget(CallId call);

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  // Every waiter gets the error; used when the attempt is over. No verdict: nothing is recorded.
  void FailAll(const ErrorPtr& error, Effects& out);

  absl::Status Apply(Time at, const record::BarrierEnded& record);
  void Snapshot(std::vector<TimedRecord>& out) const;

  size_t waits() const { return calls_.size(); }
  size_t kept() const { return ended_.size(); }
  size_t open() const { return open_.size(); }
  // What it holds, about as it costs.
  size_t memory() const { return memory_; }
  // The oldest open ones, at most so many.
  std::vector<BarrierView> View(size_t rows_max) const;

 private:
  // One id.
  struct Barrier {
    std::string id;
    Participants participants;        // null until an instance had a lawful list
    std::unique_ptr<Gathering> open;  // null between instances
    int64_t counter = 0;              // of the open instance, else of the last one
    bool ended = false;  // whether an instance ended; then `verdict` is how (null: passed)
    ErrorPtr verdict;
    std::list<Barrier*>::iterator place;  // in ended_, when ended and not open
    // What the waiting have brought to the open instance.
    std::map<MemberIndex, std::string> brought;
    size_t brought_bytes = 0;
    // Of the instance that `verdict` is of.
    MemberValues values;
    size_t values_bytes = 0;
    bool values_forgotten = false;
    std::list<Barrier*>::iterator values_place;  // in valued_, with `values`
    size_t cost = 0;                             // as it was counted last, in bytes
  };

  // The call of an instance that is over is answered with what is kept of it.
  bool IsOver(const Barrier* barrier, const ArriveAtBarrier& request) const;
  void AnswerKept(const Barrier& barrier, const ArriveAtBarrier& request, Effects& out) const;
  bool Opens(const Barrier* barrier, const ArriveAtBarrier& request) const;
  Barrier& Open(Time now, const ArriveAtBarrier& request, Effects& out);
  void Join(Barrier& barrier, const ArriveAtBarrier& request, Effects& out);

  // Null when the request is lawful; they differ in what they look at.
  ErrorPtr CheckSizes(const Barrier* barrier, const ArriveAtBarrier& request) const;
  ErrorPtr CheckList(const Barrier& barrier, const ArriveAtBarrier& request) const;
  ErrorPtr CheckHealth(const Barrier& barrier) const;
  ErrorPtr CheckCounter(const Barrier& barrier, const ArriveAtBarrier& request) const;
  ErrorPtr CheckMembers(const Barrier& barrier, const ArriveAtBarrier& request) const;
  ErrorPtr CheckListed(const Barrier& barrier, const Participants& participants,
                       MemberIndex member) const;

  // Its members wait no longer; answers them.
  void Close(Barrier& barrier, const ErrorPtr& verdict, const MemberValues& values, Effects& out);
  // `tell`: a failure is worth a line of its own.
  void End(Barrier& barrier, ErrorPtr verdict, Effects& out, bool tell = true);
  void Abandon(Barrier& barrier);
  void Withdraw(Barrier& barrier, MemberIndex member);
  void DropBrought(Barrier& barrier, MemberIndex member);
  void Count(Barrier& barrier);
  void Erase(const std::string& id);
  // The verdict of the instance `barrier.counter`, live or restored.
  void Keep(Barrier& barrier, ErrorPtr verdict, MemberValues values, bool forgotten);
  void DropValues(Barrier& barrier);
  void ForgetOldest();
  std::vector<MemberIndex> ListedBy(const Barrier& barrier) const;
  Participants ListOf(const ArriveAtBarrier& request) const;
  // `2/3 members; missing task/1#1`
  std::string Progress(const Barrier& barrier) const;
  ErrorPtr TimedOut(Time now, const Barrier& barrier) const;

  const JobRecord& job_;
  const Membership& membership_;
  const Participants everybody_;
  std::map<std::string, Barrier> barriers_;
  ParticipantIndex<Barrier> index_;  // of those that are open
  std::set<std::string> open_;
  std::set<std::pair<Time, std::string>> deadlines_;
  std::list<Barrier*> ended_;   // oldest end first
  std::list<Barrier*> valued_;  // those with values, oldest first
  size_t values_bytes_ = 0;     // of all kept values
  size_t memory_ = 0;           // the costs of all barriers
  bool forgot_some_ = false;    // ids beyond kept_barriers_max may have been dropped
  absl::flat_hash_map<CallId, std::pair<Barrier*, MemberIndex>> calls_;  // looked up only
};

}  // namespace lockstep::coord

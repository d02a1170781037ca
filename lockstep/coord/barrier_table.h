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
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/membership.h"

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
// Threads: thread-compatible. Bounds: open_barriers_max, kept_barriers_max, barrier_id_bytes_max.
// Time: the timeout counts from the first arrival and is the first arriver's.
class BarrierTable {
 public:
  // `job` and `membership` must outlive the table.
  BarrierTable(const JobRecord& job, const Membership& membership);

  // The caller is a member of the job.
  void Arrive(Time now, const ArriveAtBarrier& request, Effects& out);
  void Cancel(const CancelBarrier& request, Effects& out);

  // The member failed or left: what is open and lists it fails with `because`; with recoverable
  // members it is only not counted any more.
  void MemberGone(MemberIndex member, const ErrorPtr& because, Effects& out);
  // A recoverable member came back in a new life: its old call is not its own any more.
  void MemberRestarted(MemberIndex member, Effects& out);

  // The caller left. False when no barrier holds the call.
  bool Forget(CallId call);

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  // Every waiter gets the error; used when the attempt is over.
  void FailAll(const ErrorPtr& error, Effects& out);

  size_t waits() const { return calls_.size(); }
  size_t kept() const { return ended_.size(); }
  size_t open() const { return open_.size(); }
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
  };

  bool Opens(const Barrier* barrier, const ArriveAtBarrier& request) const;
  Barrier& Open(Time now, const ArriveAtBarrier& request, Effects& out);
  void Join(Barrier& barrier, const ArriveAtBarrier& request, Effects& out);

  // Null when the request is lawful; they differ in what they look at.
  ErrorPtr CheckList(const Barrier& barrier, const ArriveAtBarrier& request) const;
  ErrorPtr CheckHealth(const Barrier& barrier) const;
  ErrorPtr CheckCounter(const Barrier& barrier, const ArriveAtBarrier& request) const;
  ErrorPtr CheckMembers(const Barrier& barrier, const ArriveAtBarrier& request) const;

  void End(Barrier& barrier, ErrorPtr verdict, Effects& out);
  void Abandon(Barrier& barrier);
  void ForgetOldest();
  Participants ListOf(const ArriveAtBarrier& request) const;
  ErrorPtr TimedOut(Time now, const Barrier& barrier) const;

  const JobRecord& job_;
  const Membership& membership_;
  const Participants everybody_;
  std::map<std::string, Barrier> barriers_;
  std::set<std::string> open_;
  std::set<std::pair<Time, std::string>> deadlines_;
  std::list<Barrier*> ended_;  // oldest end first
  bool forgot_some_ = false;   // ids beyond kept_barriers_max were dropped
  absl::flat_hash_map<CallId, std::pair<Barrier*, MemberIndex>> calls_;  // looked up only
};

}  // namespace lockstep::coord

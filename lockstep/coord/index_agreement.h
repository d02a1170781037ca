// Members that agree on a future index: a step at which all act together. Pure.
#pragma once

#include <cstdint>
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
#include "lockstep/coord/participant_index.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Each asks with the first index at which it can still act, and waits before that one. When all
// have asked who are still there, all are told the same: the lowest multiple of the stride that
// none of them has passed.
//
// Unlike at a barrier, a member that leaves or is lost is not waited for and harms nobody: the
// others decide without it. A name is used again and again; each use is an instance with a counter.
//
//   (unseen) --first asks--> open --all connected members of it wait--> agreed
//                             |  --deadline, a disagreement-----------> failed
//                             '--the last that waits left-------------> as before
//   agreed, failed --asked with the next counter--> open
//
// Invariants: (1) every question is answered exactly once, unless its caller left; (2) an instance
// is agreed only while all its connected participants wait, and on no index below one that they
// named; (3) all who wait get the same verdict, and so does who asks for it later; (4) a verdict
// never changes.
//
// Threads: thread-compatible. Bounds, shared with the barriers by name: open_barriers_max,
// kept_barriers_max, barrier_id_bytes_max. Time: the timeout counts from the first question and is
// the first caller's.
class IndexAgreement {
 public:
  // `job` and `membership` must outlive it.
  IndexAgreement(const JobRecord& job, const Membership& membership);

  // The caller is a member of the job.
  void Ask(Time now, const AgreeOnIndex& request, Effects& out);

  // The member is not connected any more: its questions fail with `because`, and it is not awaited.
  void MemberGone(MemberIndex member, const ErrorPtr& because, Effects& out);
  // It is connected in a new life, which is awaited; what the former one asked fails.
  void MemberRestarted(MemberIndex member, const ErrorPtr& because, Effects& out);

  // The caller left. False when it waits for no agreement.
  bool Forget(CallId call);

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  // Every waiter gets the error; used when the attempt is over. No verdict: nothing is recorded.
  void FailAll(const ErrorPtr& error, Effects& out);

  absl::Status Apply(Time at, const record::IndexAgreed& record);
  void Snapshot(std::vector<TimedRecord>& out) const;

  size_t waits() const { return calls_.size(); }
  size_t kept() const { return ended_.size(); }

 private:
  struct Open {
    Open(Participants participants, Time opened, Time deadline, int64_t stride_in)
        : gathering(std::move(participants), opened, deadline), stride(stride_in) {}

    Gathering gathering;
    int64_t stride;
    absl::flat_hash_map<MemberIndex, int64_t>
        asked;        // by those who wait; only their maximum is used
    size_t next = 0;  // all participants before this one wait, or are not connected
  };
  // One name.
  struct Agreement {
    std::string id;
    int64_t counter = 0;         // of the open instance, else of the last one
    std::unique_ptr<Open> open;  // null between instances
    // Of the last instance that ended, when one did.
    bool ended = false;
    ErrorPtr verdict;  // null: agreed on `index`
    int64_t index = 0;
    std::vector<MemberIndex> members;       // empty: everybody
    std::list<Agreement*>::iterator place;  // in ended_, when ended and not open
  };

  // Null when the request is lawful; otherwise its caller alone is refused.
  ErrorPtr CheckRequest(const AgreeOnIndex& request) const;
  ErrorPtr CheckCaller(const AgreeOnIndex& request) const;
  // Null when it fits the open instance; otherwise that one fails for all.
  ErrorPtr CheckFits(const Agreement& agreement, const AgreeOnIndex& request) const;

  // Null: the request was answered.
  Agreement* FindOrOpen(Time now, const AgreeOnIndex& request, Effects& out);
  static void AnswerKept(const Agreement& agreement, CallId call, Effects& out);
  Participants ListOf(const AgreeOnIndex& request) const;

  // Ends the instance when nobody is awaited, or when nobody waits any more.
  void Settle(Agreement& agreement, Effects& out);
  void Withdraw(Agreement& agreement, MemberIndex member);
  std::vector<MemberIndex> AwaitedBy(const Agreement& agreement) const;
  void Close(Agreement& agreement, const ErrorPtr& verdict, int64_t index, Effects& out);
  void End(Agreement& agreement, ErrorPtr verdict, int64_t index, Effects& out);
  void Keep(Agreement& agreement, ErrorPtr verdict, int64_t index,
            std::vector<MemberIndex> members);
  void Abandon(Agreement& agreement);
  void Unlist(Agreement& agreement);
  void ForgetOldest();
  ErrorPtr TimedOut(Time now, const Agreement& agreement) const;

  const JobRecord& job_;
  const Membership& membership_;
  const Participants everybody_;
  std::map<std::string, Agreement> agreements_;
  ParticipantIndex<Agreement> index_;  // of those that are open
  std::set<std::string> open_;
  std::set<std::pair<Time, std::string>> deadlines_;
  std::list<Agreement*> ended_;  // oldest end first
  bool forgot_some_ = false;     // names beyond kept_barriers_max may have been dropped
  absl::flat_hash_map<CallId, std::pair<Agreement*, MemberIndex>> calls_;  // looked up only
};

}  // namespace lockstep::coord

// Members that agree on a future index: a step at which all act together. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "lockstep/coord/agreement_errors.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/kept_agreements.h"
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
// never changes; (5) a call is found by its id exactly while it waits in an open instance; (6) what
// is open with a deadline is found by it.
//
// Threads: thread-compatible. Bounds, shared with the barriers by name: open_barriers_max,
// kept_barriers_max, barrier_id_bytes_max. Time: the timeout counts from the first question and is
// the first caller's.
class IndexAgreement {
 public:
  // `job` and `membership` must outlive it.
  IndexAgreement(const JobRecord& job, const Membership& membership);

  // The caller is a member of the job. It is answered when the instance ends: with IndexAgreed;
  // DEADLINE_EXCEEDED (agreement_timed_out) by the first caller's timeout; OUT_OF_RANGE
  // (number_overflow); INVALID_ARGUMENT (agreement_conflict) and ABORTED
  // (agreement_counter_mismatch) when a caller disagrees, which all who wait get; CANCELLED
  // (superseded) when the member asks again. At once: with the verdict of the last instance;
  // INVALID_ARGUMENT (invalid_argument, unknown_member, caller_not_listed); FAILED_PRECONDITION
  // (not_registered, member_left, member_failed); RESOURCE_EXHAUSTED (limit_exceeded).
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

  // INVALID_ARGUMENT: no state could have written this record next.
  absl::Status Apply(Time at, const record::IndexAgreed& record);
  void Snapshot(std::vector<TimedRecord>& out) const { kept_.Snapshot(out); }

  size_t waits() const { return calls_.size(); }
  size_t kept() const { return kept_.size(); }

 private:
  // The instance of a name that members wait in.
  struct Instance {
    std::string id;  // its name
    int64_t counter = 0;
    int64_t stride = 1;
    Gathering gathering;
    // By those who wait; only their maximum is used.
    absl::flat_hash_map<MemberIndex, int64_t> asked = {};
    size_t next = 0;  // all participants before this one wait, or are not connected

    BarrierRef ref() const { return {id, counter}; }
  };
  struct Waiter {
    Instance* instance;
    MemberIndex member;
  };

  // Null: the request was answered.
  Instance* FindOrOpen(Time now, const AgreeOnIndex& request, Effects& out);
  Participants ListOf(const AgreeOnIndex& request) const;

  // Ends the instance when nobody is awaited, or when nobody waits any more.
  void Settle(Instance& instance, Effects& out);
  // The member's call is withdrawn from the gathering already.
  void Withdraw(Instance& instance, MemberIndex member);
  // Ends with a verdict, which is recorded and kept. Destroys the instance.
  void End(Instance& instance, ErrorPtr verdict, int64_t index, Effects& out);
  // Answers who waits, keeps the verdict, and destroys the instance.
  void Close(Instance& instance, KeptAgreements::Verdict verdict, Effects& out);
  // Nobody waits any more: the name is as it was before the instance, which is destroyed.
  void Abandon(Instance& instance);
  void Erase(Instance& instance);
  bool InvariantsHold() const;  // ends the process otherwise

  const JobRecord& job_;
  const Membership& membership_;
  const AgreementErrors errors_;
  KeptAgreements kept_;
  std::map<std::string, Instance> open_;
  ParticipantIndex<Instance> index_;
  std::set<std::pair<Time, std::string>> deadlines_;
  absl::flat_hash_map<CallId, Waiter> calls_;  // looked up only
};

}  // namespace lockstep::coord

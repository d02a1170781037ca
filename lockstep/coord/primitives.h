// The coordination primitives of one attempt: what its members and their tools share. Pure.
//
// Fed by Attempt with requests, and by MemberLifecycle with what becomes of members.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/coord/alive_sets.h"
#include "lockstep/coord/barrier_table.h"
#include "lockstep/coord/call_gate.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/index_agreement.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/key_values.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/preemption_sync.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/stock_preemption.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

// Owns barriers, agreements on an index, keys, sets of members that ask who is alive, and the
// preemption. Checks each request at the gate before its machine sees it, and tells each machine
// when a member goes or comes back, always in the same order.
//
// Threads: thread-compatible. Bounds and times: those of the machines.
class Primitives {
 public:
  // All three must outlive it. `first_revision`: of the empty store of keys.
  Primitives(const JobRecord& job, const Membership& membership, CallGate& gate,
             int64_t first_revision);

  // Answered by the gate, or as the machine says. Further: INVALID_ARGUMENT (caller_not_listed);
  // FAILED_PRECONDITION (not_a_member) for a key that would die with a member, if the caller is
  // none; NOT_FOUND (unknown_member) for a preemption of a host that no member runs on.
  void Handle(Time now, SetKey&& request, Effects& out);
  void Handle(Time now, CompareAndSetKey&& request, Effects& out);
  void Handle(Time now, const GetKey& request, Effects& out);
  void Handle(Time now, const TryGetKey& request, Effects& out);
  void Handle(Time now, GetKeys request, Effects& out);
  void Handle(Time now, const WatchKeys& request, Effects& out);
  void Handle(Time now, const IncrementKey& request, Effects& out);
  void Handle(Time now, const MaxKey& request, Effects& out);
  void Handle(Time now, const ListKeys& request, Effects& out);
  void Handle(Time now, const DeleteKey& request, Effects& out);
  void Handle(Time now, const ArriveAtBarrier& request, Effects& out);
  void Handle(Time now, const CancelBarrier& request, Effects& out);
  void Handle(Time now, const AgreeOnIndex& request, Effects& out);
  void Handle(Time now, GetAliveMembers request, Effects& out);
  void Handle(Time now, const NotifyPreemption& request, Effects& out);
  void Handle(Time now, const WatchPreemption& request, Effects& out);
  void Handle(Time now, const AnswerHold& request, Effects& out);
  void Handle(Time now, const ReportSave& request, Effects& out);

  // The member has begun to leave: it takes no further step.
  void MemberLeaves(Time now, MemberIndex member, Effects& out);
  // The member is not connected any more, because it left or was lost.
  void MemberGone(Time now, MemberIndex member, const ErrorPtr& because, Effects& out);
  // A member comes back in another life: first what the former one waits for at barriers is not the
  // new one's; then, when that is connected, all else of the former one ends with `because`.
  void EndFormerLife(MemberIndex member, Effects& out);
  void MemberIsBack(MemberIndex member, const ErrorPtr& because, Effects& out);

  // The caller left. False when the call does not wait here.
  bool Forget(CallId call);

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;
  // Stock members are told and heard, watchers of the preemption answered. After every event.
  void Settle(Time now, Effects& out);
  // The preemption ends with the attempt.
  void AttemptEnds(Time now, Effects& out);

  // Members that wait for each other get these errors.
  void FailGatherings(const ErrorPtr& at_barriers, const ErrorPtr& at_agreements, Effects& out);
  // All others that wait get the error.
  void FailOthers(const ErrorPtr& error, Effects& out);
  // Those who watch the preemption get the error.
  void FailPreemptionWatches(const ErrorPtr& error, Effects& out);
  // The next attempt begins, with its keys at `next_revision`: all others that wait get the error,
  // but for tools that watch keys and go on there.
  void Close(const ErrorPtr& error, int64_t next_revision, Effects& out);

  // INVALID_ARGUMENT: no state could have written this record next.
  absl::Status Apply(Time at, const record::KeySet& record);
  absl::Status Apply(Time at, const record::KeyDeleted& record);
  absl::Status Apply(Time at, const record::OwnerGone& record);
  absl::Status Apply(Time at, const record::BarrierEnded& record);
  absl::Status Apply(Time at, const record::IndexAgreed& record);
  absl::Status Apply(Time at, const record::PreemptionChanged& record);
  absl::Status Apply(Time at, const record::SyncMemberChanged& record);
  void Restored(Time now, Effects& out) { preemption_.Restored(now, out); }
  void Snapshot(std::vector<TimedRecord>& records) const;

  size_t waits() const;
  // What the barriers hold, about as it costs; the keys tell of themselves.
  size_t memory() const { return barriers_.memory(); }
  const KeyValues& keys() const { return keys_; }
  // Long deletions that ended since the last call.
  std::vector<KeyDeletions::Ended> TakeDeleted() { return keys_.TakeDeleted(); }
  // The open barriers: the oldest, and how many there are.
  BarriersListed OpenBarriers() const;
  // Keys and the preemption.
  void FillView(Time now, CoordinatorView& view) const;

 private:
  // The member that a key is going to belong to. False: the caller was refused.
  bool FindOwner(const Caller& caller, const KeyLifetime& lifetime,
                 std::optional<MemberIndex>& owner, Effects& out) const;

  const JobRecord& job_;
  const Membership& membership_;
  CallGate& gate_;
  BarrierTable barriers_;
  IndexAgreement agreements_;
  KeyValues keys_;
  AliveSets alive_;
  PreemptionSync preemption_;
  StockPreemption stock_;
};

}  // namespace lockstep::coord

// Preemptions: from the notice that somebody will die to the step at which all have saved. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/preemption.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Picks the step at which all members save, and follows them there.
//
//   none, ended --notice--> pending --preempt_window before the death--> fencing
//   fencing --all who are awaited have answered, or preempt_sync_timeout--> agreed
//           --no step in time, none in common, nobody answers, withdrawn----> ended
//   agreed  --everybody has saved, failed, finished or gone, or time is up--> ended
//
// Each member that listens is asked in kFencing. From the moment that it reads the question it goes
// no further than the first step it has not begun, and tells which that is. The sync step is the
// lowest that is in nobody's past and on everybody's stride. Since a member that has answered waits
// before its first step, nobody can slip past the sync step while it is chosen; who does not answer
// in time is left out, and told afterwards that it was too late.
//
// Stock JAX members speak a protocol of their own, among themselves (`Stock...` below): they are
// told by upstream's key, and what they agree on is only read along. With that the preemption ends,
// since they never say that they saved.
//
// Invariants: (1) a preemption has at most one sync step, which never changes; (2) it is no step
// below one that a member offered and has not withdrawn by going; (3) every preemption ends, once,
// with an outcome; (4) a notice that was seen once (source and event) opens nothing anew.
//
// Threads: thread-compatible. Bounds: preempt_notices_max open notices; kRecentEvents that are
// remembered; one entry a member; watches are parked calls (waits_max).
class PreemptionSync {
 public:
  // As many notices of ended preemptions are told from new ones.
  static constexpr size_t kRecentEvents = 256;

  // `job` and `membership` must outlive it.
  PreemptionSync(const JobRecord& job, const Membership& membership);

  // `subjects` are members of the job.
  void Handle(Time now, const NotifyPreemption& request, Effects& out);
  void Handle(Time now, const WatchPreemption& request, Effects& out);
  void Handle(Time now, const AnswerFence& request, Effects& out);
  void Handle(Time now, const ReportSave& request, Effects& out);

  // The member has begun to leave, and polls no step while it waits for the others to leave, too.
  void MemberLeaves(Time now, MemberIndex member, Effects& out);
  // The member left or was lost, for the reason that the text says.
  void MemberGone(Time now, MemberIndex member, bool left, const std::string& how, Effects& out);

  // A stock member published its counter; all of them met, and go on to save after the highest
  // (absent: they met in vain).
  void StockAnswered(Time now, MemberIndex member, int64_t counter, Effects& out);
  void StockMet(Time now, bool passed, Effects& out);
  // Stock members have to be told: once for each preemption that opens.
  bool TakeStockNotice() { return std::exchange(stock_notice_due_, false); }

  // The caller left. False when it does not watch here.
  bool Forget(CallId call) { return parked_.erase(call) > 0; }

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  // Answers the watchers of older versions. To be called after every event.
  void Flush(Effects& out);
  // The preemption ends with its attempt.
  void AttemptEnds(Time now, Effects& out);
  // Every watcher gets the error.
  void FailAll(const ErrorPtr& error, Effects& out);

  absl::Status Apply(Time at, const record::PreemptionChanged& record);
  absl::Status Apply(Time at, const record::SyncMemberChanged& record);
  // All records are applied: who was asked is asked again.
  void Restored(Time now, Effects& out);
  void Snapshot(std::vector<TimedRecord>& out) const;

  const PreemptionState& state() const { return *state_; }
  std::vector<SyncMember> Members() const;
  size_t waits() const { return parked_.size(); }

 private:
  struct Entry {
    SyncState state = SyncState::kAsked;
    std::optional<int64_t> step;
    std::string text;
    bool left = false;  // in kReached: it left as it should, and will not say that it saved
    int64_t stride = 1;
    std::optional<int64_t> last_step;
    absl::Duration step_time;
    absl::Duration save_time;
  };

  bool open() const {
    return state_->phase != PreemptionPhase::kNone && state_->phase != PreemptionPhase::kEnded;
  }

  // --- Notices ---
  ErrorPtr CheckNotice(const NotifyPreemption& request) const;
  void Extend(Time now, const NotifyPreemption& request, Time death, Effects& out);
  void Withdraw(Time now, const NotifyPreemption& request, Effects& out);
  void Begin(Time now, PreemptionNotice notice, Effects& out);
  void Add(Time now, PreemptionNotice notice, Effects& out);
  // It tells of the death that the last preemption was about, learnt in another way.
  bool IsAfterthought(const PreemptionNotice& notice) const;
  void SettleWindow(Time now, Effects& out);

  // --- Agreeing ---
  void OpenFence(Time now, Effects& out);
  void Consider(Time now, Effects& out);
  void Decide(Time now, Effects& out);
  void Agree(Time now, int64_t step, Effects& out);
  // Null when the members can save at that step before they die; otherwise who cannot, and why.
  std::optional<std::string> TooLate(Time now, int64_t step) const;

  // --- Following ---
  void SetMember(MemberIndex member, Entry entry, Effects& out);
  void EndIfDone(Time now, Effects& out);
  void EndByMembers(Time now, absl::string_view why, Effects& out);
  void End(Time now, PreemptionOutcome outcome, std::string text, Effects& out);

  // A copy to be changed, with the next version; `Publish` makes it the state.
  PreemptionState Next() const;
  void Publish(Time now, PreemptionState next, Effects& out);
  std::string Named() const;  // "preemption 2"
  std::string NameSubjects() const;
  std::vector<MemberIndex> InState(SyncState state) const;

  const JobRecord& job_;
  const Membership& membership_;
  // Shared with the answers that tell of it.
  std::shared_ptr<const PreemptionState> state_;
  std::map<MemberIndex, Entry> members_;        // of the current preemption
  absl::flat_hash_set<MemberIndex> listening_;  // members that watch, or did and will again
  absl::flat_hash_set<MemberIndex> done_;       // finished, or ask to leave: not asked for steps
  std::map<CallId, int64_t> parked_;            // with the version that the watcher knows
  Time due_ = Time::Infinite();                 // of the phase: the window, the fence, the end
  std::optional<Time> fence_until_;             // in kFencing: who was asked is awaited until then
  bool stock_ = false;                          // the members speak upstream's protocol
  bool stock_notice_due_ = false;
  std::deque<std::string> recent_;  // events of the last notices, of ended preemptions too
};

}  // namespace lockstep::coord

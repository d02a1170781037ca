// Preemptions: from the notice that somebody will die to the step at which all have saved. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/preemption.h"
#include "lockstep/coord/preemption_notices.h"
#include "lockstep/coord/preemption_watch.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/sync_members.h"

namespace lockstep::coord {

// Picks the step at which all members save, and follows them there.
//
//   none, ended --notice--> pending --preempt_window before the death--> holding
//   holding --all who are awaited have answered, or preempt_sync_timeout--> agreed
//           --no step in time, none in common, nobody answers, withdrawn----> ended
//   agreed  --everybody has saved, failed, finished or gone, or time is up--> ended
//
// Each member that listens is asked in kHolding. From the moment that it reads the question it goes
// no further than the first step it has not begun, and tells which that is. The sync step is the
// lowest that is in nobody's past and on everybody's stride. Since a member that has answered waits
// before its first step, nobody can slip past the sync step while it is chosen; who does not answer
// in time is left out, and told afterwards that it was too late.
//
// Stock JAX members speak a protocol of their own, among themselves (`Stock...` below): they are
// told by upstream's key, and what they agree on is only read along. With that the preemption ends,
// since they never say that they saved.
//
// This type goes from phase to phase. What notices say is decided by PreemptionNotices, which step
// it is and what came of it by SyncMembers; who is told of the state is kept by PreemptionWatch.
//
// Invariants: (1) a preemption has at most one sync step, which never changes; (2) it is no step
// below one that a member offered and has not withdrawn by going; (3) every preemption ends, once,
// with an outcome; (4) a notice that was seen once (source and event) opens nothing anew.
//
// Threads: thread-compatible. Bounds: those of its parts.
class PreemptionSync {
 public:
  // `job` and `membership` must outlive it.
  PreemptionSync(const JobRecord& job, const Membership& membership);

  // `subjects` are listed, sorted. Answered with PreemptionNoted: the preemption that it is about,
  // whether or not it says anything new. For errors see PreemptionNotices::Check.
  void Handle(Time now, const NotifyPreemption& request, Effects& out);
  // Answered with PreemptionChanged, by `Flush` at the earliest.
  void Handle(Time now, const WatchPreemption& request, Effects& out);
  // Answered with nothing, also when that preemption is over. INVALID_ARGUMENT (invalid_argument):
  // a step or a stride that cannot be.
  void Handle(Time now, const AnswerHold& request, Effects& out);
  // Answered with nothing, also when it changes nothing. RESOURCE_EXHAUSTED (limit_exceeded): its
  // text is too long.
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
  bool TakeStockNotice();

  // The caller left. False when it does not watch here.
  bool Forget(CallId call) { return watch_.Forget(call); }

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  // Answers the watchers of older versions. To be called after every event.
  void Flush(Effects& out) { watch_.Flush(out); }
  // The preemption ends with its attempt.
  void AttemptEnds(Time now, Effects& out);
  // Every watcher gets the error.
  void FailAll(const ErrorPtr& error, Effects& out) { watch_.FailAll(error, out); }

  // INVALID_ARGUMENT: no state could have written this record next.
  absl::Status Apply(Time at, const record::PreemptionChanged& record);
  absl::Status Apply(Time, const record::SyncMemberChanged& record) {
    return members_.Apply(record);
  }
  // All records are applied: who was asked is asked again.
  void Restored(Time now, Effects& out);
  void Snapshot(std::vector<TimedRecord>& out) const;

  const PreemptionState& state() const { return watch_.state(); }
  std::vector<SyncMember> Members() const { return members_.View(); }
  size_t waits() const { return watch_.waits(); }

 private:
  // Whether the members speak upstream's protocol, and if so, whether they have been told.
  enum class Stock { kNo, kToTell, kTold };

  // Publishes what a notice changes, and what people are told of it.
  void Commit(Time now, NoticeChange change, Effects& out);
  // Sets `due_` by the phase and the death, which may have changed; opens the hold when it is
  // time.
  void SettleWindow(Time now, Effects& out);
  void OpenHold(Time now, Effects& out);
  // Goes to the next phase if what the members have said allows it.
  void Advance(Time now, Effects& out);
  void Agree(Time now, int64_t step, Effects& out);
  void EndByMembers(Time now, absl::string_view why, Effects& out);
  void End(Time now, SyncMembers::Ending ending, Effects& out);

  const JobRecord& job_;
  const Membership& membership_;
  PreemptionWatch watch_;
  PreemptionNotices notices_;
  SyncMembers members_;  // of the current preemption
  SyncListeners listeners_;
  Time due_ = Time::Infinite();     // of the phase: the window, the hold, the end
  std::optional<Time> hold_until_;  // in kHolding: who was asked is awaited until then
  Stock stock_ = Stock::kNo;
};

}  // namespace lockstep::coord

#include "lockstep/coord/preemption_sync.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

bool EndedWell(PreemptionOutcome outcome) {
  return outcome == PreemptionOutcome::kSaved || outcome == PreemptionOutcome::kSynced ||
         outcome == PreemptionOutcome::kFinished || outcome == PreemptionOutcome::kCancelled;
}

}  // namespace

PreemptionSync::PreemptionSync(const JobRecord& job, const Membership& membership)
    : job_(job), membership_(membership), notices_(job), members_(job) {}

void PreemptionSync::Handle(Time, const WatchPreemption& request, Effects& out) {
  // Only a member that polls its steps can be asked for one.
  if (request.member && request.answers) {
    const MemberIndex member = *request.member;
    const bool listens = listeners_.Watches(member, /*begins=*/request.after == 0);
    if (listens && IsOpen(state()) && state().phase != PreemptionPhase::kPending &&
        members_.Find(member) == nullptr) {
      // A member that comes after the agreement is told the step, and may still save at it.
      const bool holding = state().phase == PreemptionPhase::kHolding;
      members_.Set(member, {.state = holding ? SyncState::kAsked : SyncState::kLate}, out);
    }
  }
  // Parked even if the state is newer: `Flush` answers at the end of the event, once.
  watch_.Park(request.caller.call, request.after);
}

// Notices.

void PreemptionSync::Handle(Time now, const NotifyPreemption& request, Effects& out) {
  const CallId call = request.caller.call;
  LOCKSTEP_DCHECK(std::is_sorted(request.subjects.begin(), request.subjects.end()));
  if (ErrorPtr refusal = notices_.Check(request, state())) return out.Fail(call, refusal);
  switch (request.act) {
    case NotifyPreemption::Act::kWithdraw: {
      std::optional<NoticeChange> change = notices_.Withdraw(watch_.Next(), request);
      if (change && change->cancels) {
        End(now,
            {PreemptionOutcome::kCancelled,
             absl::StrCat("withdrawn by ", request.source, " before there was a sync step")},
            out);
      } else if (change) {
        Commit(now, *std::move(change), out);
      }
      break;
    }
    case NotifyPreemption::Act::kExtend: {
      std::optional<NoticeChange> change = notices_.Extend(now, watch_.Next(), request);
      if (change) Commit(now, *std::move(change), out);
      break;
    }
    case NotifyPreemption::Act::kNotify: {
      std::optional<PreemptionNotice> notice = notices_.Note(now, request, state());
      // Known or an afterthought: answered like a new one, since the source needs no other answer.
      if (!notice) break;
      if (IsOpen(state())) {
        Commit(now, notices_.Add(watch_.Next(), *std::move(notice)), out);
        break;
      }
      // What the members did in the last preemption was shown until now.
      members_.Clear();
      stock_ = Stock::kNo;
      hold_until_.reset();
      // The state last: what it opens begins with no members.
      Commit(now, notices_.Begin(now, watch_.Next(), *std::move(notice)), out);
      break;
    }
  }
  out.Succeed(call, PreemptionNoted{state().id});
}

void PreemptionSync::Commit(Time now, NoticeChange change, Effects& out) {
  watch_.Publish(now, std::move(change.next), out);
  // Before SettleWindow, which may tell of what follows from it.
  out.Tell(change.severity, std::move(change.told), {LogKind::kPreemptionNotice, {}});
  SettleWindow(now, out);
}

void PreemptionSync::SettleWindow(Time now, Effects& out) {
  const CoordinatorOptions& options = job_.options;
  const Time since = state().since;
  const Time death = state().death;
  switch (state().phase) {
    case PreemptionPhase::kAgreed:
      // Hosts may outlive the moment that was announced, so the wait counts from the later of the
      // two.
      due_ = (death.is_infinite() ? since : std::max(since, death)) + options.preempt_save_timeout;
      return;
    case PreemptionPhase::kHolding:
      // A step agreed on after the death comes too late to save.
      due_ = death.is_infinite() ? since + options.preempt_answer_timeout : std::max(since, death);
      return;
    case PreemptionPhase::kPending: {
      // A hold stops members, which could go on for long while the death is far.
      const bool far = !death.is_infinite() && death - now > options.preempt_window;
      due_ = far ? death - options.preempt_window : now;
      if (!far) OpenHold(now, out);
      return;
    }
    case PreemptionPhase::kNone:
    case PreemptionPhase::kEnded:
      return;
  }
}

// Agreeing.

void PreemptionSync::OpenHold(Time now, Effects& out) {
  LOCKSTEP_DCHECK(state().phase == PreemptionPhase::kPending);
  bool natives = false;
  std::vector<MemberIndex> connected;
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const Membership::Member& member = membership_.Get(MemberIndex(i));
    if (member.state != MemberState::kConnected) continue;
    connected.emplace_back(i);
    natives |= member.native();
  }
  // Upstream's protocol needs all members at its barrier, so that one native member rules it out.
  stock_ = !natives && !connected.empty() ? Stock::kToTell : Stock::kNo;
  PreemptionState next = watch_.Next();
  next.phase = PreemptionPhase::kHolding;
  watch_.Publish(now, std::move(next), out);
  // The phase has changed, and its deadline with it.
  SettleWindow(now, out);
  // After the state: members belong to the preemption that is open in the journal.
  for (MemberIndex member : connected) {
    if (stock_ != Stock::kNo || listeners_.Listens(member)) members_.Set(member, {}, out);
  }
  // Stock members meet at a barrier of their own, which has its own time-out.
  if (stock_ == Stock::kNo) hold_until_ = now + job_.options.preempt_sync_timeout;
}

void PreemptionSync::Handle(Time now, const AnswerHold& request, Effects& out) {
  const CallId call = request.caller.call;
  if (request.first.value_or(0) < 0 || request.stride <= 0 || request.last_step.value_or(0) < 0) {
    return out.Fail(
        call,
        MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                  absl::StrCat("a hold answered with step ", request.first.value_or(0), ", stride ",
                               request.stride, " and last step ", request.last_step.value_or(0),
                               "; the stride must be above zero, the others not below")));
  }
  // Answered before anything is looked at: whatever became of the preemption, the member learns it
  // by its watch.
  out.Succeed(call);
  if (request.preemption != state().id || !IsOpen(state()) ||
      state().phase == PreemptionPhase::kPending) {
    return;  // that one is over, which it is told as well
  }
  const SyncMembers::Entry* const known = members_.Find(request.member);
  // The member is done with this preemption; a late answer must not send it back.
  if (known != nullptr && IsFinal(known->state)) return;
  SyncMembers::Entry entry = {.state = request.first ? SyncState::kHeld : SyncState::kUnstarted,
                              .step = request.first,
                              .stride = request.stride,
                              .last_step = request.last_step,
                              .step_time = std::max(request.step_time, absl::ZeroDuration()),
                              .save_time = std::max(request.save_time, absl::ZeroDuration())};
  if (state().phase == PreemptionPhase::kAgreed) {
    // A repeated answer does not undo what came after the first.
    if (known != nullptr && known->state == SyncState::kReached) return;
    // It went on before it read the question, and cannot act at the step any more.
    if (request.first && *request.first > *state().sync_step) {
      entry.state = SyncState::kPassed;
      entry.text = absl::StrCat("was to begin step ", *request.first, " when it learnt of step ",
                                *state().sync_step);
    }
  }
  members_.Set(request.member, std::move(entry), out);
  Advance(now, out);
}

void PreemptionSync::Advance(Time now, Effects& out) {
  if (state().phase == PreemptionPhase::kAgreed) {
    // With the step known, only what members report can end it before its time.
    if (!members_.AwaitsSaves()) EndByMembers(now, "", out);
    return;
  }
  // Stock members agree among themselves (StockMet).
  if (state().phase != PreemptionPhase::kHolding || stock_ != Stock::kNo) return;
  // While members that were asked may still answer: one of them may be ahead of all others.
  if (hold_until_ && members_.AwaitsAnswers(/*all=*/job_.options.preempt_awaits_all)) return;
  if (!members_.HighestOffer()) {
    // Members that have not begun their first step may still offer one.
    if (members_.AllFinal()) EndByMembers(now, "nobody is left to agree on a step", out);
    return;
  }
  auto decided = members_.Decide(now, state().death);
  if (const int64_t* step = std::get_if<int64_t>(&decided)) return Agree(now, *step, out);
  End(now, std::get<SyncMembers::Ending>(std::move(decided)), out);
}

void PreemptionSync::Agree(Time now, int64_t step, Effects& out) {
  LOCKSTEP_CHECK(step >= members_.HighestOffer().value_or(0));  // (2)
  LOCKSTEP_DCHECK(state().phase == PreemptionPhase::kHolding);  // (1)
  PreemptionState next = watch_.Next();
  next.phase = PreemptionPhase::kAgreed;
  next.sync_step = step;
  // Only an open hold has this deadline.
  hold_until_.reset();
  // Before `Publish`, which begins the next phase.
  const absl::Duration took = std::max(now - state().since, absl::Milliseconds(1));
  watch_.Publish(now, std::move(next), out);
  SettleWindow(now, out);
  const std::vector<MemberIndex> silent = members_.In(SyncState::kSilent);
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", NameOfPreemption(state()),
                        ": all save at step ", step, ", agreed by ",
                        members_.In(SyncState::kHeld).size(), " members within ", FormatSpan(took),
                        silent.empty() ? ""
                                       : absl::StrCat(", without ", job_.NameSome(silent),
                                                      ", who did not answer")),
           {LogKind::kPreemptionAgreed, {}});
}

// Following.

void PreemptionSync::Handle(Time now, const ReportSave& request, Effects& out) {
  const CallId call = request.caller.call;
  if (request.text.size() > job_.options.key_bytes_max) {
    return out.Fail(call, MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                                    absl::StrCat("a text of ", request.text.size(),
                                                 " bytes is over key_bytes_max (",
                                                 job_.options.key_bytes_max, ")")));
  }
  // Answered whatever follows: the member has nothing to do about it.
  out.Succeed(call);
  const bool finished = request.state == SyncState::kFinished;
  if (finished) {
    listeners_.Finished(request.member);
    if (!IsOpen(state()) || state().phase == PreemptionPhase::kPending) return;
  }
  const SyncMembers::Entry* const known = members_.Find(request.member);
  const bool current = finished || request.preemption == state().id;
  // A report about another preemption, or of a member that was not asked.
  if (known == nullptr || !current) return;
  // Saved is saved, and who is done is not sent back.
  if (known->state == SyncState::kSaved || known->state == SyncState::kGone) return;
  // A weaker report that was held up does not undo a final one.
  if ((finished || request.state == SyncState::kReached) && IsFinal(known->state)) return;
  // It is at the step and may still say that it saved.
  if (finished && known->state == SyncState::kReached) return;
  SyncMembers::Entry entry = *known;
  entry.state = request.state;
  if (request.step) entry.step = request.step;
  entry.text = request.text;
  members_.Set(request.member, std::move(entry), out);
  if (request.state == SyncState::kSaved || request.state == SyncState::kFailed) {
    const bool saved = request.state == SyncState::kSaved;
    out.Tell(saved ? Severity::kInfo : Severity::kError,
             absl::StrCat("job '", job_.options.job, "': ", NameOfPreemption(state()), ": ",
                          job_.NameWithLife(request.member), saved ? " saved" : " failed to save",
                          " at step ", request.step.value_or(-1),
                          request.text.empty() ? "" : absl::StrCat(": ", request.text)),
             {LogKind::kPreemptionSaved, request.member});
  }
  Advance(now, out);
}

void PreemptionSync::MemberLeaves(Time now, MemberIndex member, Effects& out) {
  // Also with no preemption open: the next one must not ask it.
  listeners_.Finished(member);
  const SyncMembers::Entry* const known = members_.Find(member);
  if (known == nullptr || !IsOpen(state())) return;
  // Who is at the sync step may still say that it saved.
  if (IsFinal(known->state) || known->state == SyncState::kReached) return;
  SyncMembers::Entry entry = *known;
  entry.state = SyncState::kFinished;
  entry.text = "leaves";
  members_.Set(member, std::move(entry), out);
  Advance(now, out);
}

void PreemptionSync::MemberGone(Time now, MemberIndex member, bool left, const std::string& how,
                                Effects& out) {
  // Also with no preemption open: its next life listens when it says so.
  listeners_.Gone(member);
  const SyncMembers::Entry* const known = members_.Find(member);
  if (known == nullptr || !IsOpen(state()) || IsFinal(known->state)) return;
  SyncMembers::Entry entry = *known;
  // A member that leaves in order after the step most likely saved; one that is lost did not.
  if (left && entry.state == SyncState::kReached) {
    entry.left = true;
    entry.text = "left without saying that it saved";
  } else {
    entry.state = SyncState::kGone;
    entry.text = how;
  }
  members_.Set(member, std::move(entry), out);
  Advance(now, out);
}

void PreemptionSync::EndByMembers(Time now, absl::string_view why, Effects& out) {
  std::vector<MemberIndex> apart;
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const MemberIndex member(i);
    if (membership_.Get(member).state != MemberState::kConnected) continue;
    // A member that has finished needs no preemption; the others are named as not covered.
    if (members_.Find(member) == nullptr && !listeners_.IsDone(member)) apart.push_back(member);
  }
  End(now, members_.SumUp(state().sync_step, why, apart), out);
}

void PreemptionSync::End(Time now, SyncMembers::Ending ending, Effects& out) {
  PreemptionState next = watch_.Next();
  LOCKSTEP_DCHECK(IsOpen(state()) && ending.outcome != PreemptionOutcome::kNone);  // (3)
  next.phase = PreemptionPhase::kEnded;
  next.outcome = ending.outcome;
  next.text = std::move(ending.text);
  // Nothing is pending any more.
  due_ = Time::Infinite();
  hold_until_.reset();
  watch_.Publish(now, std::move(next), out);
  out.Tell(EndedWell(ending.outcome) ? Severity::kInfo : Severity::kError,
           absl::StrCat("job '", job_.options.job, "': ", NameOfPreemption(state()), " of ",
                        NameSubjects(job_, state()),
                        " ended: ", PreemptionOutcomeName(ending.outcome), ": ", state().text),
           {LogKind::kPreemptionEnded, {}});
}

// Stock members.

bool PreemptionSync::TakeStockNotice() {
  if (stock_ != Stock::kToTell) return false;
  // Once: the key stays in the store, and later members find it there.
  stock_ = Stock::kTold;
  return true;
}

void PreemptionSync::StockAnswered(Time, MemberIndex member, int64_t counter, Effects& out) {
  if (stock_ == Stock::kNo || state().phase != PreemptionPhase::kHolding) return;
  if (counter < 0 || counter == std::numeric_limits<int64_t>::max())
    return;  // no step is behind it
  // It came after the hold had begun, and is in no barrier with the others.
  if (members_.Find(member) == nullptr) return;
  // The counter is the step that it has begun; it can act before the next.
  members_.Set(member, {.state = SyncState::kHeld, .step = counter + 1}, out);
}

void PreemptionSync::StockMet(Time now, bool passed, Effects& out) {
  if (stock_ == Stock::kNo || state().phase != PreemptionPhase::kHolding) return;
  const std::optional<int64_t> step = members_.HighestOffer();
  // Without the barrier, or with no counter read along, no step is known to be common.
  if (!passed || !step) {
    return EndByMembers(now, "the stock members did not meet at upstream's barrier", out);
  }
  // The highest counter is what upstream's members choose for themselves.
  Agree(now, *step, out);
  End(now,
      {PreemptionOutcome::kSynced,
       absl::StrCat("all ", members_.size(), " members, stock JAX clients, save at step ", *step,
                    "; they do not say when they have")},
      out);
}

// Time, and the end of the attempt.

Time PreemptionSync::NextDeadline() const {
  if (!IsOpen(state())) return Time::Infinite();
  LOCKSTEP_DCHECK(!hold_until_ || state().phase == PreemptionPhase::kHolding);
  return hold_until_ ? std::min(*hold_until_, due_) : due_;
}

void PreemptionSync::ReachDeadline(Time now, Effects& out) {
  if (!IsOpen(state())) return;
  // The hold first: what the others have offered may be agreed on at the very end.
  if (hold_until_ && now >= *hold_until_) {
    hold_until_.reset();
    for (MemberIndex member : members_.In(SyncState::kAsked)) {
      members_.Set(member,
                   {.state = SyncState::kSilent,
                    .text = absl::StrCat("did not answer within ",
                                         FormatSpan(job_.options.preempt_sync_timeout))},
                   out);
    }
    Advance(now, out);
  }
  // The answers may just have ended it.
  if (!IsOpen(state()) || now < due_) return;
  if (state().phase == PreemptionPhase::kPending) return OpenHold(now, out);
  EndByMembers(now, "time is up", out);
}

void PreemptionSync::AttemptEnds(Time now, Effects& out) {
  if (IsOpen(state())) EndByMembers(now, "the attempt is over", out);
}

// Restoring.

absl::Status PreemptionSync::Apply(Time at, const record::PreemptionChanged& record) {
  const int64_t before = state().id;
  if (absl::Status applied = watch_.Apply(at, record, job_.attempt); !applied.ok()) return applied;
  // The members in earlier records are those of the preemption before.
  if (state().id != before) members_.Clear();
  notices_.Restore(state());
  return absl::OkStatus();
}

void PreemptionSync::Restored(Time now, Effects& out) {
  // Who listened is not written down. Whoever may have is awaited when the next one opens, since a
  // step that is chosen without them they may have passed.
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const Membership::Member& member = membership_.Get(MemberIndex(i));
    if (member.state == MemberState::kConnected && member.native()) {
      listeners_.Watches(MemberIndex(i), /*begins=*/true);
    }
  }
  if (!IsOpen(state())) return;
  PreemptionState next = watch_.Next();
  // Another round asks those again whose answers were not written down.
  ++next.round;
  // Before SettleWindow, which may open a hold: those members are asked anyway.
  const bool holding = next.phase == PreemptionPhase::kHolding;
  watch_.Publish(now, std::move(next), out);
  SettleWindow(now, out);
  const std::vector<SyncMember> members = members_.View();
  for (const SyncMember& each : members) {
    if (!membership_.Get(each.member).native()) continue;
    if (each.state == SyncState::kFinished) {
      listeners_.Finished(each.member);
    } else {
      listeners_.Watches(each.member, /*begins=*/true);
    }
  }
  // Stock members that were asked before know: their key is in the store. Those for whom the hold
  // has just been opened do not.
  if (stock_ != Stock::kToTell) {
    stock_ = !members_.empty() && listeners_.empty() ? Stock::kTold : Stock::kNo;
  }
  // In other phases members report by themselves; stock ones were never asked by us.
  if (!holding || stock_ != Stock::kNo) return;
  hold_until_ = now + job_.options.preempt_sync_timeout;
  for (const SyncMember& each : members) {
    // Their strides and times went with the server, so their old offers are of no use.
    if (!IsFinal(each.state)) members_.Set(each.member, {}, out);
  }
}

void PreemptionSync::Snapshot(std::vector<TimedRecord>& out) const {
  watch_.Snapshot(out);
  // Behind the state: another preemption begins without members.
  members_.Snapshot(out);
}

}  // namespace lockstep::coord

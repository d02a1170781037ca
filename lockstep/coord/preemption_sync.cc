#include "lockstep/coord/preemption_sync.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/sync_step.h"

namespace lockstep::coord {
namespace {

constexpr char kOperator[] = "operator";

// Nothing more is expected of a member in such a state.
bool IsFinal(SyncState state) {
  switch (state) {
    case SyncState::kPassed:
    case SyncState::kSaved:
    case SyncState::kFailed:
    case SyncState::kFinished:
    case SyncState::kGone:
      return true;
    default:
      return false;
  }
}

// A source and its name of an event, as one string; of a notice, or of a request about one.
template <class Notice>
std::string EventOf(const Notice& notice) {
  return absl::StrCat(notice.source, "\n", notice.event);
}

// Whether the request is about that notice. Without an event it is about all of its source's; an
// operator's is about everybody's.
bool Concerns(const NotifyPreemption& request, const PreemptionNotice& notice) {
  if (!request.event.empty()) return EventOf(request) == EventOf(notice);
  return request.source == kOperator || request.source == notice.source;
}

Time EarliestDeath(const std::vector<PreemptionNotice>& notices) {
  Time death = Time::Infinite();
  for (const PreemptionNotice& notice : notices) death = std::min(death, notice.death);
  return death;
}

ErrorPtr Invalid(std::string text) {
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument, std::move(text));
}

}  // namespace

PreemptionSync::PreemptionSync(const JobRecord& job, const Membership& membership)
    : job_(job), membership_(membership), state_(std::make_shared<const PreemptionState>()) {}

// Texts.

std::string PreemptionSync::Named() const { return absl::StrCat("preemption ", state_->id); }

std::string PreemptionSync::NameSubjects() const {
  std::vector<MemberIndex> subjects;
  for (const PreemptionNotice& notice : state_->notices) {
    if (notice.subjects.empty()) return "everybody";
    subjects.insert(subjects.end(), notice.subjects.begin(), notice.subjects.end());
  }
  std::sort(subjects.begin(), subjects.end());
  subjects.erase(std::unique(subjects.begin(), subjects.end()), subjects.end());
  return job_.NameSome(subjects);
}

std::vector<MemberIndex> PreemptionSync::InState(SyncState state) const {
  std::vector<MemberIndex> found;
  for (const auto& [member, entry] : members_) {
    if (entry.state == state) found.push_back(member);
  }
  return found;
}

// The state, and who is told of it.

PreemptionState PreemptionSync::Next() const {
  PreemptionState next = *state_;
  ++next.version;
  return next;
}

void PreemptionSync::Publish(Time now, PreemptionState next, Effects& out) {
  if (next.phase != state_->phase || next.id != state_->id) next.since = now;
  state_ = std::make_shared<const PreemptionState>(std::move(next));
  out.records.push_back(record::PreemptionChanged{state_, now});
}

void PreemptionSync::Handle(Time, const WatchPreemption& request, Effects& out) {
  if (request.member && request.answers) {
    const MemberIndex member = *request.member;
    // A watch that goes on may come behind the word that its program has finished; one that begins
    // is another program's part.
    if (request.after == 0) done_.erase(member);
    const bool done = done_.contains(member);
    if (!done) listening_.insert(member);
    if (!done && open() && state_->phase != PreemptionPhase::kPending &&
        !members_.contains(member)) {
      const bool fencing = state_->phase == PreemptionPhase::kFencing;
      SetMember(member, {.state = fencing ? SyncState::kAsked : SyncState::kLate}, out);
    }
  }
  parked_[request.caller.call] = request.after;
}

void PreemptionSync::Flush(Effects& out) {
  std::erase_if(parked_, [&](const auto& parked) {
    if (parked.second == state_->version) return false;
    out.Succeed(parked.first, PreemptionChanged{state_});
    return true;
  });
}

// Notices.

ErrorPtr PreemptionSync::CheckNotice(const NotifyPreemption& request) const {
  const size_t most = job_.options.label_bytes_max;
  for (const std::string* text : {&request.source, &request.event, &request.text}) {
    if (text->size() <= most) continue;
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                     absl::StrCat("a preemption notice with a text of ", text->size(),
                                  " bytes, over label_bytes_max (", most, ")"));
  }
  if (request.source.empty()) return Invalid("a preemption notice that does not say its source");
  for (MemberIndex member : request.subjects) {
    if (job_.IsMember(member)) continue;
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
                     absl::StrCat(job_.Name(member), " is not in job '", job_.options.job,
                                  "', which has the members ", job_.NameAll()));
  }
  if (request.act != NotifyPreemption::Act::kNotify || !open() ||
      state_->notices.size() < job_.options.preempt_notices_max) {
    return nullptr;
  }
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                   absl::StrCat(Named(), " has ", state_->notices.size(),
                                " notices already, which is the limit preempt_notices_max; "
                                "nothing was changed"));
}

void PreemptionSync::Handle(Time now, const NotifyPreemption& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr refusal = CheckNotice(request)) return out.Fail(call, refusal);
  if (request.act != NotifyPreemption::Act::kNotify && !open()) {
    return out.Fail(call, MakeError(absl::StatusCode::kNotFound, Reason::kNoPreemption,
                                    absl::StrCat("job '", job_.options.job,
                                                 "' has no open preemption; nothing was changed")));
  }
  if (request.act == NotifyPreemption::Act::kWithdraw) {
    Withdraw(now, request, out);
    return out.Succeed(call, PreemptionNoted{state_->id});
  }
  const Time death =
      request.left ? now + std::max(*request.left, absl::ZeroDuration()) : Time::Infinite();
  if (request.act == NotifyPreemption::Act::kExtend) {
    Extend(now, request, death, out);
    return out.Succeed(call, PreemptionNoted{state_->id});
  }
  PreemptionNotice notice = {.source = request.source,
                             .event = request.event,
                             .subjects = request.subjects,
                             .death = death,
                             .text = request.text};
  // Each word of an operator's is a new one.
  if (notice.event.empty()) notice.event = absl::StrCat("#", state_->version);
  const std::string event = EventOf(notice);
  const bool seen = std::find(recent_.begin(), recent_.end(), event) != recent_.end();
  if (seen || (!open() && IsAfterthought(notice))) {
    return out.Succeed(call, PreemptionNoted{state_->id});
  }
  recent_.push_back(event);
  if (recent_.size() > kRecentEvents) recent_.pop_front();
  if (open()) {
    Add(now, std::move(notice), out);
  } else {
    Begin(now, std::move(notice), out);
  }
  out.Succeed(call, PreemptionNoted{state_->id});
}

bool PreemptionSync::IsAfterthought(const PreemptionNotice& notice) const {
  if (state_->id == 0 || state_->withdrawn || notice.source == kOperator ||
      notice.subjects.empty() || state_->outcome == PreemptionOutcome::kCancelled) {
    return false;
  }
  return std::any_of(state_->notices.begin(), state_->notices.end(),
                     [&](const PreemptionNotice& former) {
                       if (former.source == notice.source || former.source == kOperator)
                         return false;
                       return former.subjects.empty() ||
                              std::includes(former.subjects.begin(), former.subjects.end(),
                                            notice.subjects.begin(), notice.subjects.end());
                     });
}

void PreemptionSync::Begin(Time now, PreemptionNotice notice, Effects& out) {
  PreemptionState next = {.version = state_->version + 1,
                          .attempt = job_.attempt,
                          .id = state_->id + 1,
                          .phase = PreemptionPhase::kPending,
                          .round = state_->round,
                          .sync_step = {},
                          .text = {},
                          .notices = {},
                          .death = notice.death,
                          .since = now};
  const std::string source = notice.source;
  const std::string text = notice.text;
  next.notices.push_back(std::move(notice));
  members_.clear();
  stock_ = stock_notice_due_ = false;
  fence_until_.reset();
  Publish(now, std::move(next), out);
  out.Tell(
      Severity::kWarning,
      absl::StrCat(
          "job '", job_.options.job, "': ", Named(), ": ", source, " says that ", NameSubjects(),
          " will be preempted",
          state_->death.is_infinite() ? "" : absl::StrCat(" in ", FormatSpan(state_->death - now)),
          text.empty() ? "" : absl::StrCat(" (", text, ")")),
      {NoticeKind::kPreemptionNotice, {}});
  SettleWindow(now, out);
}

void PreemptionSync::Add(Time now, PreemptionNotice notice, Effects& out) {
  PreemptionState next = Next();
  next.death = std::min(next.death, notice.death);
  next.withdrawn = false;
  const std::string source = notice.source;
  next.notices.push_back(std::move(notice));
  Publish(now, std::move(next), out);
  out.Tell(Severity::kWarning,
           absl::StrCat("job '", job_.options.job, "': ", Named(), ": ", source, " says so too; ",
                        NameSubjects(), " will be preempted"),
           {NoticeKind::kPreemptionNotice, {}});
  SettleWindow(now, out);
}

void PreemptionSync::Extend(Time now, const NotifyPreemption& request, Time death, Effects& out) {
  PreemptionState next = Next();
  bool moved = false;
  for (PreemptionNotice& each : next.notices) {
    if (!Concerns(request, each)) continue;
    moved |= each.death != death;
    each.death = death;
  }
  if (!moved) return;
  next.death = EarliestDeath(next.notices);
  Publish(now, std::move(next), out);
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", Named(), " of ", NameSubjects(),
                        " was moved: ", FormatSpan(state_->death - now), " are left"),
           {NoticeKind::kPreemptionNotice, {}});
  SettleWindow(now, out);
}

void PreemptionSync::Withdraw(Time now, const NotifyPreemption& request, Effects& out) {
  PreemptionState next = Next();
  std::erase_if(next.notices, [&](const PreemptionNotice& notice) {
    if (!Concerns(request, notice)) return false;
    std::erase(recent_, EventOf(notice));  // said again, it is a new one
    return true;
  });
  if (next.notices.size() == state_->notices.size()) return;
  const bool none_left = next.notices.empty();
  if (none_left && state_->phase != PreemptionPhase::kAgreed) {
    return End(now, PreemptionOutcome::kCancelled,
               absl::StrCat("withdrawn by ", request.source, " before there was a sync step"), out);
  }
  next.death = EarliestDeath(next.notices);
  if (none_left) {
    next.withdrawn = true;
    next.notices = state_->notices;  // what it was about is still worth telling
  }
  Publish(now, std::move(next), out);
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", Named(), ": ", request.source,
                        " has withdrawn its notice",
                        none_left ? absl::StrCat("; all save at step ", *state_->sync_step,
                                                 " nevertheless, and go on")
                                  : ""),
           {NoticeKind::kPreemptionNotice, {}});
  SettleWindow(now, out);
}

void PreemptionSync::SettleWindow(Time now, Effects& out) {
  if (state_->phase == PreemptionPhase::kAgreed) {
    due_ = (state_->death.is_infinite() ? state_->since : std::max(state_->since, state_->death)) +
           job_.options.preempt_save_timeout;
  } else if (state_->phase == PreemptionPhase::kFencing) {
    due_ = state_->death.is_infinite() ? state_->since + job_.options.preempt_answer_timeout
                                       : std::max(state_->since, state_->death);
  } else if (state_->phase == PreemptionPhase::kPending) {
    const bool far =
        !state_->death.is_infinite() && state_->death - now > job_.options.preempt_window;
    due_ = far ? state_->death - job_.options.preempt_window : now;
    if (!far) OpenFence(now, out);
  }
}

// Agreeing.

void PreemptionSync::OpenFence(Time now, Effects& out) {
  bool natives = false;
  std::vector<MemberIndex> connected;
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const Membership::Member& member = membership_.Get(MemberIndex(i));
    if (member.state != MemberState::kConnected) continue;
    connected.emplace_back(i);
    natives |= member.native();
  }
  // Upstream's protocol needs all members at its barrier, so that one native member rules it out.
  stock_ = stock_notice_due_ = !natives && !connected.empty();
  PreemptionState next = Next();
  next.phase = PreemptionPhase::kFencing;
  Publish(now, std::move(next), out);
  SettleWindow(now, out);
  for (MemberIndex member : connected) {
    if (stock_ || listening_.contains(member)) SetMember(member, {}, out);
  }
  if (!stock_) fence_until_ = now + job_.options.preempt_sync_timeout;
}

void PreemptionSync::Handle(Time now, const AnswerFence& request, Effects& out) {
  const CallId call = request.caller.call;
  if (request.first.value_or(0) < 0 || request.stride <= 0 || request.last_step.value_or(0) < 0) {
    return out.Fail(call, Invalid(absl::StrCat(
                              "a fence answered with step ", request.first.value_or(0), ", stride ",
                              request.stride, " and last step ", request.last_step.value_or(0),
                              "; the stride must be above zero, the others not below")));
  }
  out.Succeed(call);
  if (request.preemption != state_->id || !open() || state_->phase == PreemptionPhase::kPending) {
    return;  // that one is over, which it is told as well
  }
  const auto known = members_.find(request.member);
  if (known != members_.end() && IsFinal(known->second.state)) return;
  Entry entry = {.state = request.first ? SyncState::kFenced : SyncState::kUnstarted,
                 .step = request.first,
                 .stride = request.stride,
                 .last_step = request.last_step,
                 .step_time = std::max(request.step_time, absl::ZeroDuration()),
                 .save_time = std::max(request.save_time, absl::ZeroDuration())};
  if (state_->phase == PreemptionPhase::kAgreed) {
    const bool beyond = request.first && *request.first > *state_->sync_step;
    if (beyond) {
      entry.state = SyncState::kPassed;
      entry.text = absl::StrCat("was to begin step ", *request.first, " when it learnt of step ",
                                *state_->sync_step);
    }
    // A repeated answer does not undo what came after the first.
    if (known != members_.end() && known->second.state == SyncState::kReached) return;
    SetMember(request.member, std::move(entry), out);
    return EndIfDone(now, out);
  }
  SetMember(request.member, std::move(entry), out);
  Consider(now, out);
}

void PreemptionSync::Consider(Time now, Effects& out) {
  if (state_->phase != PreemptionPhase::kFencing || stock_) return;
  bool offered = false;
  for (const auto& [member, entry] : members_) {
    if (entry.state == SyncState::kAsked && fence_until_) return;
    const bool awaited = entry.state == SyncState::kUnstarted && job_.options.preempt_awaits_all;
    if (awaited && fence_until_) return;
    offered |= entry.state == SyncState::kFenced;
  }
  if (offered) return Decide(now, out);
  const bool all_final = std::all_of(members_.begin(), members_.end(), [](const auto& member) {
    return IsFinal(member.second.state);
  });
  if (all_final && !members_.empty()) EndByMembers(now, "nobody is left to agree on a step", out);
}

void PreemptionSync::Decide(Time now, Effects& out) {
  std::vector<StepOffer> offers;
  std::optional<int64_t> last;
  for (const auto& [member, entry] : members_) {
    if (entry.state != SyncState::kFenced) continue;
    offers.push_back({*entry.step, entry.stride});
    if (entry.last_step) last = std::min(last.value_or(*entry.last_step), *entry.last_step);
  }
  const std::optional<int64_t> step = LowestCommonStep(offers);
  if (!step) {
    return End(now, PreemptionOutcome::kNoCommonStep,
               "the members' strides never meet: no step is one of each member's; report steps in "
               "the same stride and phase everywhere",
               out);
  }
  if (last && *step > *last) {
    return End(now, PreemptionOutcome::kFinished,
               absl::StrCat("the work ends at step ", *last, ", before step ", *step,
                            ", the next that all can reach: it is as well to finish"),
               out);
  }
  if (std::optional<std::string> why = TooLate(now, *step)) {
    return End(now, PreemptionOutcome::kCannotSaveInTime, *std::move(why), out);
  }
  Agree(now, *step, out);
}

std::optional<std::string> PreemptionSync::TooLate(Time now, int64_t step) const {
  if (state_->death.is_infinite()) return std::nullopt;
  const absl::Duration left = std::max(state_->death - now, absl::ZeroDuration());
  absl::Duration most = absl::ZeroDuration();
  std::optional<std::string> why;
  for (const auto& [member, entry] : members_) {
    if (entry.state != SyncState::kFenced) continue;
    const absl::Duration way = entry.step_time * (step - *entry.step);
    const absl::Duration save = std::max(entry.save_time, job_.options.preempt_save_estimate);
    if (way + save <= left || way + save <= most) continue;
    most = way + save;
    why = absl::StrCat(job_.NameWithLife(member), " needs ", FormatSpan(way), " from step ",
                       *entry.step, " to step ", step, ", the next that all can reach, and ",
                       FormatSpan(save), " to save, but ", FormatSpan(left),
                       " are left; what was saved last is what there is");
  }
  return why;
}

void PreemptionSync::Agree(Time now, int64_t step, Effects& out) {
  PreemptionState next = Next();
  next.phase = PreemptionPhase::kAgreed;
  next.sync_step = step;
  fence_until_.reset();
  const absl::Duration took = std::max(now - state_->since, absl::Milliseconds(1));
  Publish(now, std::move(next), out);
  SettleWindow(now, out);
  const std::vector<MemberIndex> silent = InState(SyncState::kSilent);
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", Named(), ": all save at step ", step,
                        ", agreed by ", InState(SyncState::kFenced).size(), " members within ",
                        FormatSpan(took),
                        silent.empty() ? ""
                                       : absl::StrCat(", without ", job_.NameSome(silent),
                                                      ", who did not answer")),
           {NoticeKind::kPreemptionAgreed, {}});
}

// Following.

void PreemptionSync::SetMember(MemberIndex member, Entry entry, Effects& out) {
  out.records.push_back(record::SyncMemberChanged{member, entry.state, entry.step, entry.text});
  members_[member] = std::move(entry);
}

void PreemptionSync::Handle(Time now, const ReportSave& request, Effects& out) {
  const CallId call = request.caller.call;
  if (request.text.size() > job_.options.key_bytes_max) {
    return out.Fail(call, MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                                    absl::StrCat("a text of ", request.text.size(),
                                                 " bytes is over key_bytes_max (",
                                                 job_.options.key_bytes_max, ")")));
  }
  out.Succeed(call);
  const bool finished = request.state == SyncState::kFinished;
  if (finished) {
    done_.insert(request.member);
    listening_.erase(request.member);
    if (!open() || state_->phase == PreemptionPhase::kPending) return;
  }
  const auto found = members_.find(request.member);
  const bool current = finished || request.preemption == state_->id;
  if (found == members_.end() || !current) return;
  // Saved is saved, and who is done is not sent back.
  const SyncState was = found->second.state;
  if (was == SyncState::kSaved || was == SyncState::kGone) return;
  if ((finished || request.state == SyncState::kReached) && IsFinal(was)) return;
  if (finished && was == SyncState::kReached) return;
  Entry entry = found->second;
  entry.state = request.state;
  if (request.step) entry.step = request.step;
  entry.text = request.text;
  SetMember(request.member, std::move(entry), out);
  if (request.state == SyncState::kSaved || request.state == SyncState::kFailed) {
    const bool saved = request.state == SyncState::kSaved;
    out.Tell(saved ? Severity::kInfo : Severity::kError,
             absl::StrCat("job '", job_.options.job, "': ", Named(), ": ",
                          job_.NameWithLife(request.member), saved ? " saved" : " failed to save",
                          " at step ", request.step.value_or(-1),
                          request.text.empty() ? "" : absl::StrCat(": ", request.text)),
             {NoticeKind::kPreemptionSaved, request.member});
  }
  Consider(now, out);
  EndIfDone(now, out);
}

void PreemptionSync::MemberLeaves(Time now, MemberIndex member, Effects& out) {
  done_.insert(member);
  listening_.erase(member);
  const auto found = members_.find(member);
  if (found == members_.end() || !open()) return;
  Entry entry = found->second;
  // Who is at the sync step may still say that it saved.
  if (IsFinal(entry.state) || entry.state == SyncState::kReached) return;
  entry.state = SyncState::kFinished;
  entry.text = "leaves";
  SetMember(member, std::move(entry), out);
  Consider(now, out);
  EndIfDone(now, out);
}

void PreemptionSync::MemberGone(Time now, MemberIndex member, bool left, const std::string& how,
                                Effects& out) {
  listening_.erase(member);
  done_.erase(member);
  const auto found = members_.find(member);
  if (found == members_.end() || !open() || IsFinal(found->second.state)) return;
  Entry entry = found->second;
  if (left && entry.state == SyncState::kReached) {
    entry.left = true;
    entry.text = "left without saying that it saved";
  } else {
    entry.state = SyncState::kGone;
    entry.text = how;
  }
  SetMember(member, std::move(entry), out);
  Consider(now, out);
  EndIfDone(now, out);
}

void PreemptionSync::EndIfDone(Time now, Effects& out) {
  if (state_->phase != PreemptionPhase::kAgreed) return;
  for (const auto& [member, entry] : members_) {
    switch (entry.state) {
      case SyncState::kReached:
        if (entry.left) break;
        return;
      case SyncState::kFenced:
      case SyncState::kUnstarted:  // these two come by the sync step, too
      case SyncState::kLate:
        return;
      default:
        break;
    }
  }
  EndByMembers(now, "", out);
}

void PreemptionSync::EndByMembers(Time now, absl::string_view why, Effects& out) {
  const size_t saved = InState(SyncState::kSaved).size();
  const size_t synced = InState(SyncState::kReached).size();
  const size_t finished = InState(SyncState::kFinished).size();
  std::string text;
  if (state_->sync_step) {
    text =
        absl::StrCat(saved, " of ", members_.size(), " members saved at step ", *state_->sync_step);
  } else {
    text = "no step was agreed on";
  }
  if (!why.empty()) absl::StrAppend(&text, ": ", why);
  for (const SyncState state :
       {SyncState::kReached, SyncState::kFinished, SyncState::kAsked, SyncState::kSilent,
        SyncState::kUnstarted, SyncState::kFenced, SyncState::kPassed, SyncState::kFailed,
        SyncState::kGone, SyncState::kLate}) {
    const std::vector<MemberIndex> members = InState(state);
    if (members.empty()) continue;
    absl::StrAppend(&text, "; ", job_.NameSome(members), " ", SyncStateName(state));
  }
  std::vector<MemberIndex> apart;
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const MemberIndex member(i);
    const bool connected = membership_.Get(member).state == MemberState::kConnected;
    if (connected && !members_.contains(member) && !done_.contains(member)) apart.push_back(member);
  }
  if (!apart.empty()) {
    absl::StrAppend(&text, "; ", job_.NameSome(apart),
                    " took no part: no Preemption is open there");
  }
  PreemptionOutcome outcome = PreemptionOutcome::kNotSaved;
  if (members_.empty()) {
    outcome = PreemptionOutcome::kNobodyAnswered;
  } else if (saved == members_.size()) {
    outcome = PreemptionOutcome::kSaved;
  } else if (saved + synced == members_.size()) {
    outcome = PreemptionOutcome::kSynced;
  } else if (saved > 0) {
    outcome = PreemptionOutcome::kPartlySaved;
  } else if (finished == members_.size()) {
    outcome = PreemptionOutcome::kFinished;
  } else if (!state_->sync_step) {
    outcome = PreemptionOutcome::kNobodyAnswered;
  }
  End(now, outcome, std::move(text), out);
}

void PreemptionSync::End(Time now, PreemptionOutcome outcome, std::string text, Effects& out) {
  PreemptionState next = Next();
  next.phase = PreemptionPhase::kEnded;
  next.outcome = outcome;
  next.text = std::move(text);
  due_ = Time::Infinite();
  fence_until_.reset();
  Publish(now, std::move(next), out);
  const bool well = outcome == PreemptionOutcome::kSaved || outcome == PreemptionOutcome::kSynced ||
                    outcome == PreemptionOutcome::kFinished ||
                    outcome == PreemptionOutcome::kCancelled;
  out.Tell(well ? Severity::kInfo : Severity::kError,
           absl::StrCat("job '", job_.options.job, "': ", Named(), " of ", NameSubjects(),
                        " ended: ", PreemptionOutcomeName(outcome), ": ", state_->text),
           {NoticeKind::kPreemptionEnded, {}});
}

// Stock members.

void PreemptionSync::StockAnswered(Time, MemberIndex member, int64_t counter, Effects& out) {
  if (!stock_ || state_->phase != PreemptionPhase::kFencing) return;
  if (counter < 0 || counter == std::numeric_limits<int64_t>::max())
    return;  // no step is behind it
  if (!members_.contains(member)) return;
  SetMember(member, {.state = SyncState::kFenced, .step = counter + 1}, out);
}

void PreemptionSync::StockMet(Time now, bool passed, Effects& out) {
  if (!stock_ || state_->phase != PreemptionPhase::kFencing) return;
  std::optional<int64_t> step;
  for (const auto& [member, entry] : members_) {
    if (entry.state == SyncState::kFenced) step = std::max(step.value_or(0), *entry.step);
  }
  if (!passed || !step) {
    return EndByMembers(now, "the stock members did not meet at upstream's barrier", out);
  }
  Agree(now, *step, out);
  End(now, PreemptionOutcome::kSynced,
      absl::StrCat("all ", members_.size(), " members, stock JAX clients, save at step ", *step,
                   "; they do not say when they have"),
      out);
}

// Time, and the end of the attempt.

Time PreemptionSync::NextDeadline() const {
  if (!open()) return Time::Infinite();
  return fence_until_ ? std::min(*fence_until_, due_) : due_;
}

void PreemptionSync::ReachDeadline(Time now, Effects& out) {
  if (!open()) return;
  if (fence_until_ && now >= *fence_until_) {
    fence_until_.reset();
    for (MemberIndex member : InState(SyncState::kAsked)) {
      SetMember(member,
                {.state = SyncState::kSilent,
                 .text = absl::StrCat("did not answer within ",
                                      FormatSpan(job_.options.preempt_sync_timeout))},
                out);
    }
    Consider(now, out);
  }
  if (!open() || now < due_) return;
  if (state_->phase == PreemptionPhase::kPending) return OpenFence(now, out);
  EndByMembers(now, "time is up", out);
}

void PreemptionSync::AttemptEnds(Time now, Effects& out) {
  if (open()) EndByMembers(now, "the attempt is over", out);
}

void PreemptionSync::FailAll(const ErrorPtr& error, Effects& out) {
  for (const auto& [call, after] : parked_) out.Fail(call, error);
  parked_.clear();
}

// Restoring.

absl::Status PreemptionSync::Apply(Time at, const record::PreemptionChanged& record) {
  if (record.state->version <= state_->version) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version ", record.state->version, " of a preemption after version ", state_->version));
  }
  if (record.state->id != state_->id) members_.clear();
  auto state = std::make_shared<PreemptionState>(*record.state);
  state->attempt = job_.attempt;
  const absl::Duration shift = at - record.at;
  state->since = state->since + shift;
  state->death = state->death + shift;
  for (PreemptionNotice& notice : state->notices) notice.death = notice.death + shift;
  state_ = std::move(state);
  for (const PreemptionNotice& notice : state_->notices) {
    const std::string event = EventOf(notice);
    if (std::find(recent_.begin(), recent_.end(), event) == recent_.end()) {
      recent_.push_back(event);
    }
  }
  while (recent_.size() > kRecentEvents) recent_.pop_front();
  return absl::OkStatus();
}

absl::Status PreemptionSync::Apply(Time, const record::SyncMemberChanged& record) {
  if (!job_.IsMember(record.member)) {
    return absl::InvalidArgumentError(
        absl::StrCat("member ", record.member.value(), " of a preemption is not of the job"));
  }
  members_[record.member] = {.state = record.state, .step = record.step, .text = record.text};
  return absl::OkStatus();
}

void PreemptionSync::Restored(Time now, Effects& out) {
  // Who listened is not written down. Whoever may have is awaited when the next one opens, since a
  // step that is chosen without them they may have passed.
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const Membership::Member& member = membership_.Get(MemberIndex(i));
    if (member.state == MemberState::kConnected && member.native()) {
      listening_.insert(MemberIndex(i));
    }
  }
  if (!open()) return;
  PreemptionState next = Next();
  ++next.round;
  const bool fencing = next.phase == PreemptionPhase::kFencing;
  Publish(now, std::move(next), out);
  SettleWindow(now, out);
  for (auto& [member, entry] : members_) {
    const bool done = entry.state == SyncState::kFinished;
    if (!membership_.Get(member).native()) continue;
    if (done) listening_.erase(member);
    (done ? done_ : listening_).insert(member);
  }
  stock_ = !members_.empty() && listening_.empty();
  if (!fencing || stock_) return;
  fence_until_ = now + job_.options.preempt_sync_timeout;
  for (const SyncMember& each : Members()) {
    if (!IsFinal(each.state)) SetMember(each.member, {}, out);
  }
}

void PreemptionSync::Snapshot(std::vector<TimedRecord>& out) const {
  if (state_->version == 0) return;
  out.push_back({state_->since, record::PreemptionChanged{state_, state_->since}});
  for (const auto& [member, entry] : members_) {
    out.push_back({Time(), record::SyncMemberChanged{member, entry.state, entry.step, entry.text}});
  }
}

std::vector<SyncMember> PreemptionSync::Members() const {
  std::vector<SyncMember> members;
  members.reserve(members_.size());
  for (const auto& [member, entry] : members_) {
    members.push_back({member, entry.state, entry.step, entry.text});
  }
  return members;
}

}  // namespace lockstep::coord

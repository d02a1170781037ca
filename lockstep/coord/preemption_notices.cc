#include "lockstep/coord/preemption_notices.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

constexpr char kOperator[] = "operator";

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

bool AreOn(const std::vector<MemberIndex>& host, const std::vector<MemberIndex>& members) {
  // Without subjects it is about everybody.
  return !members.empty() &&
         std::includes(host.begin(), host.end(), members.begin(), members.end());
}

// The member and those on its host, as members and launchers say it; sorted.
std::vector<MemberIndex> OnHostOf(const JobRecord& job, MemberIndex member) {
  const std::string& said = job.places[member.value()].host;
  const std::string& reported = job.processes[member.value()].host;
  const auto is_there = [&](const std::string& host) {
    return !host.empty() && (host == said || host == reported);
  };
  std::vector<MemberIndex> there;
  for (int32_t i = 0; i < job.options.size; ++i) {
    if (i == member.value() || is_there(job.places[i].host) || is_there(job.processes[i].host)) {
      there.emplace_back(i);
    }
  }
  return there;
}

Time DeathOf(Time now, const NotifyPreemption& request) {
  if (!request.left) return Time::Infinite();
  return now + std::max(*request.left, absl::ZeroDuration());
}

Time EarliestDeath(const std::vector<PreemptionNotice>& notices) {
  Time death = Time::Infinite();
  for (const PreemptionNotice& notice : notices) death = std::min(death, notice.death);
  return death;
}

// It tells of the death that the last preemption was about, learnt in another way: a machine that
// is preempted is announced by its cloud, and then by the signal that ends its processes.
bool IsAfterthought(const PreemptionNotice& notice, const PreemptionState& last) {
  if (last.id == 0 || last.withdrawn || notice.source == kOperator || notice.subjects.empty() ||
      last.outcome == PreemptionOutcome::kCancelled) {
    return false;
  }
  return std::any_of(last.notices.begin(), last.notices.end(), [&](const PreemptionNotice& former) {
    // A source that speaks again means another death; an operator announces none of a machine.
    if (former.source == notice.source || former.source == kOperator) return false;
    return former.subjects.empty() || std::includes(former.subjects.begin(), former.subjects.end(),
                                                    notice.subjects.begin(), notice.subjects.end());
  });
}

}  // namespace

std::string NameOfPreemption(const PreemptionState& state) {
  return absl::StrCat("preemption ", state.id);
}

std::string NameSubjects(const JobRecord& job, const PreemptionState& state) {
  std::vector<MemberIndex> subjects;
  for (const PreemptionNotice& notice : state.notices) {
    // A notice without subjects covers all the others.
    if (notice.subjects.empty()) return "everybody";
    subjects.insert(subjects.end(), notice.subjects.begin(), notice.subjects.end());
  }
  std::sort(subjects.begin(), subjects.end());
  subjects.erase(std::unique(subjects.begin(), subjects.end()), subjects.end());
  return job.NameSome(subjects);
}

ErrorPtr PreemptionNotices::Check(const NotifyPreemption& request,
                                  const PreemptionState& state) const {
  const size_t most = job_.options.label_bytes_max;
  for (const std::string* text : {&request.source, &request.event, &request.text}) {
    if (text->size() <= most) continue;
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                     absl::StrCat("a preemption notice with a text of ", text->size(),
                                  " bytes, over label_bytes_max (", most, ")"));
  }
  // Without a source no later notice could be known to say the same.
  if (request.source.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                     "a preemption notice that does not say its source");
  }
  for (MemberIndex member : request.subjects) {
    if (job_.IsMember(member)) continue;
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
                     absl::StrCat(job_.Name(member), " is not in job '", job_.options.job,
                                  "', which has the members ", job_.roles().NameMembers()));
  }
  if (request.caller.standing == Standing::kTask) {
    if (ErrorPtr refusal = CheckTask(request, state)) return refusal;
  }
  if (request.act != NotifyPreemption::Act::kNotify) {
    // Whether a notice is concerned is for `Extend` and `Withdraw` to find out.
    if (IsOpen(state)) return nullptr;
    return MakeError(
        absl::StatusCode::kNotFound, Reason::kNoPreemption,
        absl::StrCat("job '", job_.options.job, "' has no open preemption; nothing was changed"));
  }
  if (!IsOpen(state) || state.notices.size() < job_.options.preempt_notices_max) return nullptr;
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                   absl::StrCat(NameOfPreemption(state), " has ", state.notices.size(),
                                " notices already, which is the limit preempt_notices_max; "
                                "nothing was changed"));
}

ErrorPtr PreemptionNotices::CheckTask(const NotifyPreemption& request,
                                      const PreemptionState& state) const {
  const auto refused = [](std::string text) {
    return MakeError(absl::StatusCode::kPermissionDenied, Reason::kNotPermitted, std::move(text));
  };
  if (!request.member) {
    return refused("a token of role task gives notice of its own member's preemption: join first");
  }
  if (request.source == kOperator) {
    return refused("a token of role task may not speak as 'operator': name another source");
  }
  const std::vector<MemberIndex> host = OnHostOf(job_, *request.member);
  const std::string remedy =
      absl::StrCat(" than ", job_.Name(*request.member),
                   " and the members on its host, which takes a token of role launch or operator");
  if (request.act == NotifyPreemption::Act::kNotify) {
    if (AreOn(host, request.subjects)) return nullptr;
    return refused(absl::StrCat("this notice is about other members", remedy));
  }
  for (const PreemptionNotice& notice : state.notices) {
    if (Concerns(request, notice) && !AreOn(host, notice.subjects)) {
      return refused(
          absl::StrCat("the notice of ", notice.source, " is about other members", remedy));
    }
  }
  return nullptr;
}

std::optional<PreemptionNotice> PreemptionNotices::Note(Time now, const NotifyPreemption& request,
                                                        const PreemptionState& state) {
  PreemptionNotice notice = {.source = request.source,
                             .event = request.event,
                             .subjects = request.subjects,
                             .death = DeathOf(now, request),
                             .text = request.text};
  // A notice without an event, as an operator's, is new each time.
  if (notice.event.empty()) notice.event = absl::StrCat("#", state.version);
  std::string event = EventOf(notice);
  if (Seen(event) || (!IsOpen(state) && IsAfterthought(notice, state))) return std::nullopt;
  Remember(std::move(event));
  return notice;
}

bool PreemptionNotices::Seen(const std::string& event) const {
  return std::find(recent_.begin(), recent_.end(), event) != recent_.end();
}

void PreemptionNotices::Remember(std::string event) {
  recent_.push_back(std::move(event));
  // The oldest goes: its source has most likely stopped repeating it.
  if (recent_.size() > kRecentEvents) recent_.pop_front();
}

NoticeChange PreemptionNotices::Changed(PreemptionState next, Severity severity,
                                        const std::string& what) const {
  std::string told = absl::StrCat("job '", job_.options.job, "': ", NameOfPreemption(next), what);
  return {.next = std::move(next), .severity = severity, .told = std::move(told)};
}

NoticeChange PreemptionNotices::Begin(Time now, PreemptionState next,
                                      PreemptionNotice notice) const {
  LOCKSTEP_DCHECK(!IsOpen(next));
  // All anew but for the counters: nothing of the last preemption applies.
  next = {.version = next.version,
          .attempt = job_.attempt,
          .id = next.id + 1,
          .phase = PreemptionPhase::kPending,
          .round = next.round,
          .sync_step = {},
          .text = {},
          .notices = {notice},
          .death = notice.death,
          .since = now};
  std::string what = absl::StrCat(
      ": ", notice.source, " says that ", NameSubjects(job_, next), " will be preempted",
      next.death.is_infinite() ? "" : absl::StrCat(" in ", FormatSpan(next.death - now)),
      notice.text.empty() ? "" : absl::StrCat(" (", notice.text, ")"));
  return Changed(std::move(next), Severity::kWarning, what);
}

NoticeChange PreemptionNotices::Add(PreemptionState next, PreemptionNotice notice) const {
  LOCKSTEP_DCHECK(IsOpen(next));
  next.death = std::min(next.death, notice.death);
  // Somebody dies after all, so the step is needed again.
  next.withdrawn = false;
  const std::string source = notice.source;
  next.notices.push_back(std::move(notice));
  std::string what =
      absl::StrCat(": ", source, " says so too; ", NameSubjects(job_, next), " will be preempted");
  return Changed(std::move(next), Severity::kWarning, what);
}

std::optional<NoticeChange> PreemptionNotices::Extend(Time now, PreemptionState next,
                                                      const NotifyPreemption& request) const {
  LOCKSTEP_DCHECK(IsOpen(next));
  const Time death = DeathOf(now, request);
  bool moved = false;
  for (PreemptionNotice& each : next.notices) {
    if (!Concerns(request, each)) continue;
    // A source that repeats itself moves nothing and makes no version.
    moved |= each.death != death;
    each.death = death;
  }
  if (!moved) return std::nullopt;
  // Not `death` itself: another notice may give an earlier one.
  next.death = EarliestDeath(next.notices);
  std::string what = absl::StrCat(" of ", NameSubjects(job_, next),
                                  " was moved: ", FormatSpan(next.death - now), " are left");
  return Changed(std::move(next), Severity::kInfo, what);
}

std::optional<NoticeChange> PreemptionNotices::Withdraw(PreemptionState next,
                                                        const NotifyPreemption& request) {
  LOCKSTEP_DCHECK(IsOpen(next));
  // Kept for the end, which tells what the preemption was about.
  const std::vector<PreemptionNotice> before = next.notices;
  std::erase_if(next.notices, [&](const PreemptionNotice& notice) {
    if (!Concerns(request, notice)) return false;
    std::erase(recent_, EventOf(notice));  // said again, it is a new one
    return true;
  });
  if (next.notices.size() == before.size()) return std::nullopt;
  const bool none_left = next.notices.empty();
  // Before there is a sync step, nobody has to do anything; the state stays as it was, for the end.
  if (none_left && next.phase != PreemptionPhase::kAgreed) {
    next.notices = before;
    return NoticeChange{.next = std::move(next), .cancels = true};
  }
  next.death = EarliestDeath(next.notices);
  if (none_left) {
    // The step stands, since some may be beyond it by the time that all have heard.
    next.withdrawn = true;
    next.notices = before;  // what it was about is still worth telling
  }
  std::string what = absl::StrCat(
      ": ", request.source, " has withdrawn its notice",
      none_left ? absl::StrCat("; all save at step ", *next.sync_step, " nevertheless, and go on")
                : "");
  return Changed(std::move(next), Severity::kInfo, what);
}

void PreemptionNotices::Restore(const PreemptionState& state) {
  for (const PreemptionNotice& notice : state.notices) {
    std::string event = EventOf(notice);
    // Each state repeats the notices of the one before.
    if (!Seen(event)) recent_.push_back(std::move(event));
  }
  while (recent_.size() > kRecentEvents) recent_.pop_front();
}

}  // namespace lockstep::coord

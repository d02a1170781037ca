#include "lockstep/observe/preemption_text.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/limits.h"
#include "lockstep/observe/text_parts.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// Those who have not saved, and may need a look, come first.
constexpr std::array kSyncStatesByNeed = {
    SyncState::kFailed,    SyncState::kPassed, SyncState::kSilent,  SyncState::kGone,
    SyncState::kLate,      SyncState::kAsked,  SyncState::kHeld,    SyncState::kReached,
    SyncState::kUnstarted, SyncState::kSaved,  SyncState::kFinished};

// Members come in the order of their indices.
const SyncMember* SyncOf(const JobStatus& job, int32_t member) {
  if (!job.preemption) return nullptr;
  const std::vector<SyncMember>& members = job.preemption->members;
  const auto found =
      std::lower_bound(members.begin(), members.end(), member,
                       [](const SyncMember& each, int32_t index) { return each.member < index; });
  return found == members.end() || found->member != member ? nullptr : &*found;
}

std::string StepText(const SyncMember& member) {
  return member.step ? absl::StrCat(" at step ", *member.step) : "";
}

// " at step 120", " at steps 118 to 119"; empty when no member in that state says.
std::string StepsText(const JobStatus& job, SyncState state) {
  std::optional<int64_t> least;
  std::optional<int64_t> most;
  for (const SyncMember& member : job.preemption->members) {
    if (member.state != state || !member.step) continue;
    least = std::min(least.value_or(*member.step), *member.step);
    most = std::max(most.value_or(*member.step), *member.step);
  }
  if (!least) return "";
  return *least == *most ? absl::StrCat(" at step ", *least)
                         : absl::StrCat(" at steps ", *least, " to ", *most);
}

std::string NoticeText(const JobStatus& job, const PreemptionNotice& notice) {
  std::string when = "at a time that it does not say";
  if (notice.death_in_us) {
    when = *notice.death_in_us < 0 ? DurationText(-*notice.death_in_us) + " ago"
                                   : "in " + DurationText(*notice.death_in_us);
  }
  const std::string who =
      notice.subjects.empty() ? "everybody" : MembersRangesText(job, notice.subjects);
  return absl::StrCat(CleanText(notice.source, 80), ": ", who, " ", when,
                      notice.text.empty() ? "" : ", " + CleanText(notice.text));
}

size_t Answered(const JobStatus& job) {
  const std::vector<SyncMember>& members = job.preemption->members;
  return static_cast<size_t>(
      std::count_if(members.begin(), members.end(),
                    [](const SyncMember& member) { return member.state != SyncState::kAsked; }));
}

// "agreed 3.2s ago to save at step 120: 2 of 4 have; 27s left"
std::string PhaseText(const JobStatus& job) {
  const PreemptionState& state = job.preemption->state;
  const std::string since = DurationText(state.since_ago_us);
  switch (state.phase) {
    case PreemptionPhase::kPending:
      return absl::StrFormat(
          "pending for %s: %s; members agree on a step to save at when it is near", since,
          LeftText(state));
    case PreemptionPhase::kHolding:
      return absl::StrFormat("agreeing on a step for %s: %d of %d have answered; %s", since,
                             Answered(job), job.preemption->members.size(), LeftText(state));
    case PreemptionPhase::kAgreed:
      return absl::StrFormat("agreed %s ago to save at step %d: %d of %d have saved; %s", since,
                             state.sync_step.value_or(0),
                             MembersThatSync(job, SyncState::kSaved).size(),
                             job.preemption->members.size(),
                             state.withdrawn ? "withdrawn: no member will die" : LeftText(state));
    case PreemptionPhase::kEnded:
      return absl::StrFormat("ended %s ago, %s: %s", since, std::string(NameOf(state.outcome)),
                             CleanText(state.text));
    default:
      return std::string(NameOf(state.phase));
  }
}

}  // namespace

bool EndedWell(PreemptionOutcome outcome) {
  return outcome == PreemptionOutcome::kSaved || outcome == PreemptionOutcome::kSynced ||
         outcome == PreemptionOutcome::kFinished || outcome == PreemptionOutcome::kCancelled;
}

bool IsOpen(const PreemptionState& state) {
  return state.phase == PreemptionPhase::kPending || state.phase == PreemptionPhase::kHolding ||
         state.phase == PreemptionPhase::kAgreed;
}

std::string SubjectsText(const JobStatus& job, const PreemptionState& state) {
  std::vector<int32_t> subjects;
  for (const PreemptionNotice& notice : state.notices) {
    if (notice.subjects.empty()) return "everybody";
    subjects.insert(subjects.end(), notice.subjects.begin(), notice.subjects.end());
  }
  std::sort(subjects.begin(), subjects.end());
  subjects.erase(std::unique(subjects.begin(), subjects.end()), subjects.end());
  return MembersRangesText(job, subjects);
}

std::string LeftText(const PreemptionState& state) {
  if (!state.death_in_us) return "nobody says when";
  if (*state.death_in_us < 0) return "due " + DurationText(-*state.death_in_us) + " ago";
  return DurationText(*state.death_in_us) + " left";
}

std::vector<int32_t> MembersThatSync(const JobStatus& job, SyncState state) {
  std::vector<int32_t> indices;
  if (!job.preemption) return indices;
  for (const SyncMember& member : job.preemption->members) {
    if (member.state == state) indices.push_back(member.member);
  }
  return indices;
}

std::vector<int32_t> MembersThatAgreed(const JobStatus& job) {
  std::vector<int32_t> indices;
  for (const SyncState state :
       {SyncState::kHeld, SyncState::kReached, SyncState::kSaved, SyncState::kFailed}) {
    const std::vector<int32_t> some = MembersThatSync(job, state);
    indices.insert(indices.end(), some.begin(), some.end());
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::vector<std::string> SyncLines(const JobStatus& job) {
  std::vector<std::string> lines;
  for (const SyncState state : kSyncStatesByNeed) {
    const std::vector<int32_t> members = MembersThatSync(job, state);
    if (members.empty()) continue;
    const std::vector<SyncMember>& all = job.preemption->members;
    const auto in_state = [&](const SyncMember& member) { return member.state == state; };
    // What the first says is enough: they have mostly the same to say.
    const SyncMember& first = *std::find_if(all.begin(), all.end(), in_state);
    lines.push_back(absl::StrFormat("%-9s  %s%s%s", std::string(NameOf(state)),
                                    MembersRangesText(job, members), StepsText(job, state),
                                    first.text.empty() ? "" : ": " + CleanText(first.text)));
  }
  return lines;
}

std::string PreemptionText(const JobStatus& job) {
  if (!job.preemption || job.preemption->state.id == 0) return "";
  const PreemptionState& state = job.preemption->state;
  std::string text = absl::StrFormat("  preemption %d of %s: %s\n", state.id,
                                     SubjectsText(job, state), PhaseText(job));
  for (size_t i = 0; i < std::min(state.notices.size(), kNamesInErrorMax); ++i) {
    absl::StrAppend(&text, "    notice     ", NoticeText(job, state.notices[i]), "\n");
  }
  if (state.notices.size() > kNamesInErrorMax) {
    absl::StrAppendFormat(&text, "    +%d more notices\n", state.notices.size() - kNamesInErrorMax);
  }
  for (const std::string& line : SyncLines(job)) absl::StrAppend(&text, "    ", line, "\n");
  return text;
}

std::string SyncText(const JobStatus& job, int32_t member) {
  if (!job.preemption) return "";
  const PreemptionState& state = job.preemption->state;
  std::vector<std::string> parts;
  for (const PreemptionNotice& notice : state.notices) {
    const bool dies =
        notice.subjects.empty() ||
        std::find(notice.subjects.begin(), notice.subjects.end(), member) != notice.subjects.end();
    if (!dies || !IsOpen(state) || state.withdrawn) continue;
    parts.push_back(notice.death_in_us && *notice.death_in_us > 0
                        ? "dies in " + DurationText(*notice.death_in_us)
                        : "dies soon");
    break;
  }
  if (const SyncMember* sync = SyncOf(job, member)) {
    parts.push_back(absl::StrCat(std::string(NameOf(sync->state)), StepText(*sync),
                                 sync->text.empty() ? "" : ": " + CleanText(sync->text, 80)));
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace lockstep::observe

#include "lockstep/coord/sync_members.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/sync_step.h"

namespace lockstep::coord {

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

const SyncMembers::Entry* SyncMembers::Find(MemberIndex member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? nullptr : &found->second;
}

void SyncMembers::Set(MemberIndex member, Entry entry, Effects& out) {
  LOCKSTEP_DCHECK(job_.IsMember(member) && entry.stride > 0);
  LOCKSTEP_DCHECK(entry.state != SyncState::kHeld || entry.step.has_value());
  // Before the entry is moved. Strides and times are not recorded: after a restart all are asked
  // again.
  out.records.push_back(record::SyncMemberChanged{member, entry.state, entry.step, entry.text});
  members_[member] = std::move(entry);
}

std::vector<MemberIndex> SyncMembers::In(SyncState state) const {
  std::vector<MemberIndex> found;
  for (const auto& [member, entry] : members_) {
    if (entry.state == state) found.push_back(member);
  }
  return found;
}

std::vector<SyncMember> SyncMembers::View() const {
  std::vector<SyncMember> members;
  members.reserve(members_.size());
  for (const auto& [member, entry] : members_) {
    members.push_back({member, entry.state, entry.step, entry.text});
  }
  return members;
}

bool SyncMembers::AwaitsAnswers(bool all) const {
  return std::any_of(members_.begin(), members_.end(), [all](const auto& member) {
    const SyncState state = member.second.state;
    return state == SyncState::kAsked || (all && state == SyncState::kUnstarted);
  });
}

bool SyncMembers::AwaitsSaves() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    switch (member.second.state) {
      case SyncState::kReached:
        // One that left cannot report any more.
        return !member.second.left;
      case SyncState::kHeld:
      case SyncState::kUnstarted:  // these two come by the sync step, too
      case SyncState::kLate:
        return true;
      default:
        return false;
    }
  });
}

bool SyncMembers::AllFinal() const {
  return !members_.empty() && std::all_of(members_.begin(), members_.end(), [](const auto& member) {
    return IsFinal(member.second.state);
  });
}

std::optional<int64_t> SyncMembers::HighestOffer() const {
  std::optional<int64_t> step;
  for (const auto& [member, entry] : members_) {
    // Only members that hold before their step are bound by it; others have gone or are done.
    if (entry.state == SyncState::kHeld) step = std::max(step.value_or(0), *entry.step);
  }
  return step;
}

std::variant<int64_t, SyncMembers::Ending> SyncMembers::Decide(Time now, Time death) const {
  std::vector<StepOffer> offers;
  std::optional<int64_t> last;
  for (const auto& [member, entry] : members_) {
    if (entry.state != SyncState::kHeld) continue;
    offers.push_back({*entry.step, entry.stride});
    // The work ends where the first of them ends it.
    if (entry.last_step) last = std::min(last.value_or(*entry.last_step), *entry.last_step);
  }
  const std::optional<int64_t> step = LowestCommonStep(offers);
  if (!step) {
    return Ending{PreemptionOutcome::kNoCommonStep,
                  "the members' strides never meet: no step is one of each member's; report steps "
                  "in the same stride and phase everywhere"};
  }
  LOCKSTEP_DCHECK(*step >= *HighestOffer());  // no member has passed it
  // Before the time is looked at: work that ends needs none.
  if (last && *step > *last) {
    return Ending{PreemptionOutcome::kFinished,
                  absl::StrCat("the work ends at step ", *last, ", before step ", *step,
                               ", the next that all can reach: it is as well to finish")};
  }
  // Without a known death no step is too late.
  if (death.is_infinite()) return *step;
  const absl::Duration left = std::max(death - now, absl::ZeroDuration());
  if (std::optional<std::string> why = TooLate(left, *step)) {
    return Ending{PreemptionOutcome::kCannotSaveInTime, *std::move(why)};
  }
  return *step;
}

std::optional<std::string> SyncMembers::TooLate(absl::Duration left, int64_t step) const {
  absl::Duration most = absl::ZeroDuration();
  std::optional<std::string> why;
  for (const auto& [member, entry] : members_) {
    if (entry.state != SyncState::kHeld) continue;
    const absl::Duration way = entry.step_time * (step - *entry.step);
    // The larger of the two: a save that is cut short saves nothing.
    const absl::Duration save = std::max(entry.save_time, job_.options.preempt_save_estimate);
    // The slowest member is named, since it decides.
    if (way + save <= left || way + save <= most) continue;
    most = way + save;
    why = absl::StrCat(job_.NameWithLife(member), " needs ", FormatSpan(way), " from step ",
                       *entry.step, " to step ", step, ", the next that all can reach, and ",
                       FormatSpan(save), " to save, but ", FormatSpan(left),
                       " are left; what was saved last is what there is");
  }
  return why;
}

PreemptionOutcome SyncMembers::OutcomeOf(bool agreed) const {
  const size_t saved = In(SyncState::kSaved).size();
  // From the best outcome to the worst: a member that finished counts only where none saved.
  if (members_.empty()) return PreemptionOutcome::kNobodyAnswered;
  if (saved == members_.size()) return PreemptionOutcome::kSaved;
  if (saved + In(SyncState::kReached).size() == members_.size()) return PreemptionOutcome::kSynced;
  if (saved > 0) return PreemptionOutcome::kPartlySaved;
  if (In(SyncState::kFinished).size() == members_.size()) return PreemptionOutcome::kFinished;
  return agreed ? PreemptionOutcome::kNotSaved : PreemptionOutcome::kNobodyAnswered;
}

SyncMembers::Ending SyncMembers::SumUp(std::optional<int64_t> sync_step, absl::string_view why,
                                       const std::vector<MemberIndex>& apart) const {
  std::string text = sync_step ? absl::StrCat(In(SyncState::kSaved).size(), " of ", members_.size(),
                                              " members saved at step ", *sync_step)
                               : "no step was agreed on";
  if (!why.empty()) absl::StrAppend(&text, ": ", why);
  for (const SyncState state :
       {SyncState::kReached, SyncState::kFinished, SyncState::kAsked, SyncState::kSilent,
        SyncState::kUnstarted, SyncState::kHeld, SyncState::kPassed, SyncState::kFailed,
        SyncState::kGone, SyncState::kLate}) {
    const std::vector<MemberIndex> members = In(state);
    if (members.empty()) continue;
    absl::StrAppend(&text, "; ", job_.NameSome(members), " ", SyncStateName(state));
  }
  if (!apart.empty()) {
    absl::StrAppend(&text, "; ", job_.NameSome(apart),
                    " took no part: no Preemption is open there");
  }
  return {OutcomeOf(sync_step.has_value()), std::move(text)};
}

absl::Status SyncMembers::Apply(const record::SyncMemberChanged& record) {
  if (!job_.IsMember(record.member)) {
    return absl::InvalidArgumentError(
        absl::StrCat("member ", record.member.value(), " of a preemption is not of the job"));
  }
  members_[record.member] = {.state = record.state, .step = record.step, .text = record.text};
  return absl::OkStatus();
}

void SyncMembers::Snapshot(std::vector<TimedRecord>& out) const {
  for (const auto& [member, entry] : members_) {
    out.push_back({Time(), record::SyncMemberChanged{member, entry.state, entry.step, entry.text}});
  }
}

}  // namespace lockstep::coord

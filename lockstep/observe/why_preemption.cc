#include "lockstep/observe/why_preemption.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/limits.h"
#include "lockstep/observe/member_groups.h"
#include "lockstep/observe/preemption_text.h"
#include "lockstep/observe/store_text.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/observe/why_parts.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// "Preemption 2 of task/1 (gce, operator)"
std::string Title(const JobStatus& job, const PreemptionState& state) {
  std::vector<std::string> sources;
  for (const PreemptionNotice& notice : state.notices) {
    std::string source = CleanText(notice.source, 80);
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
      sources.push_back(std::move(source));
    }
  }
  if (sources.size() > kNamesInErrorMax) sources.resize(kNamesInErrorMax);
  return absl::StrFormat("Preemption %d of %s (%s)", state.id, SubjectsText(job, state),
                         absl::StrJoin(sources, ", "));
}

void Waits(std::string summary, Diagnosis& out) {
  // That members wait at barriers meanwhile follows from it.
  if (out.verdict == Verdict::kTrouble) return;
  out.verdict = Verdict::kWaiting;
  out.summary = std::move(summary);
}

void TellHolding(const JobStatus& job, const std::string& title, Diagnosis& out) {
  const PreemptionState& state = job.preemption->state;
  Waits(absl::StrFormat("preemption %d: the members are agreeing on a step to save at", state.id),
        out);
  const std::vector<int32_t> asked = MembersThatSync(job, SyncState::kAsked);
  out.findings.push_back(absl::StrFormat(
      "%s: for %s, members have been reporting their next step and pausing there; %s.%s", title,
      DurationText(state.since_ago_us), LeftText(state),
      asked.empty() ? "" : " Not yet answered:"));
  TellEach(job, asked, out.findings);
}

void TellAgreed(const JobStatus& job, const std::string& title, Diagnosis& out) {
  const PreemptionState& state = job.preemption->state;
  const int64_t step = state.sync_step.value_or(0);
  Waits(absl::StrFormat("preemption %d: all members save at step %d", state.id, step), out);
  const std::vector<int32_t> coming = MembersThatSync(job, SyncState::kHeld);
  const std::vector<int32_t> saving = MembersThatSync(job, SyncState::kReached);
  const bool open = !coming.empty() || !saving.empty();
  out.findings.push_back(absl::StrFormat(
      "%s: all members save at step %d, as agreed %s ago; %d of %d have saved; %s.%s", title, step,
      DurationText(state.since_ago_us), MembersThatSync(job, SyncState::kSaved).size(),
      job.preemption->members.size(),
      state.withdrawn ? "withdrawn: no member will die" : LeftText(state),
      open ? " Not yet:" : ""));
  if (!saving.empty()) {
    out.findings.push_back(absl::StrFormat("  %s %s at the step and saving.",
                                           MembersRangesText(job, saving),
                                           saving.size() == 1 ? "is" : "are"));
  }
  TellEach(job, coming, out.findings);
  if (!open) return;
  out.advice.push_back(
      "Check what the members that have not saved are doing. The preemption ends without them "
      "after preempt_save_timeout.");
}

// What to do after it; empty when there is nothing.
std::string AdviceAfter(const JobStatus& job) {
  const PreemptionState& state = job.preemption->state;
  const std::string step = absl::StrCat("step ", state.sync_step.value_or(0));
  switch (state.outcome) {
    case PreemptionOutcome::kSaved:
    case PreemptionOutcome::kSynced:
      // While the job runs on, there is nothing to do.
      return job.state == AttemptState::kRunning &&
                     MembersThatAre(job, MemberCondition::kLost).empty()
                 ? ""
                 : absl::StrCat("Restart the members from the checkpoint of ", step, ".");
    case PreemptionOutcome::kPartlySaved:
      return absl::StrCat("The checkpoint of ", step,
                          " lacks some members. Use it only if a single member saves everything; "
                          "otherwise use the previous checkpoint.");
    case PreemptionOutcome::kNotSaved:
      return "Use the previous checkpoint. Check the members' output for why none of them saved, "
             "and that they call Saved.";
    case PreemptionOutcome::kCannotSaveInTime:
      return "Use the previous checkpoint. Save more often, or faster than such a notice allows.";
    case PreemptionOutcome::kNoCommonStep:
      return "Make all members poll at the same steps: same first step, same stride.";
    case PreemptionOutcome::kNobodyAnswered:
      return "Open a Preemption in each member and poll it in each step (docs/preemption.md), or "
             "find out why the members have not begun.";
    default:
      return "";
  }
}

// Whether somebody was there when it ended who may have had something to save. Programs that know
// nothing of Lockstep have, too, although nobody joins from them.
bool AnybodyToSave(const JobStatus& job) {
  if (job.state != AttemptState::kWaiting) return true;
  if (!OnlyProcesses(job)) return OnlyTorch(job);
  const int64_t ended_ago_us = job.preemption->state.since_ago_us;
  return std::any_of(job.members.begin(), job.members.end(), [&](const MemberStatus& member) {
    switch (member.process) {
      case ProcessState::kUnspecified:
      case ProcessState::kLeftOut:
        return false;
      case ProcessState::kRunning:
        // Else it was started by a later run.
        return member.process_since_ago_us >= ended_ago_us;
      default:
        return true;  // nobody told when it was started
    }
  });
}

void TellEnded(const JobStatus& job, const std::string& title, Diagnosis& out) {
  const PreemptionState& state = job.preemption->state;
  out.findings.push_back(absl::StrFormat(
      "%s ended %s ago, %s: %s.", title, DurationText(state.since_ago_us),
      std::string(NameOf(state.outcome)), CleanText(state.text, kErrorTextBytesMax)));
  if (!AnybodyToSave(job)) return;
  if (!EndedWell(state.outcome)) {
    for (const std::string& line : SyncLines(job)) out.findings.push_back("  " + line);
    if (out.verdict != Verdict::kTrouble) {
      out.summary = absl::StrFormat("preemption %d ended without a checkpoint of all", state.id);
      out.verdict = Verdict::kTrouble;
    }
  }
  if (std::string advice = AdviceAfter(job); !advice.empty()) {
    out.advice.insert(out.advice.begin(), std::move(advice));
  }
}

}  // namespace

void TellPreemption(const JobStatus& job, Diagnosis& out) {
  if (!job.preemption) return;
  const PreemptionState& state = job.preemption->state;
  const std::string title = Title(job, state);
  switch (state.phase) {
    case PreemptionPhase::kPending:
      // Nobody waits for it yet.
      out.findings.push_back(absl::StrFormat(
          "%s: %s. The members will agree on a step to save at when it is near (preempt_window).",
          title, LeftText(state)));
      return;
    case PreemptionPhase::kHolding:
      return TellHolding(job, title, out);
    case PreemptionPhase::kAgreed:
      return TellAgreed(job, title, out);
    case PreemptionPhase::kEnded:
      return TellEnded(job, title, out);
    default:
      return;
  }
}

}  // namespace lockstep::observe

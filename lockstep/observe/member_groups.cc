#include "lockstep/observe/member_groups.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/observe/preemption_text.h"
#include "lockstep/observe/text_parts.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// What is said of processes in a state.
struct ProcessWords {
  ProcessState state;
  bool tells_of_each;
  const char* of_one;   // in a member's row
  const char* counted;  // after the number of them, for one and for several
  const char* counted_many;
};

// What needs a look comes first.
constexpr std::array kProcessesByNeed = {
    ProcessWords{ProcessState::kFailed, true, "process failed", "process failed",
                 "processes failed"},
    ProcessWords{ProcessState::kStopped, true, "process stopped", "process is stopped",
                 "processes are stopped"},
    ProcessWords{ProcessState::kUnspecified, false, "missing", "missing", "missing"},
    ProcessWords{ProcessState::kRunning, false, "process runs", "process runs", "processes run"},
    ProcessWords{ProcessState::kEnded, false, "process ended", "process ended well",
                 "processes ended well"},
    ProcessWords{ProcessState::kLeftOut, false, "left out", "left out", "left out"}};

std::vector<const MemberStatus*> MembersWhoseProcessIs(const JobStatus& job, ProcessState state) {
  std::vector<const MemberStatus*> members;
  for (const MemberStatus& member : job.members) {
    if (member.process == state) members.push_back(&member);
  }
  return members;
}

bool IsAny(const JobStatus& job, ProcessState state) {
  return std::any_of(job.members.begin(), job.members.end(),
                     [&](const MemberStatus& member) { return member.process == state; });
}

bool TellsOfEach(MemberCondition condition) {
  return condition == MemberCondition::kLost || condition == MemberCondition::kFailed ||
         condition == MemberCondition::kSuspect;
}

}  // namespace

bool OnlyProcesses(const JobStatus& job) {
  // One that was heard has come, and went away again.
  const bool none_joined =
      std::all_of(job.members.begin(), job.members.end(), [](const MemberStatus& member) {
        return member.condition == MemberCondition::kMissing && !member.last_heard_ago_us;
      });
  const bool told = std::any_of(job.members.begin(), job.members.end(), [](const auto& member) {
    return member.process != ProcessState::kUnspecified && member.process != ProcessState::kLeftOut;
  });
  return job.state == AttemptState::kWaiting && none_joined && told;
}

std::vector<const MemberStatus*> FailedProcesses(const JobStatus& job) {
  const bool preempted = job.preemption && job.preemption->state.phase == PreemptionPhase::kEnded &&
                         EndedWell(job.preemption->state.outcome);
  std::vector<const MemberStatus*> failed;
  for (const MemberStatus& member : job.members) {
    if (member.process != ProcessState::kFailed) continue;
    const int64_t ago_us = member.process_since_ago_us;
    const bool missing = member.condition == MemberCondition::kMissing;
    const bool had_left =
        member.condition == MemberCondition::kLeft && ago_us <= member.since_ago_us;
    if (!missing && !had_left) continue;
    if (preempted && ago_us <= job.preemption->state.since_ago_us) continue;
    failed.push_back(&member);
  }
  std::stable_sort(failed.begin(), failed.end(), [](const auto* a, const auto* b) {
    return a->process_since_ago_us > b->process_since_ago_us;
  });
  return failed;
}

AttemptState StandingOf(const JobStatus& job) {
  if (!OnlyProcesses(job)) {
    return FailedProcesses(job).empty() ? job.state : AttemptState::kFailed;
  }
  if (IsAny(job, ProcessState::kFailed)) return AttemptState::kFailed;
  if (IsAny(job, ProcessState::kUnspecified)) return AttemptState::kWaiting;
  const bool goes_on = IsAny(job, ProcessState::kRunning) || IsAny(job, ProcessState::kStopped);
  return goes_on ? AttemptState::kRunning : AttemptState::kEnded;
}

AttemptState StateForPrograms(const JobStatus& job) {
  return StandingOf(job) == AttemptState::kFailed ? AttemptState::kFailed : job.state;
}

std::string StandingText(const JobStatus& job) {
  if (!OnlyProcesses(job)) {
    const size_t failed = FailedProcesses(job).size();
    if (failed == 0) return CountsText(job);
    return absl::StrFormat("%s, %d %s failed", CountsText(job), failed,
                           failed == 1 ? "process" : "processes");
  }
  std::vector<std::string> parts;
  for (const ProcessWords& words : kProcessesByNeed) {
    const size_t count = MembersWhoseProcessIs(job, words.state).size();
    if (count == 0) continue;
    parts.push_back(
        absl::StrFormat("%d %s", count, count == 1 ? words.counted : words.counted_many));
  }
  parts.push_back("none joined");
  return absl::StrJoin(parts, ", ");
}

int64_t MemberGroup::SinceUs(const MemberStatus& member) const {
  return of_processes ? member.process_since_ago_us : member.since_ago_us;
}

std::string MemberGroup::WhyText(const MemberStatus& member) const {
  const bool says_nothing_new = of_processes && member.process == ProcessState::kRunning;
  return says_nothing_new ? "" : CleanText(member.why);
}

std::vector<MemberGroup> GroupsByNeed(const JobStatus& job) {
  std::vector<MemberGroup> groups;
  const auto add = [&](MemberGroup group) {
    if (!group.members.empty()) groups.push_back(std::move(group));
  };
  if (OnlyProcesses(job)) {
    for (const ProcessWords& words : kProcessesByNeed) {
      add({.state = words.of_one,
           .tells_of_each = words.tells_of_each,
           .of_processes = true,
           .members = MembersWhoseProcessIs(job, words.state)});
    }
    return groups;
  }
  for (const MemberCondition condition : kConditionsByNeed) {
    add({.state = std::string(NameOf(condition)),
         .tells_of_each = TellsOfEach(condition),
         .members = MembersThatAre(job, condition)});
  }
  return groups;
}

}  // namespace lockstep::observe

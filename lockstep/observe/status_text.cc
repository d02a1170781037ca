#include "lockstep/observe/status_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/limits.h"
#include "lockstep/observe/member_groups.h"
#include "lockstep/observe/preemption_text.h"
#include "lockstep/observe/store_text.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// Before the first member of an attempt has come, nobody is missed yet.
std::string SinceText(const MemberStatus& member, int64_t since_us) {
  return member.condition == MemberCondition::kMissing && since_us == 0 ? ""
                                                                        : DurationText(since_us);
}

Grid::Row OneMember(const MemberGroup& group, const MemberStatus& member) {
  return {CleanText(member.name),
          group.state,
          SinceText(member, group.SinceUs(member)),
          HeardText(member.last_heard_ago_us),
          ProcessText(member),
          group.WhyText(member)};
}

// All members of a group in one row, with the longest time of any of them.
Grid::Row ManyMembers(const JobStatus& job, const MemberGroup& group) {
  std::vector<int32_t> indices;
  int64_t since = 0;
  std::optional<int64_t> heard;
  for (const MemberStatus* member : group.members) {
    indices.push_back(member->index);
    since = std::max(since, group.SinceUs(*member));
    if (member->last_heard_ago_us) {
      heard = std::max(heard.value_or(0), *member->last_heard_ago_us);
    }
  }
  return {MembersRangesText(job, indices),
          group.state,
          SinceText(*group.members.front(), since),
          HeardText(heard),
          "",
          absl::StrFormat("%d members; the longest times", group.members.size())};
}

std::string MembersText(const JobStatus& job) {
  Grid grid;
  grid.Add({"MEMBER", "STATE", "SINCE", "HEARD", "PROCESS", "WHY"});
  const bool is_long = job.members.size() > static_cast<size_t>(kMembersListedMax);
  for (const MemberGroup& group : GroupsByNeed(job)) {
    const auto& members = group.members;
    if (is_long && members.size() > 1 && !group.tells_of_each) {
      grid.Add(ManyMembers(job, group));
      continue;
    }
    for (size_t i = 0; i < members.size() && i < kRowsMax; ++i) {
      grid.Add(OneMember(group, *members[i]));
    }
    if (members.size() > kRowsMax) {
      grid.Add({absl::StrFormat("+%d more", members.size() - kRowsMax), group.state, "", "", "",
                "-o json lists them all"});
    }
  }
  return grid.Text();
}

std::string BarriersText(const JobStatus& job) {
  std::string text;
  for (size_t i = 0; i < job.barriers.size() && i < kRowsMax; ++i) {
    const BarrierStatus& barrier = job.barriers[i];
    text += absl::StrFormat(
        "  barrier '%s' (use %d): %d of %d arrived, open for %s, %s\n", CleanText(barrier.id),
        barrier.counter, barrier.waiting.size(), barrier.waiting.size() + barrier.awaited.size(),
        DurationText(barrier.opened_ago_us),
        barrier.deadline_in_us ? DurationText(*barrier.deadline_in_us) + " left" : "no deadline");
    text += absl::StrFormat("    awaits   %s\n", NamedText(job, barrier.awaited));
    text += absl::StrFormat("    waiting  %s\n", MembersRangesText(job, barrier.waiting));
  }
  const size_t shown = std::min(job.barriers.size(), kRowsMax);
  // A server of before does not say how many there are.
  const size_t open = std::max(job.barriers.size(), static_cast<size_t>(job.barriers_open));
  if (open > shown) {
    text += absl::StrFormat("  +%d more open barriers, %d in all\n", open - shown, open);
  }
  return text;
}

std::string KeyWaitsText(const JobStatus& job) {
  std::string text;
  for (size_t i = 0; i < job.key_waits.size() && i < kRowsMax; ++i) {
    const KeyWaitStatus& wait = job.key_waits[i];
    text += absl::StrFormat("  key '%s' is not set: %d waiting, the first for %s",
                            CleanText(wait.key), wait.waiters, DurationText(wait.since_ago_us));
    if (!wait.members.empty()) {
      text += ": " + MembersRangesText(job, wait.members);
    }
    text += "\n";
  }
  const size_t shown = std::min(job.key_waits.size(), kRowsMax);
  const size_t awaited = std::max(job.key_waits.size(), static_cast<size_t>(job.keys_awaited));
  if (awaited > shown) {
    text += absl::StrFormat("  +%d more awaited keys, %d in all\n", awaited - shown, awaited);
  }
  return text;
}

std::string OneErrorText(const ErrorStatus& error) {
  const auto code = static_cast<absl::StatusCode>(error.code);
  return absl::StrFormat("    %s%s ago, attempt %d: %s %s%s%s: %s\n",
                         error.consequence ? "  consequence, " : "", DurationText(error.at_ago_us),
                         error.attempt, absl::StatusCodeToString(code), CleanText(error.reason),
                         error.origin.empty() ? "" : " by ", CleanText(error.origin),
                         CleanText(error.message));
}

// The newest attempt first; in it what began it, then what followed from that.
std::string ErrorsText(const JobStatus& job) {
  if (job.errors.empty()) return "";
  std::vector<const ErrorStatus*> errors;
  for (const ErrorStatus& error : job.errors) errors.push_back(&error);
  std::stable_sort(errors.begin(), errors.end(), [](const auto* a, const auto* b) {
    return std::pair(-a->attempt, a->consequence) < std::pair(-b->attempt, b->consequence);
  });
  std::string text = "  errors\n";
  std::map<int64_t, size_t> consequences;  // by attempt
  size_t shown = 0;
  for (const ErrorStatus* error : errors) {
    if (error->consequence && ++consequences[error->attempt] > kNamesInErrorMax) continue;
    if (shown == kRowsMax) break;
    ++shown;
    text += OneErrorText(*error);
  }
  if (shown < errors.size()) text += absl::StrFormat("    +%d more\n", errors.size() - shown);
  return text;
}

std::string JobText(const JobStatus& job) {
  std::string text = absl::StrFormat(
      "job %s  attempt %d %s%s  %s: %s%s  stock clients: %s\n", CleanText(job.job), job.attempt,
      std::string(NameOf(StandingOf(job))),
      job.started_ago_us ? ", began " + DurationText(*job.started_ago_us) + " ago" : "",
      CountText(job.size, "member"), StandingText(job),
      OnlyProcesses(job) ? " (programs that do not use Lockstep never join)" : "",
      CleanText(job.grpc));
  text += MembersText(job);
  text += PreemptionText(job);
  text += BarriersText(job);
  text += KeyWaitsText(job);
  text += StoreText(job);
  text += ErrorsText(job);
  return text;
}

std::string MebibytesText(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

// "memory 12.0 MiB of 4096.0 MiB, most by job 'digits': 8.0 MiB (keys)".
std::string MemoryText(const wire::native::MemoryStatus& memory) {
  std::string text =
      absl::StrFormat("memory %s of %s", MebibytesText(memory.held), MebibytesText(memory.limit));
  if (!memory.holders.empty()) {
    const wire::native::MemoryHolder& most = memory.holders.front();
    text += absl::StrFormat(", most by %s: %s (%s)", CleanText(most.owner),
                            MebibytesText(most.bytes), CleanText(most.part));
  }
  return text + "\n";
}

}  // namespace

bool InTrouble(const JobStatus& job) {
  return StandingOf(job) == AttemptState::kFailed ||
         std::any_of(job.members.begin(), job.members.end(), [](const MemberStatus& member) {
           return member.condition == MemberCondition::kLost ||
                  member.condition == MemberCondition::kFailed;
         });
}

std::string StatusTable(const StatusReply& status) {
  std::string text =
      absl::StrFormat("server %s  lockstep %s, pid %d, up %s\n", CleanText(status.server.listen),
                      CleanText(status.server.version), status.server.pid,
                      DurationText(status.server.started_ago_us));
  if (status.server.memory) text += MemoryText(*status.server.memory);
  if (status.jobs.empty()) text += "\nno jobs\n";
  for (const wire::native::SetAsideJob& job : status.set_aside) {
    absl::StrAppend(&text, "\n", SetAsideName(job),
                    " is set aside and not served: ", CleanText(job.why, kErrorTextBytesMax),
                    " (lockstep job delete ", CleanText(job.job), " ends it)\n");
  }
  for (const JobStatus& job : status.jobs) text += "\n" + JobText(job);
  return text;
}

std::string StatusJson(const StatusReply& status) {
  StatusReply shown = status;
  for (JobStatus& job : shown.jobs) job.state = StateForPrograms(job);
  return ToJson(shown).dump(2) + "\n";
}

}  // namespace lockstep::observe

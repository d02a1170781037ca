#include "lockstep/observe/status_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr size_t kRangesMax = 8;
constexpr size_t kTextMax = 400;

// What needs a look comes first.
constexpr std::array kOrder = {MemberCondition::kLost,        MemberCondition::kFailed,
                               MemberCondition::kSuspect,     MemberCondition::kMissing,
                               MemberCondition::kRegistering, MemberCondition::kConnected,
                               MemberCondition::kLeft,        MemberCondition::kUnspecified};

bool TellsOfEachMember(MemberCondition condition) {
  return condition == MemberCondition::kLost || condition == MemberCondition::kFailed ||
         condition == MemberCondition::kSuspect;
}

// One line without anything that a terminal would obey.
std::string Clean(std::string_view text) {
  std::string clean;
  for (const char c : text.substr(0, kTextMax)) {
    const auto byte = static_cast<unsigned char>(c);
    clean.push_back(byte < 0x20 || byte == 0x7F ? ' ' : c);
  }
  if (text.size() > kTextMax) {
    // Not in the middle of a character.
    while (!clean.empty() && (static_cast<unsigned char>(clean.back()) & 0xC0) == 0x80) {
      clean.pop_back();
    }
    if (!clean.empty() && static_cast<unsigned char>(clean.back()) >= 0xC0) clean.pop_back();
    clean += " ...";
  }
  return clean;
}

// "task" of "task/4#1".
std::string RoleOf(const JobStatus& job) {
  for (const MemberStatus& member : job.members) {
    const size_t slash = member.name.find('/');
    if (slash != std::string::npos) return Clean(member.name.substr(0, slash));
  }
  return "member";
}

// "task/0-3,5"
std::string MembersRangesText(const JobStatus& job, const std::vector<int32_t>& indices) {
  if (indices.empty()) return "nobody";
  return RoleOf(job) + "/" + RangesText(indices, kRangesMax);
}

std::string HeardText(const std::optional<int64_t>& ago) {
  return ago.has_value() ? DurationText(*ago) : "never";
}

std::string ProcessText(const MemberStatus& member) {
  if (member.pid != 0) return absl::StrFormat("%s:%d", Clean(member.host), member.pid);
  return Clean(member.peer);
}

// Rows of equal columns, the last of which is not padded.
class Grid {
 public:
  using Row = std::array<std::string, 6>;
  void Add(Row row) { rows_.push_back(std::move(row)); }
  std::string Text() const {
    std::array<size_t, std::tuple_size_v<Row>> widths = {};
    for (const Row& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const Row& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        line += absl::StrFormat("  %-*s", static_cast<int>(widths[i]), row[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

 private:
  std::vector<Row> rows_;
};

std::vector<const MemberStatus*> MembersThatAre(const JobStatus& job, MemberCondition condition) {
  std::vector<const MemberStatus*> members;
  for (const MemberStatus& member : job.members) {
    if (member.condition == condition) members.push_back(&member);
  }
  return members;
}

// Before the first member of an attempt has come, nobody is missed yet.
std::string SinceText(MemberCondition condition, int64_t since_us) {
  return condition == MemberCondition::kMissing && since_us == 0 ? "" : DurationText(since_us);
}

Grid::Row OneMember(const MemberStatus& member) {
  return {Clean(member.name),
          std::string(NameOf(member.condition)),
          SinceText(member.condition, member.since_ago_us),
          HeardText(member.last_heard_ago_us),
          ProcessText(member),
          Clean(member.why)};
}

// All members of a condition in one row, with the longest time of any of them.
Grid::Row ManyMembers(const JobStatus& job, const std::vector<const MemberStatus*>& members) {
  std::vector<int32_t> indices;
  int64_t since = 0;
  std::optional<int64_t> heard;
  for (const MemberStatus* member : members) {
    indices.push_back(member->index);
    since = std::max(since, member->since_ago_us);
    if (member->last_heard_ago_us) {
      heard = std::max(heard.value_or(0), *member->last_heard_ago_us);
    }
  }
  return {MembersRangesText(job, indices),
          std::string(NameOf(members.front()->condition)),
          SinceText(members.front()->condition, since),
          HeardText(heard),
          "",
          absl::StrFormat("%d members; the longest times", members.size())};
}

std::string MembersText(const JobStatus& job) {
  Grid grid;
  grid.Add({"MEMBER", "STATE", "SINCE", "HEARD", "PROCESS", "WHY"});
  const bool is_long = job.members.size() > static_cast<size_t>(kMembersListedMax);
  for (const MemberCondition condition : kOrder) {
    const auto members = MembersThatAre(job, condition);
    if (is_long && members.size() > 1 && !TellsOfEachMember(condition)) {
      grid.Add(ManyMembers(job, members));
      continue;
    }
    for (size_t i = 0; i < members.size() && i < kRowsMax; ++i) grid.Add(OneMember(*members[i]));
    if (members.size() > kRowsMax) {
      grid.Add({absl::StrFormat("+%d more", members.size() - kRowsMax),
                std::string(NameOf(condition)), "", "", "", "-o json lists them all"});
    }
  }
  return grid.Text();
}

std::string CountsText(const JobStatus& job) {
  std::vector<std::string> counts;
  for (const MemberCondition condition : kOrder) {
    const size_t count = MembersThatAre(job, condition).size();
    if (count == 0) continue;
    counts.push_back(absl::StrFormat("%d %s", count, std::string(NameOf(condition))));
  }
  return absl::StrJoin(counts, ", ");
}

size_t PlaceInOrder(MemberCondition condition) {
  return static_cast<size_t>(std::find(kOrder.begin(), kOrder.end(), condition) - kOrder.begin());
}

std::string WithHeardText(const MemberStatus& member) {
  const std::string heard = member.last_heard_ago_us
                                ? "heard " + DurationText(*member.last_heard_ago_us) + " ago"
                                : "never heard";
  return absl::StrFormat("%s (%s, %s)", Clean(member.name), std::string(NameOf(member.condition)),
                         heard);
}

// "task/4#1 (suspect, heard 41s ago)", three of them, the worst first, then "+13 more".
std::string NamedText(const JobStatus& job, const std::vector<int32_t>& indices) {
  if (indices.empty()) return "nobody";
  std::vector<const MemberStatus*> members;
  for (const int32_t i : indices) {
    const auto index = static_cast<size_t>(i);
    if (index < job.members.size()) members.push_back(&job.members[index]);
  }
  std::stable_sort(members.begin(), members.end(), [](const auto* a, const auto* b) {
    return PlaceInOrder(a->condition) < PlaceInOrder(b->condition);
  });
  if (members.size() > kNamesInErrorMax) members.resize(kNamesInErrorMax);
  std::string text = absl::StrJoin(members, ", ", [](std::string* out, const auto* member) {
    out->append(WithHeardText(*member));
  });
  if (indices.size() > kNamesInErrorMax) {
    text += absl::StrFormat(" +%d more", indices.size() - kNamesInErrorMax);
  }
  return text;
}

std::string BarriersText(const JobStatus& job) {
  std::string text;
  for (size_t i = 0; i < job.barriers.size() && i < kRowsMax; ++i) {
    const BarrierStatus& barrier = job.barriers[i];
    text += absl::StrFormat(
        "  barrier '%s' (use %d): %d of %d arrived, open for %s, %s\n", Clean(barrier.id),
        barrier.counter, barrier.waiting.size(), barrier.waiting.size() + barrier.awaited.size(),
        DurationText(barrier.opened_ago_us),
        barrier.deadline_in_us ? DurationText(*barrier.deadline_in_us) + " left" : "no deadline");
    text += absl::StrFormat("    awaits   %s\n", NamedText(job, barrier.awaited));
    text += absl::StrFormat("    waiting  %s\n", MembersRangesText(job, barrier.waiting));
  }
  if (job.barriers.size() > kRowsMax) {
    text += absl::StrFormat("  +%d more open barriers\n", job.barriers.size() - kRowsMax);
  }
  return text;
}

std::string KeyWaitsText(const JobStatus& job) {
  std::string text;
  for (size_t i = 0; i < job.key_waits.size() && i < kRowsMax; ++i) {
    const KeyWaitStatus& wait = job.key_waits[i];
    text += absl::StrFormat("  key '%s' is not set: %d waiting, the first for %s", Clean(wait.key),
                            wait.waiters, DurationText(wait.since_ago_us));
    if (!wait.members.empty()) {
      text += ": " + MembersRangesText(job, wait.members);
    }
    text += "\n";
  }
  if (job.key_waits.size() > kRowsMax) {
    text += absl::StrFormat("  +%d more keys that are not set\n", job.key_waits.size() - kRowsMax);
  }
  return text;
}

std::string OneErrorText(const ErrorStatus& error) {
  const auto code = static_cast<absl::StatusCode>(error.code);
  return absl::StrFormat("    %s%s ago, attempt %d: %s %s%s%s: %s\n",
                         error.consequence ? "  consequence, " : "", DurationText(error.at_ago_us),
                         error.attempt, absl::StatusCodeToString(code), Clean(error.reason),
                         error.origin.empty() ? "" : " by ", Clean(error.origin),
                         Clean(error.message));
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
      "job %s  attempt %d %s%s  %d members: %s  stock clients: %s\n", Clean(job.job), job.attempt,
      std::string(NameOf(job.state)),
      job.started_ago_us ? ", began " + DurationText(*job.started_ago_us) + " ago" : "", job.size,
      CountsText(job), Clean(job.grpc));
  text += MembersText(job);
  text += BarriersText(job);
  text += KeyWaitsText(job);
  text += ErrorsText(job);
  return text;
}

}  // namespace

bool InTrouble(const JobStatus& job) {
  return job.state == AttemptState::kFailed ||
         std::any_of(job.members.begin(), job.members.end(), [](const MemberStatus& member) {
           return member.condition == MemberCondition::kLost ||
                  member.condition == MemberCondition::kFailed;
         });
}

std::string StatusTable(const StatusReply& status) {
  std::string text = absl::StrFormat("server %s  lockstep %s, pid %d, up %s\n",
                                     Clean(status.server.listen), Clean(status.server.version),
                                     status.server.pid, DurationText(status.server.started_ago_us));
  if (status.jobs.empty()) text += "\nno jobs\n";
  for (const JobStatus& job : status.jobs) text += "\n" + JobText(job);
  return text;
}

std::string StatusJson(const StatusReply& status) { return ToJson(status).dump(2) + "\n"; }

std::string DurationText(int64_t microseconds) {
  constexpr int64_t kSecond = 1'000'000;
  constexpr int64_t kMinute = 60 * kSecond;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  const int64_t us = std::max<int64_t>(0, microseconds);
  if (us < 1000) return absl::StrFormat("%dus", us);
  if (us < kSecond) return absl::StrFormat("%dms", us / 1000);
  if (us < 10 * kSecond) {
    return absl::StrFormat("%d.%ds", us / kSecond, us % kSecond / (kSecond / 10));
  }
  if (us < 2 * kMinute) return absl::StrFormat("%ds", us / kSecond);
  if (us < 2 * kHour) return absl::StrFormat("%dm%02ds", us / kMinute, us % kMinute / kSecond);
  if (us < 2 * kDay) return absl::StrFormat("%dh%02dm", us / kHour, us % kHour / kMinute);
  return absl::StrFormat("%dd%02dh", us / kDay, us % kDay / kHour);
}

std::string RangesText(const std::vector<int32_t>& indices, size_t ranges_max) {
  std::vector<std::string> ranges;
  size_t at = 0;
  while (at < indices.size() && ranges.size() < ranges_max) {
    size_t end = at + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    ranges.push_back(end - at == 1 ? absl::StrFormat("%d", indices[at])
                                   : absl::StrFormat("%d-%d", indices[at], indices[end - 1]));
    at = end;
  }
  if (at < indices.size()) ranges.push_back(absl::StrFormat("+%d more", indices.size() - at));
  return absl::StrJoin(ranges, ",");
}

}  // namespace lockstep::observe

#include "lockstep/observe/text_parts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/limits.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

constexpr size_t kRangesMax = 8;

// "task" and 4 of "task/4#1"; the member's place in the job when its name says nothing.
std::pair<std::string, int32_t> RoleAndIndex(const MemberStatus& member) {
  const size_t slash = member.name.rfind('/');
  const std::string digits =
      slash == std::string::npos
          ? ""
          : member.name.substr(slash + 1, member.name.find('#', slash) - slash - 1);
  int32_t index = 0;
  if (!absl::SimpleAtoi(digits, &index)) return {"member", member.index};
  return {CleanText(member.name.substr(0, slash)), index};
}

size_t PlaceByNeed(MemberCondition condition) {
  return static_cast<size_t>(
      std::find(kConditionsByNeed.begin(), kConditionsByNeed.end(), condition) -
      kConditionsByNeed.begin());
}

std::string WithHeardText(const MemberStatus& member) {
  const std::string heard = member.last_heard_ago_us
                                ? "heard " + DurationText(*member.last_heard_ago_us) + " ago"
                                : "never heard";
  return absl::StrFormat("%s (%s, %s)", CleanText(member.name),
                         std::string(NameOf(member.condition)), heard);
}

bool Contains(const std::vector<int32_t>& members, int32_t index) {
  return std::find(members.begin(), members.end(), index) != members.end();
}

// As the server calls it among the jobs that are set aside.
constexpr std::string_view kDataService = "@data";

}  // namespace

std::string SetAsideName(const SetAsideJob& job) {
  return job.job == kDataService ? "the data service" : absl::StrCat("job ", CleanText(job.job));
}

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

std::string CountText(int64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
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

std::string CleanText(std::string_view text, size_t bytes_max) {
  std::string clean;
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    clean.push_back(byte < 0x20 || byte == 0x7F ? ' ' : c);
  }
  if (text.size() > bytes_max) {
    // Not in the middle of a character.
    while (!clean.empty() && (static_cast<unsigned char>(clean.back()) & 0xC0) == 0x80) {
      clean.pop_back();
    }
    if (!clean.empty() && static_cast<unsigned char>(clean.back()) >= 0xC0) clean.pop_back();
    clean += " ...";
  }
  return clean;
}

std::string HeardText(const std::optional<int64_t>& ago) {
  return ago.has_value() ? DurationText(*ago) : "never";
}

std::string ProcessText(const MemberStatus& member) {
  if (member.pid != 0) return absl::StrFormat("%s:%d", CleanText(member.host), member.pid);
  return CleanText(member.peer);
}

std::vector<const MemberStatus*> MembersThatAre(const JobStatus& job, MemberCondition condition) {
  std::vector<const MemberStatus*> members;
  for (const MemberStatus& member : job.members) {
    if (member.condition == condition) members.push_back(&member);
  }
  return members;
}

const MemberStatus* MemberAt(const JobStatus& job, int32_t index) {
  const auto place = static_cast<size_t>(index);
  return index >= 0 && place < job.members.size() ? &job.members[place] : nullptr;
}

std::string CountsText(const JobStatus& job) {
  std::vector<std::string> counts;
  for (const MemberCondition condition : kConditionsByNeed) {
    const size_t count = MembersThatAre(job, condition).size();
    if (count == 0) continue;
    counts.push_back(absl::StrFormat("%d %s", count, std::string(NameOf(condition))));
  }
  return absl::StrJoin(counts, ", ");
}

std::string MembersRangesText(const JobStatus& job, const std::vector<int32_t>& indices) {
  if (indices.empty()) return "none";
  std::vector<std::pair<std::string, std::vector<int32_t>>> roles;
  for (const int32_t i : indices) {
    const MemberStatus* member = MemberAt(job, i);
    const auto [role, index] =
        member == nullptr ? std::pair<std::string, int32_t>("member", i) : RoleAndIndex(*member);
    auto found = std::find_if(roles.begin(), roles.end(),
                              [&, name = role](const auto& known) { return known.first == name; });
    if (found == roles.end()) found = roles.insert(roles.end(), {role, {}});
    found->second.push_back(index);
  }
  return absl::StrJoin(roles, ",", [](std::string* out, const auto& role) {
    absl::StrAppend(out, role.first, "/", RangesText(role.second, kRangesMax));
  });
}

std::string NamedText(const JobStatus& job, const std::vector<int32_t>& indices) {
  if (indices.empty()) return "none";
  std::vector<const MemberStatus*> members;
  for (const int32_t i : indices) {
    if (const MemberStatus* member = MemberAt(job, i)) members.push_back(member);
  }
  std::stable_sort(members.begin(), members.end(), [](const auto* a, const auto* b) {
    return PlaceByNeed(a->condition) < PlaceByNeed(b->condition);
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

std::string DoingText(const JobStatus& job, const MemberStatus& member) {
  if (!member.doing.empty()) return CleanText(member.doing);
  for (const BarrierStatus& barrier : job.barriers) {
    if (!Contains(barrier.waiting, member.index)) continue;
    return absl::StrFormat("waits at barrier '%s' (use %d), which opened %s ago",
                           CleanText(barrier.id, 80), barrier.counter,
                           DurationText(barrier.opened_ago_us));
  }
  for (const KeyWaitStatus& wait : job.key_waits) {
    if (!Contains(wait.members, member.index)) continue;
    return absl::StrFormat("waits for key '%s'", CleanText(wait.key, 80));
  }
  return "";
}

std::string Grid::Text() const {
  std::vector<size_t> widths;
  for (const Row& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows_) {
    std::string line = indent_;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += absl::StrFormat("%-*s", static_cast<int>(widths[i]), row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lockstep::observe

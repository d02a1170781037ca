// What the tables and sentences about jobs are made of. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// Rows of one kind before "+N more": `rows_max`.
inline constexpr size_t kRowsMax = 32;

// What needs a look comes first.
inline constexpr std::array kConditionsByNeed = {
    wire::native::MemberCondition::kLost,        wire::native::MemberCondition::kFailed,
    wire::native::MemberCondition::kSuspect,     wire::native::MemberCondition::kMissing,
    wire::native::MemberCondition::kRegistering, wire::native::MemberCondition::kConnected,
    wire::native::MemberCondition::kLeft,        wire::native::MemberCondition::kUnspecified};

// "340us", "12ms", "2.3s", "41s", "5m03s", "3h12m", "4d06h".
std::string DurationText(int64_t microseconds);

// "1 key", "4 keys".
std::string CountText(int64_t count, std::string_view noun);

// "0-3,5,7-9"; after `ranges_max` ranges ",+N more", N members. `indices` ascend.
std::string RangesText(const std::vector<int32_t>& indices, size_t ranges_max);

// One line without anything that a terminal would obey, cut at `bytes_max`.
std::string CleanText(std::string_view text, size_t bytes_max = 400);

// "job digits", "the data service".
std::string SetAsideName(const wire::native::SetAsideJob& job);

// "2.3s", or "never".
std::string HeardText(const std::optional<int64_t>& ago);

// "host7:4711", else the address that it called from.
std::string ProcessText(const wire::native::MemberStatus& member);

// Of the job, by condition.
std::vector<const wire::native::MemberStatus*> MembersThatAre(
    const wire::native::JobStatus& job, wire::native::MemberCondition condition);

// Null when the job has no member of that index.
const wire::native::MemberStatus* MemberAt(const wire::native::JobStatus& job, int32_t index);

// "1 lost, 63 connected".
std::string CountsText(const wire::native::JobStatus& job);

// "task/0-3,5"; "nobody". In a job of several roles: "worker/0-1,ps/0".
std::string MembersRangesText(const wire::native::JobStatus& job,
                              const std::vector<int32_t>& indices);

// "task/4#1 (suspect, heard 41s ago)", three of them, the worst first, then "+13 more".
std::string NamedText(const wire::native::JobStatus& job, const std::vector<int32_t>& indices);

// What the member waits for, as the server says, or as the job's barriers and keys tell:
// "waits at barrier 'b' for 12s". Empty when nothing is known.
std::string DoingText(const wire::native::JobStatus& job, const wire::native::MemberStatus& member);

// Rows of columns that are as wide as they need to be; the last one is not padded.
class Grid {
 public:
  using Row = std::vector<std::string>;
  explicit Grid(std::string indent = "  ") : indent_(std::move(indent)) {}
  // Rows may differ in their number of columns.
  void Add(Row row) { rows_.push_back(std::move(row)); }
  // Each line ends with a new line.
  std::string Text() const;

 private:
  const std::string indent_;
  std::vector<Row> rows_;
};

}  // namespace lockstep::observe

// The mark beside the database: through which row it was durable. Small, with a checksum of its
// own, replaced whole.
//
// It is what tells a damaged file from a torn tail: what is missing at or below the mark had been
// durable, so it was lost since; what is missing above it was being written when the writer died.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::journal {

struct Mark {
  uint64_t through = 0;   // 0: no row yet
  uint32_t checksum = 0;  // of that row
  friend bool operator==(const Mark&, const Mark&) = default;
};

inline constexpr std::string_view kMarkFile = "mark";

std::string MarkText(const Mark& mark);
// DATA_LOSS: not a mark, not one byte of it otherwise.
absl::StatusOr<Mark> ParseMark(std::string_view text);

// In the directory that `directory_fd` is open on. Durable when it returns: both the file and its
// name.
absl::Status WriteMark(int directory_fd, const Mark& mark);
// Absent: there is no mark.
absl::StatusOr<std::optional<Mark>> ReadMark(int directory_fd);

}  // namespace lockstep::journal

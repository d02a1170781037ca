// What an option's value looks like as text, and back. Pure.
//
// Errors say what is wrong with the text and how to write it; whoever knows the option's name puts
// it before them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lockstep::config {

// "90s", "5m", "1h30m", "200ms". Finite and not negative. INVALID_ARGUMENT, here and below, with
// the text and what it should be.
absl::StatusOr<absl::Duration> ParseDuration(const std::string& text);
std::string DurationText(absl::Duration duration);

// "1000", "1_000_000".
absl::StatusOr<int64_t> ParseCount(const std::string& text);

// "4096", "64KiB", "1.5 MiB", "4GiB"; multiples of 1024, also without the "i" and "B".
absl::StatusOr<int64_t> ParseBytes(const std::string& text);
// With the largest unit of which it is a whole number: "64MiB".
std::string BytesText(int64_t bytes);

// true, yes, on, 1; false, no, off, 0.
absl::StatusOr<bool> ParseSwitch(const std::string& text);

}  // namespace lockstep::config

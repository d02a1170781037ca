// Lets the first few lines of a kind through, and then counts. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::observe {

// So many lines in each interval; the first line of the next one says how many were left out.
// Thread-compatible.
class LogLimiter {
 public:
  // `lines` of each `interval`, which begins with the first line after the one before.
  LogLimiter(int lines, absl::Duration interval) : lines_(lines), interval_(interval) {}

  // What to write; nothing when there have been enough.
  std::optional<std::string> Pass(Time now, std::string text) {
    if (!began_ || now - *began_ >= interval_) {
      began_ = now;
      passed_ = 0;
    }
    if (passed_ == lines_) {
      ++left_out_;
      return std::nullopt;
    }
    ++passed_;
    if (left_out_ > 0) absl::StrAppend(&text, " (", left_out_, " lines like it were left out)");
    left_out_ = 0;
    return text;
  }

 private:
  const int lines_;
  const absl::Duration interval_;
  std::optional<Time> began_;
  int passed_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace lockstep::observe

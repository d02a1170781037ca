// The last lines of a log, to be shown when its writer fails. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::launch {

// Bounds: `lines_max` lines; one more drops the oldest. Threads: thread-compatible.
class LogTail {
 public:
  explicit LogTail(size_t lines_max) : lines_max_(lines_max) {}

  void Add(std::string line) {
    lines_.push_back(std::move(line));
    if (lines_.size() > lines_max_) lines_.pop_front();
  }

  // What an error goes on with: "; the last lines of its log: ...", or that it logged nothing.
  std::string Text() const {
    if (lines_.empty()) return "; it logged nothing";
    return absl::StrCat("; the last lines of its log:\n  ", absl::StrJoin(lines_, "\n  "));
  }

 private:
  const size_t lines_max_;
  std::deque<std::string> lines_;
};

}  // namespace lockstep::launch

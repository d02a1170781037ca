// The end of what a process wrote. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

// What is kept of a process's output, to be shown when it fails: `last_lines_max`, and of each
// line `last_line_bytes_max`.
inline constexpr size_t kLastLinesMax = 10;
inline constexpr size_t kLastLineBytesMax = 400;

// Threads: thread-compatible.
class LastLines {
 public:
  // In pieces of any size. A long line is cut, and of many lines the newest are kept.
  void Feed(std::string_view bytes);

  // The oldest first, without their ends; what cannot be shown on a terminal is a question mark.
  std::vector<std::string> Take() const;

 private:
  std::deque<std::string> lines_;
  std::string line_;  // not yet a whole one
};

}  // namespace lockstep::launch

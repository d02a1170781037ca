// Runs a program for what it prints.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace lockstep::launch {

// Of one tool's output: `tool_output_bytes_max`.
inline constexpr size_t kToolOutputBytesMax = 4 << 20;

// What the program `words[0]`, a path, prints to standard output, when it ends well in time; else
// it is killed. Its standard error is dropped. Blocks. Threads: any.
std::optional<std::string> OutputOf(const std::vector<std::string>& words, absl::Duration timeout);

}  // namespace lockstep::launch

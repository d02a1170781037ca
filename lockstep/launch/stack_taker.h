// Takes the stacks of a process of ours, by whatever this host has for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/stacks.h"

namespace lockstep::launch {

// From the question to a process, or to a tool about it, until it is given up.
inline constexpr absl::Duration kStackTimeout = absl::Seconds(5);

// Makes stock Python programs answer: writes into `folder` a sitecustomize.py, which Python imports
// when it starts, and which registers faulthandler for a signal that nobody else uses. What is
// asked for is written to a file in that folder. The environment's own sitecustomize is imported
// too.
absl::Status WriteStackHook(const std::string& folder);
// Has Python processes with this environment find it.
void AddStackHook(const std::string& folder, RunEnvironment& environment);

struct StackQuestion {
  int32_t member = 0;
  std::string name;  // "task/2"
  std::string host;
  int64_t pid = 0;
  // By gdb, of threads of C and C++ too: the process stands still for seconds.
  bool native = false;
};

// How often the kernel has let its main thread run; absent: there is no such process.
std::optional<int64_t> RunsOf(int64_t pid);

// By py-spy when it is in PATH; else by the hook when the process has it; else what the kernel
// tells. A process is never harmed: it is signalled only when it catches that signal. Blocks;
// bounded. `folder` may be empty: there is no hook.
ProcessStacks TakeStacks(const StackQuestion& question, const std::string& folder);

}  // namespace lockstep::launch

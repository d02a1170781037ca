// Takes the stacks of a process of ours, by whatever this host has for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "lockstep/launch/stacks.h"

namespace lockstep::launch {

// From the question to a process, or to a tool about it, until it is given up.
inline constexpr absl::Duration kStackTimeout = absl::Seconds(5);

struct StackQuestion {
  int32_t member = 0;
  std::string name;  // "task/2"
  std::string host;
  int64_t pid = 0;
  // By gdb, of threads of C and C++ too: the process stands still for seconds.
  bool native = false;
  // By a signal when its Python does not answer: what it waits in may end early.
  bool signal = false;
};

// How often the kernel has let its main thread run; absent: there is no such process.
std::optional<int64_t> RunsOf(int64_t pid);

// By the hook's thread (python_hook.h) when the process has one that gets to run; else by py-spy
// when it is in PATH; else what the kernel tells. None of these has the process do or feel anything
// that it would not otherwise: only what `native` and `signal` allow does. Blocks; bounded.
// `folder` may be empty: there is no hook.
ProcessStacks TakeStacks(const StackQuestion& question, const std::string& folder);

}  // namespace lockstep::launch

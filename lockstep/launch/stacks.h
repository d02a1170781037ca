// Where the processes of a job are in their code: read from what tools print, grouped, told. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// What is kept of one thread and of one process: `stack_frames_max`, `stack_threads_max`.
inline constexpr size_t kStackFramesMax = 100;
inline constexpr size_t kStackThreadsMax = 64;

struct StackFrame {
  std::string function;
  std::string file;  // empty: not known
  int32_t line = 0;

  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

struct ThreadStack {
  std::string name;
  std::vector<StackFrame> frames;  // the innermost first

  friend bool operator==(const ThreadStack&, const ThreadStack&) = default;
};

// One process of a launcher.
struct ProcessStacks {
  int32_t member = 0;
  std::string name;  // "task/2"
  std::string host;
  int64_t pid = 0;
  std::string state;                 // of its main thread: "running", "sleeping", "stopped", ...
  std::string waits_in;              // the kernel's function; empty: not known, or it does not wait
  std::string source;                // "py-spy", "faulthandler", "kernel", "launcher"
  std::string note;                  // why there is no more
  std::vector<ThreadStack> threads;  // the main thread first
  std::vector<std::string> last_lines;  // that it has written
  int64_t still_us = -1;                // for so long its main thread has not run; -1: not known

  friend bool operator==(const ProcessStacks&, const ProcessStacks&) = default;
};

// What faulthandler.dump_traceback writes, as far as it is that.
std::vector<ThreadStack> ParseFaulthandler(std::string_view text);
// What the hook's thread writes (python_hook.h): the same below a line that says which thread is
// the main one, and which the one that tells, which is left out.
std::vector<ThreadStack> ParseThreadDump(std::string_view text);
// What `py-spy dump --full-filenames` prints.
std::vector<ThreadStack> ParsePySpy(std::string_view text);
// What gdb prints for `thread apply all bt`.
std::vector<ThreadStack> ParseGdb(std::string_view text);

// As launchers send it and `-o json` shows it. INVALID_ARGUMENT: it is no such thing.
std::string EncodeStacks(const std::vector<ProcessStacks>& processes);
absl::StatusOr<std::vector<ProcessStacks>> DecodeStacks(const std::string& text);

// Where a process is, in a few words: what it does, for itself or in whose function it waits.
struct StackPlace {
  std::string what;           // "wait in all_reduce", "run load", "are stopped"
  std::string what1;          // of one: "waits in all_reduce", "runs load", "is stopped"
  std::string where;          // the line of the user's own code: "train.py:88"; empty: none
  std::string function = {};  // that it runs or waits in: "all_reduce"

  friend bool operator==(const StackPlace&, const StackPlace&) = default;
  friend auto operator<=>(const StackPlace&, const StackPlace&) = default;
};
StackPlace PlaceOf(const ProcessStacks& process);

// Whether its main thread is in a library by which processes wait for each other.
bool WaitsForOthers(const ProcessStacks& process);

struct StackGroup {
  StackPlace place;
  std::vector<const ProcessStacks*> processes;  // by member; of the vector that was grouped
};

// Those that are at one place together, the largest group first, then by their first member.
std::vector<StackGroup> Group(const std::vector<ProcessStacks>& processes);

// "5 of 8 wait in all_reduce, train.py:88; task/2 (pid 17 on host-b) runs load, loader.py:31".
std::string StacksSentence(const std::vector<ProcessStacks>& processes);

// The sentence, then for each group who is in it, and the stack of its first process.
std::string StacksText(const std::vector<ProcessStacks>& processes);

}  // namespace lockstep::launch

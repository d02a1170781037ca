// How a process ended, and how people are told. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace lockstep::launch {

// How a process ended: by a signal when `signal` is not zero, else by itself.
struct ExitStatus {
  int exit_code = 0;
  int signal = 0;

  bool succeeded() const { return exit_code == 0 && signal == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// "ended with exit code 3", "was killed by SIGKILL".
std::string Describe(const ExitStatus& ending);

// As a shell gives it: the exit code, or 128 and the signal.
int ExitCode(const ExitStatus& ending);

// "12.3 s", "4 min 2 s": what a person wants to know of a duration, and no more.
std::string DurationText(absl::Duration duration);

// "SIGTERM"; "signal 42" for those without a name.
std::string SignalName(int signal);

}  // namespace lockstep::launch

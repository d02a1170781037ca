// What the supervisor of a run wants done, in the order of the fields of `Effects`. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/launch/exit_status.h"

namespace lockstep::launch {

// What the coordinator is told about a process.
struct ProcessReport {
  // kEnding: soon, by `error` or, where that is empty, since we tell it to.
  enum class Kind { kStarted, kEnded, kStopped, kContinued, kEnding };
  Kind kind = Kind::kStarted;
  MemberIndex member;
  int64_t pid = 0;
  ExitStatus ending;  // with kEnded
  std::string error = {};

  friend bool operator==(const ProcessReport&, const ProcessReport&) = default;
};

// Send `signal` to everything in the process group of `member`.
struct SignalGroup {
  MemberIndex member;
  int signal = 0;

  friend bool operator==(const SignalGroup&, const SignalGroup&) = default;
};

// Start `member` once more, for the `restarts`th time.
struct StartAgain {
  MemberIndex member;
  int32_t restarts = 0;

  friend bool operator==(const StartAgain&, const StartAgain&) = default;
};

// The first failure of an attempt, for the other nodes.
struct FailureTold {
  std::optional<MemberIndex> member;
  std::string text;
  int exit_code = 0;
  std::string failure = {};  // how alone, without who and when
};

// How an attempt ended for the processes of this node.
struct AttemptOver {
  int exit_code = 0;
  bool again = false;     // they were preempted, and go on in another attempt
  std::string text = {};  // for the other nodes, where the exit code alone says too little

  friend bool operator==(const AttemptOver&, const AttemptOver&) = default;
};

// How a run ended, for programs.
struct RunResult {
  struct Process {
    int32_t member = 0;
    int64_t pid = 0;
    bool started = false;
    ExitStatus ending;
    absl::Duration lasted;
    std::string error;
    std::vector<std::string> last_lines;
  };
  std::string outcome;  // "succeeded", "failed", "preempted", "interrupted", "signalled"
  std::string why;      // the sentence that a person reads last
  std::string cause;    // of a failure: what came first; empty: not known
  std::optional<int32_t> first_failed;  // member; absent when it was none
  int exit_code = 0;
  int32_t attempts = 0;
  absl::Duration lasted;
  std::vector<std::string> past;   // a sentence for each attempt before
  std::vector<Process> processes;  // of the last attempt
};

struct Effects {
  std::vector<ProcessReport> reports;
  std::vector<SignalGroup> signals;
  // Kill what is left of the group, stop reading its output, reap the process.
  std::vector<MemberIndex> releases;
  // For people, on standard error.
  std::vector<std::string> sentences;
  // Ask the coordinator whose failure came first: RootCauseTold.
  bool ask_root_cause = false;
  // Say what the others wait for: somebody ends the run, and may want to know why it hung.
  bool tell_why = false;
  // Ask the coordinator how the job's preemption stands: PreemptionChecked.
  bool check_preemption = false;
  // Tell the coordinator that this signal says that our processes will die.
  std::optional<int> notice_signal;
  // These were released, and are started again while the others go on.
  std::vector<StartAgain> starts;
  // Tell the other nodes. Only where there are several, as the next.
  std::optional<FailureTold> failure;
  // All of ours have ended and were released. Answered by AttemptBegins or RunEnded, sooner or
  // later.
  std::optional<AttemptOver> attempt_over;
  // All have ended and were released: prepare the attempt after so many restarts, then
  // AttemptBegins.
  std::optional<int32_t> restart;
  // All is over: end with this code.
  std::optional<int> exit_code;
  std::optional<RunResult> result;  // with it
};

}  // namespace lockstep::launch

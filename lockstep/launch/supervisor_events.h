// What can happen to the supervisor of a run. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/launch/exit_status.h"
#include "lockstep/launch/preempted_run.h"

namespace lockstep::launch {

struct ProcessStarted {
  MemberIndex member;
  int64_t pid = 0;
};
// The process could not be started, and no further one will be. `exit_code` is what to end with.
struct StartFailed {
  MemberIndex member;
  std::string why;
  int exit_code = 0;
};
struct ProcessEnded {
  MemberIndex member;
  ExitStatus ending;
  std::vector<std::string> last_lines = {};  // that it wrote, for people
  std::string error = {};                    // what it says of itself; empty: nothing
};
// It told of an exception that nobody caught. It has not ended yet, and exit handlers may hold it.
struct ExceptionRaised {
  MemberIndex member;
  int64_t pid = 0;
  std::string text;  // "ValueError: bad sample, train.py:24 in load"
};
struct ProcessStopped {
  MemberIndex member;
  int signal = 0;
};
struct ProcessContinued {
  MemberIndex member;
};
// Nobody holds the process's standard output and error any more.
struct OutputEnded {
  MemberIndex member;
};
// Somebody signalled `lockstep run`.
struct SignalReceived {
  int signal = 0;
};
// The server that `lockstep run` started, or its agent, ended although nobody asked it to.
struct ServerEnded {
  ExitStatus ending;
  std::string what = "the coordinator's server";
  // The agent says that this host is cut off, or has ended, so that nobody knows: other processes
  // may be started in the place of these.
  bool cut_off = false;
};
// The link to a server of somebody else's broke. It may come back, and another attempt may find it.
struct ServerLost {
  std::string why;
};
// There is a link to it again.
struct ServerFound {};
// What the coordinator says about whose failure the others followed from; nothing if it has no word
// on that.
struct RootCauseTold {
  std::optional<MemberIndex> member;
  // Whether anybody has come into the job's attempt; absent: it does not say.
  std::optional<bool> joined = std::nullopt;
};
// What the coordinator says about the job's preemption now; nothing if it does not answer.
struct PreemptionChecked {
  std::optional<PreemptionTold> told;
};
// The host of the launcher is ready for the next attempt, of these members: `Effects::restart` has
// been asked for, or nothing was started yet.
struct AttemptBegins {
  int32_t first = 0;
  int32_t size = 1;
  // Restarts that failures of any node have used up; absent: those of this one alone count.
  std::optional<int32_t> failures = std::nullopt;
  // Its number among those of the job; absent: those of the run alone are counted.
  std::optional<int64_t> number = std::nullopt;
};
// A process of another node failed, or a node is gone or has come: the attempt is over, and another
// one follows or not. Only where there are several nodes, as the next.
struct AttemptCalledOff {
  std::string why;
  bool another = false;
};
// All nodes are done.
struct RunEnded {
  int exit_code = 0;
  std::string why;
};
// The server at which the nodes meet is not reached, and is reached again.
struct NodeServerLost {
  std::string why;
};
struct NodeServerFound {};
struct DeadlineReached {};

// PreemptionTold (preempted_run.h) is one as well.
using Event = std::variant<ProcessStarted, StartFailed, ProcessEnded, ExceptionRaised,
                           ProcessStopped, ProcessContinued, OutputEnded, SignalReceived,
                           ServerEnded, ServerLost, ServerFound, RootCauseTold, PreemptionTold,
                           PreemptionChecked, HostTold, AttemptBegins, AttemptCalledOff, RunEnded,
                           NodeServerLost, NodeServerFound, DeadlineReached>;

}  // namespace lockstep::launch

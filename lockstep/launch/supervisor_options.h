// How a run is supervised: its size, how long what may take, and what is started again. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/launch/exit_code.h"

namespace lockstep::launch {

// What to do when all processes have ended because the job was preempted.
enum class OnPreempt {
  kExit,     // end, too
  kRestart,  // start them again
  kWait,     // start them again when the deaths are over or withdrawn: we live, so the host does
};

// Who is started again when a process fails.
enum class RestartScope {
  kWorld,  // all processes of the job
  kNode,   // those of its node
  kRank,   // it alone
};

struct SupervisorOptions {
  int32_t first = 0;  // member
  int32_t size = 1;
  std::string role = "task";
  // From the first failure until the others get SIGTERM: they learn of it from the coordinator and
  // should end by themselves.
  absl::Duration grace = absl::Seconds(10);
  // How often failures are answered by starting processes again; with RestartScope::kRank, each.
  int32_t max_restarts = 0;
  RestartScope scope = RestartScope::kWorld;
  // From the second failure in a row within `quick_failure` on, before all are started again:
  // doubled each time, up to the second.
  absl::Duration restart_backoff = absl::Seconds(1);
  absl::Duration restart_backoff_max = absl::Minutes(1);
  absl::Duration quick_failure = absl::Seconds(10);
  // After so many failures in a row of the same text, each within `early_failure` of the start and
  // before anybody joined, nobody is started again.
  int32_t same_failures_max = 3;
  absl::Duration early_failure = absl::Seconds(30);
  // From SIGTERM until SIGKILL for processes that are stopped to be started again. They are no
  // longer needed, so they get no grace before it but `drain_delay`.
  absl::Duration stop_grace = absl::Seconds(5);
  // From the first failure until that SIGTERM: who failed because of another may be the quicker to
  // end, and what the other one ended with tells more. Nobody is killed by SIGKILL because of
  // another: after that one there is nothing to wait for.
  absl::Duration drain_delay = absl::Milliseconds(200);
  // Whether there are other nodes, which hear of failures and have a say in what follows.
  bool alone = true;
  // From an exception that a process tells of until it counts, unless it or another ends before:
  // who loses a peer may be quicker to raise than we are to see the peer's end.
  absl::Duration raised_window = absl::Milliseconds(250);
  // From then until SIGTERM at the earliest, unless it ends before:
  // it is about to print it.
  absl::Duration raised_settle = absl::Seconds(1);
  // From SIGTERM until SIGKILL.
  absl::Duration terminate_grace = absl::Seconds(5);
  // From SIGKILL until a process is given up, which only one stuck in the kernel needs.
  absl::Duration kill_grace = absl::Seconds(10);
  // From the end of a process until the helpers it left behind are killed, when they still hold its
  // output. Python's resource tracker, say, cleans up in that time.
  absl::Duration helper_grace = absl::Seconds(2);
  OnPreempt on_preempt = OnPreempt::kExit;
  // Of a run that was preempted, and saved where anybody could.
  int preempt_exit_code = kExitPreempted;
  // What fails so soon after the server ended follows from that.
  absl::Duration server_explains = absl::Minutes(1);
  // Who lives so long after the server was found again does not die of its absence. Stock JAX dies
  // within a second.
  absl::Duration server_survived = absl::Seconds(3);
  // Of these signals the first is a notice to the job, and is not passed on, unless no step is
  // known `notice_ack_timeout` later.
  std::vector<int> notice_signals;
  absl::Duration notice_ack_timeout = absl::Seconds(10);
  // From a SIGTERM, or a signal that was a notice, until the processes that are left get SIGTERM
  // from us. By default whoever sent it kills.
  absl::Duration term_grace = absl::InfiniteDuration();
  // From the first end of a process with exit code 0 until it is told that others go on: they may
  // wait for it. Those that are done end within less of each other, and a framework waits longer.
  absl::Duration tell_ended = absl::Seconds(10);
  // How long a run of several nodes waits for a server that is not reached, once nothing runs here.
  absl::Duration node_server_timeout = absl::Minutes(10);
  // Whether somebody can answer `ask_root_cause`, and how long that may take.
  bool asks_root_cause = false;
  absl::Duration root_cause_timeout = absl::Seconds(2);
  // Likewise of `check_preemption`. Asked before it is decided that nobody is started again, since
  // processes may end before we have heard why.
  absl::Duration check_timeout = absl::Seconds(5);
};

}  // namespace lockstep::launch

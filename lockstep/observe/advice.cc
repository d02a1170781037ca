#include "lockstep/observe/advice.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lockstep/observe/text_parts.h"

namespace lockstep::observe {

std::string AdviceFor(std::string_view reason, std::string_view job) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kAdvice = {{
      {"process_ended",
       "Check the end of that process's output. If SIGKILL ended it and nobody sent it, the "
       "kernel's out-of-memory killer probably did (see dmesg on that host)."},
      {"connection_lost",
       "Its process has most likely died. Check the end of its output, and dmesg on its host."},
      {"agent_ended",
       "Check the end of that agent's log, and dmesg on its host. Start the agent and its "
       "processes "
       "anew: processes cannot go on with another agent."},
      {"host_lost",
       "Check that host and its network (`lockstep hosts JOB`). Start "
       "lockstep run, or the agent and its processes, on it again."},
      {"heartbeat_timeout",
       "Check that host and the network to it. If the process is alive, check its stack (lockstep "
       "stacks JOB)."},
      {"reported_error", "The member itself reported this error: start from its text."},
      {"registration_failed",
       "Check that all members were started and can reach the server's address."},
      {"shutdown_failed", "Check the member that had not finished; the others had."},
      {"member_restarted",
       "Find out why it died and what restarted it. Members can rejoin only if the job is "
       "recoverable."},
      {"barrier_timed_out", "Check what the missing members did, or give the barrier more time."},
      {"memory_max",
       "`lockstep status` shows what uses most memory. Delete what is not needed, or raise "
       "--memory-max."},
      {"limit_exceeded", "The text names the limit; `lockstep config show` shows where it is set."},
  }};
  for (const auto& [known, advice] : kAdvice) {
    if (known != reason) continue;
    return absl::StrReplaceAll(absl::string_view(advice.data(), advice.size()),
                               {{"stacks JOB", absl::StrCat("stacks ", CleanText(job))},
                                {"hosts JOB", absl::StrCat("hosts ", CleanText(job))}});
  }
  return "";
}

}  // namespace lockstep::observe

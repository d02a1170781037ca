#include "lockstep/observe/advice.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lockstep/observe/text_parts.h"

namespace lockstep::observe {

std::string AdviceFor(std::string_view reason, std::string_view job) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kAdvice = {{
      {"process_ended",
       "Look at the end of that process's output; signal 9 is often the kernel's "
       "out-of-memory killer (dmesg on that host)."},
      {"connection_lost",
       "Its process has most likely died: look at the end of its output, and at "
       "dmesg on its host."},
      {"heartbeat_timeout",
       "Look at that host and the network to it; if the process lives, at its "
       "stack (lockstep stacks JOB)."},
      {"reported_error", "The member itself gave up: go by its text."},
      {"registration_failed", "See that all members were started and reach the server's address."},
      {"shutdown_failed", "Look at the member that had not finished: the others had."},
      {"member_restarted",
       "Find out why it died and who restarted it; members that may come back "
       "need a recoverable job."},
      {"barrier_timed_out", "Look at what the missing did, or give the barrier more time."},
      {"memory_max",
       "`lockstep status` says who holds most: delete what is not needed, or raise --memory-max."},
      {"limit_exceeded", "The text names the limit; `lockstep config show` says where it is set."},
  }};
  for (const auto& [known, advice] : kAdvice) {
    if (known != reason) continue;
    return absl::StrReplaceAll(absl::string_view(advice.data(), advice.size()),
                               {{"stacks JOB", absl::StrCat("stacks ", CleanText(job))}});
  }
  return "";
}

}  // namespace lockstep::observe

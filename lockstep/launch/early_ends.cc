#include "lockstep/launch/early_ends.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::launch {

Time EarlyEnds::TellAt(const ProcessTable& processes, absl::Duration after) const {
  if (told_ || processes.CountRunning() == 0) return Time::Infinite();
  const ProcessRecord* const first = processes.FirstEndedWell();
  return first == nullptr ? Time::Infinite() : first->ended + after;
}

void EarlyEnds::Tell(Time now, const ProcessTable& processes, Effects& out) {
  told_ = true;
  const ProcessRecord& first = *processes.FirstEndedWell();
  const int running = processes.CountRunning();
  out.sentences.push_back(absl::StrFormat(
      "%s ended with exit code 0 %s ago, and %d process%s on: if they wait, it may be for that",
      processes.Name(first), DurationText(now - first.ended), running,
      running == 1 ? " goes" : "es go"));
}

void EarlyEnds::LookBack(Time now, const ProcessRecord& failed, ProcessTable& processes,
                         Effects& out) {
  const bool by_kill = failed.ending.signal == SIGKILL;
  processes.LookBack(now, by_kill);
  const ProcessRecord* const first = processes.FirstEndedWell();
  if (first == nullptr || by_kill) return;
  const auto count =
      std::count_if(processes.all().begin(), processes.all().end(),
                    [](const ProcessRecord& process) { return process.EndedWell(); });
  out.sentences.push_back(absl::StrCat(
      processes.EndingText(*first), first->before_failure,
      count == 1 ? "" : absl::StrFormat(" (%d more had ended with exit code 0)", count - 1)));
  told_ = true;
}

}  // namespace lockstep::launch

#include "lockstep/launch/node_server_loss.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/launch/exit_status.h"

namespace lockstep::launch {

void NodeServerLoss::Lose(Time now, std::string why) {
  if (!since_) since_ = now;
  why_ = std::move(why);
}

Time NodeServerLoss::GivenUpAt(std::optional<Time> idle_since) const {
  if (!since_) return Time::Infinite();
  return std::max(*since_, idle_since.value_or(*since_)) + timeout_;
}

std::string NodeServerLoss::GivenUpText(Time now, bool had_run, int exit_code) const {
  return absl::StrFormat(
      "the server at which the nodes meet was not reached for %s (%s): whether the other nodes are "
      "well is not known here; %s, exit code %d",
      DurationText(now - *since_), why_,
      had_run ? "this node's processes had ended" : "no attempt had begun", exit_code);
}

}  // namespace lockstep::launch

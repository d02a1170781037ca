#include "lockstep/server/store_agents.h"

#include "absl/strings/str_format.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

absl::Status StoreAgents::Begin(CallId call, SessionId agent, const std::string& peer,
                                const wire::native::TorchCommand& asked) {
  StoreSpace* const space = stores_.space();
  if (space == nullptr) {
    return wire::native::WithReason(
        absl::UnavailableError("this job has no store for torch's clients"), "no_stock_service");
  }
  if (asked.attempt < 0 || asked.attempt > stores_.attempt()) {
    return wire::native::WithReason(
        absl::InvalidArgumentError(absl::StrFormat("attempt %d of the store has not begun: the "
                                                   "current one is %d",
                                                   asked.attempt, stores_.attempt())),
        "invalid_argument");
  }
  if (asked.attempt != 0 && asked.attempt != stores_.attempt()) {
    return AttemptOver(asked.attempt, stores_);
  }
  if (!durable_ && !std::exchange(said_, true)) {
    say_(
        absl::StrFormat("torch's clients come through an agent (%s), but their store is over when "
                        "the server restarts: start the server with --torch-store-durable",
                        peer));
  }
  space->passed().Begin(call, agent, peer, asked);
  return absl::OkStatus();
}

void StoreAgents::Left(CallId call, bool away) {
  if (StoreSpace* const space = stores_.space()) space->passed().Left(call, away);
}

void StoreAgents::AgentGone(SessionId agent) {
  if (StoreSpace* const space = stores_.space()) space->AgentGone(agent);
}

}  // namespace lockstep::server

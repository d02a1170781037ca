#include "lockstep/server/standby_listener.h"

#include <utility>

#include "absl/status/status.h"
#include "lockstep/platform/runtime/signals_blocked.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {

StandbyListener::StandbyListener(size_t memory_max) : memory_(memory_max, /*names_owners=*/false) {}

absl::StatusOr<std::unique_ptr<StandbyListener>> StandbyListener::Listen(
    const ServerOptions& options, std::function<std::string()> leader) {
  std::unique_ptr<StandbyListener> self(new StandbyListener(options.memory_max));
  link::ServerEvents events;
  // Nobody is welcome, so these are never called.
  events.request = [](link::Request&&, link::Responder&& responder) {
    responder.Fail(absl::UnavailableError("this server does not lead"));
  };
  events.ended = [](link::LinkId, bool) {};
  events.holds = [](link::LinkId) { return false; };
  events.leadership = [leader = std::move(leader)] {
    return link::Leadership{.leads = false, .leader = leader()};
  };
  auto link = LinkListener::Listen(self->loop_, options, self->memory_, std::move(events),
                                   [](const auto&) -> absl::StatusOr<runtime::Address> {
                                     return absl::UnavailableError("this server does not lead");
                                   });
  if (!link.ok()) return link.status();
  self->link_ = *std::move(link);
  spdlog::info("standing by at {}", self->link_->address());
  const runtime::AllSignalsBlocked blocked;
  self->thread_ = std::thread([loop = &self->loop_] { loop->Run(); });
  return self;
}

StandbyListener::~StandbyListener() {
  if (!thread_.joinable()) return;
  loop_.Stop();
  thread_.join();
}

}  // namespace lockstep::server

#include "lockstep/server/job_host.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/runtime/dial.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

net::StockDoorOptions WithRoles(net::StockDoorOptions door, std::vector<coord::RoleOptions> roles) {
  door.roles = std::move(roles);
  return door;
}

}  // namespace

JobHost::JobHost(runtime::Loop& loop, coord::CoordinatorOptions coordinator, NativeDoor& native,
                 net::StockDoorOptions door)
    : name_(coordinator.job),
      coordinator_(std::move(coordinator)),
      native_(native),
      door_(
          loop, WithRoles(std::move(door), coordinator_.options().roles),
          [this](coord::Event event) { Handle(std::move(event)); },
          [this] { return coordinator_.service_incarnation(); },
          [this](std::string text) { spdlog::warn("job '{}': {}", name_, text); }),
      timer_(loop),
      last_used_(runtime::MonotonicNow()) {}

absl::Status JobHost::Listen(const runtime::Address& at) { return door_.Listen(at); }

void JobHost::Handle(coord::Event event) {
  const coord::Effects effects = coordinator_.Handle(runtime::MonotonicNow(), std::move(event));
  door_.Answer(effects.replies);
  native_.Answer(effects.replies);
  for (const coord::Notice& notice : effects.notices) Tell(notice);
  ArmTimer();
}

void JobHost::ArmTimer() {
  const Time next = coordinator_.NextDeadline();
  // A timer that is armed for earlier is left: it comes for nothing once, and that is cheaper than
  // arming anew with each heartbeat, which moves the deadline a little.
  if (next >= armed_for_) return;
  armed_for_ = next;
  timer_.Arm(next, [this] {
    armed_for_ = Time::Infinite();
    Handle(coord::DeadlineReached{});
  });
}

void JobHost::Tell(const coord::Notice& notice) const {
  switch (notice.severity) {
    case coord::Severity::kInfo:
      spdlog::info("{}", notice.text);
      break;
    case coord::Severity::kWarning:
      spdlog::warn("{}", notice.text);
      break;
    case coord::Severity::kError:
      spdlog::error("{}", notice.text);
      break;
  }
}

coord::CoordinatorView JobHost::View() const { return coordinator_.View(runtime::MonotonicNow()); }

size_t JobHost::CountConnected() const {
  const coord::CoordinatorView view = View();
  return static_cast<size_t>(
      std::count_if(view.members.begin(), view.members.end(), [](const coord::MemberView& member) {
        return member.condition == coord::MemberCondition::kConnected ||
               member.condition == coord::MemberCondition::kSuspect;
      }));
}

std::string JobHost::grpc_address() const { return runtime::ToString(door_.address()); }

void JobHost::Stop() {
  door_.StopAccepting();
  Handle(coord::Stop{});
}

void JobHost::Shutdown() { door_.Shutdown(); }

}  // namespace lockstep::server

#include "lockstep/platform/link/leader_dial.h"

#include <algorithm>
#include <utility>

#include "asio/post.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {
namespace {

std::string LeaderNamedBy(const absl::Status& why) {
  const auto details = wire::native::DetailsOf(why);
  const auto it = details.find(kLeaderDetail);
  return it == details.end() ? "" : it->second;
}

}  // namespace

LeaderDial::LeaderDial(asio::io_context& io, std::shared_ptr<Servers> servers, Attempt attempt,
                       Events events)
    : io_(io),
      servers_(std::move(servers)),
      attempt_(std::move(attempt)),
      events_(std::move(events)),
      timer_(io) {}

void LeaderDial::Start() {
  deadline_ = runtime::MonotonicNow() + attempt_.timeout;
  auto order = servers_->Order();
  if (!order.ok()) {
    asio::post(io_, [weak = weak_from_this(), why = order.status()] {
      const auto self = weak.lock();
      if (self != nullptr && self->events_) std::exchange(self->events_, std::nullopt)->failed(why);
    });
    return;
  }
  links_.resize(order->size());
  search_.emplace(*std::move(order), deadline_);
  CallNext();
}

void LeaderDial::Abandon() {
  events_.reset();
  timer_.cancel();
  for (auto& link : links_) {
    if (link != nullptr) std::exchange(link, nullptr)->Abandon();
  }
}

absl::Status LeaderDial::why() const { return search_ ? search_->why() : absl::OkStatus(); }

void LeaderDial::CallNext() {
  while (const auto server = search_->Next(runtime::MonotonicNow())) Call(*server);
  Arm();
}

void LeaderDial::Call(size_t server) {
  // All servers together have the time that one would have: the first has all of it, the next ones
  // what is left, but some time at least.
  absl::Duration timeout = attempt_.timeout;
  if (std::exchange(called_, true)) {
    const absl::Duration left =
        absl::Ceil(deadline_ - runtime::MonotonicNow(), absl::Milliseconds(1));
    timeout = std::min(timeout, std::max(left, kServerStagger));
  }
  links_[server] = ClientLink::Dial(
      io_, search_->server(server), timeout, attempt_.who, attempt_.link,
      {.ready =
           [weak = weak_from_this(), server](const wire::native::Welcome& welcome) {
             const auto self = weak.lock();
             if (self != nullptr && self->events_) self->Welcomed(server, welcome);
           },
       .closed =
           [weak = weak_from_this(), server](const absl::Status& why) {
             const auto self = weak.lock();
             if (self != nullptr && self->events_) self->Closed(server, why);
           }},
      attempt_.token);
}

void LeaderDial::Arm() {
  const Time due = search_->NextDeadline();
  timer_.cancel();
  if (due.is_infinite()) return;
  timer_.expires_after(absl::ToChronoNanoseconds(due - runtime::MonotonicNow()));
  timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr && self->events_) self->CallNext();
  });
}

void LeaderDial::Welcomed(size_t server, const wire::native::Welcome& welcome) {
  const std::shared_ptr<ClientLink> link = std::exchange(links_[server], nullptr);
  LOCKSTEP_CHECK(link != nullptr);
  if (!search_->Welcomed(runtime::MonotonicNow(), server, welcome.epoch, servers_->epoch())) {
    link->Farewell();
    if (!search_->exhausted()) return CallNext();
    return std::exchange(events_, std::nullopt)->failed(search_->why());
  }
  servers_->Led(search_->server(server), welcome.epoch);
  const auto events = std::exchange(events_, std::nullopt);
  Abandon();
  events->found(*link, welcome);
}

void LeaderDial::Closed(size_t server, const absl::Status& why) {
  links_[server] = nullptr;
  search_->Failed(runtime::MonotonicNow(), server, why, LeaderNamedBy(why));
  if (!search_->exhausted()) return CallNext();
  timer_.cancel();
  std::exchange(events_, std::nullopt)->failed(search_->why());
}

}  // namespace lockstep::link

#include "lockstep/server/stock_tunnels.h"

#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using wire::native::OpenTunnel;
using wire::native::OpenTunnelReply;
using wire::native::WithReason;

}  // namespace

StockTunnels::~StockTunnels() {
  *alive_ = false;
  for (auto& [key, tunnel] : tunnels_) {
    if (tunnel != nullptr) tunnel->Abandon();
  }
}

size_t StockTunnels::CountOf(link::LinkId link) const {
  return static_cast<size_t>(
      std::distance(tunnels_.lower_bound({link, 0}), tunnels_.upper_bound({link, UINT64_MAX})));
}

bool StockTunnels::Holds(link::LinkId link) const {
  const auto first = tunnels_.lower_bound({link, 0});
  return first != tunnels_.end() && first->first.first == link;
}

void StockTunnels::Open(const link::Request& request, link::Responder responder) {
  auto asked = wire::native::Decode<OpenTunnel>(request.payload);
  if (!asked.ok()) return responder.Fail(WithReason(asked.status(), "invalid_argument"));
  if (tunnels_.size() >= kTunnelsMax || CountOf(request.link) >= kTunnelsPerLinkMax) {
    return responder.Fail(WithReason(
        absl::ResourceExhaustedError(absl::StrFormat(
            "the server carries %d connections of stock clients, %d of them for this host; %d "
            "(tunnels_max) and %d (tunnels_per_link_max) are allowed",
            tunnels_.size(), CountOf(request.link), kTunnelsMax, kTunnelsPerLinkMax)),
        "limit_exceeded"));
  }
  if (!memory_.HasRoom(link::TunnelFlow::kWindow)) {
    return responder.Fail(WithReason(
        absl::ResourceExhaustedError(memory_.Refusal(link::TunnelFlow::kWindow)), "memory_max"));
  }
  const auto address = events_.find(*asked);
  if (!address.ok()) return responder.Fail(address.status());
  const Key key(request.link, request.id);
  // The link gives each request an id of its own while it is not answered; an old tunnel may still
  // have it.
  if (!tunnels_.try_emplace(key).second) {
    return responder.Fail(WithReason(
        absl::InvalidArgumentError("the tunnel of an earlier request has this request's id"),
        "invalid_argument"));
  }
  runtime::Dial(loop_.io(), *address, kConnectTimeout,
                [this, alive = alive_, key, responder = std::move(responder)](
                    absl::StatusOr<asio::ip::tcp::socket> socket) mutable {
                  if (*alive) return Connected(key, std::move(socket), std::move(responder));
                  if (socket.ok()) runtime::CloseSocket(*socket);
                });
}

void StockTunnels::Connected(const Key& key, absl::StatusOr<asio::ip::tcp::socket> socket,
                             link::Responder responder) {
  const auto place = tunnels_.find(key);
  if (!socket.ok()) {
    if (place != tunnels_.end()) tunnels_.erase(place);
    return responder.Fail(
        WithReason(absl::UnavailableError(socket.status().message()), "no_stock_service"));
  }
  if (place == tunnels_.end()) return runtime::CloseSocket(*socket);  // the link has gone
  // The answer goes first, then the bytes.
  responder.Answer(wire::native::Encode(OpenTunnelReply{}));
  LOCKSTEP_DCHECK(place->second == nullptr);
  place->second = link::Tunnel::Start(
      *std::move(socket), key.second,
      {.send = [this,
                link = key.first](link::Message frame) { events_.send(link, std::move(frame)); },
       .over = [this, key] { tunnels_.erase(key); }},
      &memory_);
}

void StockTunnels::Take(link::LinkId link, link::Message frame) {
  const auto found = tunnels_.find({link, frame.id});
  if (found == tunnels_.end()) return;
  const std::shared_ptr<link::Tunnel> tunnel = found->second;
  absl::Status status = absl::InvalidArgumentError("bytes of a tunnel that is not open yet");
  if (tunnel != nullptr) status = tunnel->Take(std::move(frame));
  if (!status.ok()) events_.close(link, std::move(status));
}

void StockTunnels::Ended(link::LinkId link) {
  auto next = tunnels_.lower_bound({link, 0});
  while (next != tunnels_.end() && next->first.first == link) {
    const std::shared_ptr<link::Tunnel> tunnel = next->second;
    next = tunnels_.erase(next);
    if (tunnel != nullptr) tunnel->Abandon();
  }
}

}  // namespace lockstep::server

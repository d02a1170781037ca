#include "lockstep/server/stock_tunnels.h"

#include <string>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/open_files.h"
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
  for (auto& [link, places] : links_) {
    for (auto& [id, place] : places) {
      if (place.tunnel != nullptr) place.tunnel->Abandon();
    }
  }
  for (const auto& tunnel : gone_) tunnel->Abandon();
}

absl::Status StockTunnels::CheckRoom(link::LinkId link, const std::string& job) const {
  const auto of_link = links_.find(link);
  const size_t link_has = of_link == links_.end() ? 0 : of_link->second.size();
  const auto of_job = of_jobs_.find(job);
  const size_t job_has = of_job == of_jobs_.end() ? 0 : of_job->second;
  if (count_ >= kTunnelsMax || link_has >= kTunnelsPerLinkMax || job_has >= kTunnelsPerJobMax) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrFormat(
            "the server carries %d connections of stock clients (tunnels_max %d), %d of this job "
            "(tunnels_per_job_max %d), and %d of this launcher (tunnels_per_link_max %d)",
            count_, kTunnelsMax, job_has, kTunnelsPerJobMax, link_has, kTunnelsPerLinkMax)),
        "limit_exceeded");
  }
  if (memory_.HasRoom(link::TunnelFlow::kWindow)) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(memory_.Refusal(link::TunnelFlow::kWindow)),
                    "memory_max");
}

void StockTunnels::Open(const link::Request& request, link::Responder responder) {
  auto asked = wire::native::Decode<OpenTunnel>(request.payload);
  if (!asked.ok()) return responder.Fail(WithReason(asked.status(), "invalid_argument"));
  const auto address = events_.find(*asked);
  if (!address.ok()) return responder.Fail(address.status());
  if (absl::Status room = CheckRoom(request.link, asked->job); !room.ok()) {
    return responder.Fail(room);
  }
  // The link gives each request an id of its own while it is not answered; an old tunnel may still
  // have it.
  if (!links_[request.link].try_emplace(request.id, Place{.job = asked->job}).second) {
    return responder.Fail(WithReason(
        absl::InvalidArgumentError("the tunnel of an earlier request has this request's id"),
        "invalid_argument"));
  }
  ++count_;
  ++of_jobs_[asked->job];
  runtime::Dial(
      loop_.io(), *address, kConnectTimeout,
      [this, alive = alive_, link = request.link, id = request.id,
       responder = std::move(responder)](absl::StatusOr<asio::ip::tcp::socket> socket) mutable {
        if (*alive) return Connected(link, id, std::move(socket), std::move(responder));
        if (socket.ok()) runtime::CloseSocket(*socket);
      });
}

void StockTunnels::Connected(link::LinkId link, uint64_t id,
                             absl::StatusOr<asio::ip::tcp::socket> socket,
                             link::Responder responder) {
  Place* const place = Find(link, id);
  if (place == nullptr) {  // the link has gone
    if (socket.ok()) runtime::CloseSocket(*socket);
    return;
  }
  if (socket.ok() && runtime::LeavesTooFew(socket->native_handle(), kDescriptorsLeftMin)) {
    runtime::CloseSocket(*socket);
    socket = absl::ResourceExhaustedError(
        "the server's last file descriptors are for others (descriptors_left_min): raise its limit "
        "of open files (ulimit -n)");
  }
  if (!socket.ok()) {
    Remove(link, id);
    const absl::Status& why = socket.status();
    if (absl::IsResourceExhausted(why)) return responder.Fail(WithReason(why, "limit_exceeded"));
    return responder.Fail(WithReason(absl::UnavailableError(why.message()), "no_stock_service"));
  }
  // The answer goes first, then the bytes.
  responder.Answer(wire::native::Encode(OpenTunnelReply{}));
  LOCKSTEP_DCHECK(place->tunnel == nullptr);
  place->tunnel = link::Tunnel::Start(
      *std::move(socket), id,
      {.send = [this, link](link::Message frame) { events_.send(link, std::move(frame)); },
       .over = [this, link, id] { Remove(link, id); }},
      &memory_);
}

StockTunnels::Place* StockTunnels::Find(link::LinkId link, uint64_t id) {
  const auto places = links_.find(link);
  if (places == links_.end()) return nullptr;
  const auto place = places->second.find(id);
  return place == places->second.end() ? nullptr : &place->second;
}

void StockTunnels::Remove(link::LinkId link, uint64_t id) {
  const auto places = links_.find(link);
  if (places == links_.end()) return;
  const auto node = places->second.extract(id);
  if (places->second.empty()) links_.erase(places);
  if (!node.empty()) Forget(node.mapped().job);
}

void StockTunnels::Forget(const std::string& job) {
  LOCKSTEP_DCHECK(count_ > 0);
  --count_;
  const auto of_job = of_jobs_.find(job);
  LOCKSTEP_DCHECK(of_job != of_jobs_.end());
  if (--of_job->second == 0) of_jobs_.erase(of_job);
}

void StockTunnels::Take(link::LinkId link, link::Message frame) {
  const Place* const place = Find(link, frame.id);
  if (place == nullptr) return;
  const std::shared_ptr<link::Tunnel> tunnel = place->tunnel;
  absl::Status status = absl::InvalidArgumentError("bytes of a tunnel that is not open yet");
  if (tunnel != nullptr) status = tunnel->Take(std::move(frame));
  if (!status.ok()) events_.close(link, std::move(status));
}

void StockTunnels::Ended(link::LinkId link) {
  const auto node = links_.extract(link);
  if (node.empty()) return;
  const bool abandons = !gone_.empty();  // those of another link, already
  for (auto& [id, place] : node.mapped()) {
    Forget(place.job);
    if (place.tunnel == nullptr) continue;
    place.tunnel->Detach();
    gone_.push_back(std::move(place.tunnel));
  }
  if (abandons || gone_.empty()) return;
  runtime::RunInTurns(loop_, [this, alive = alive_] { return *alive && AbandonOne(); });
}

bool StockTunnels::AbandonOne() {
  gone_.back()->Abandon();
  gone_.pop_back();
  return !gone_.empty();
}

}  // namespace lockstep::server

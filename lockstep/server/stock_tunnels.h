// Connections of stock clients on other hosts, which their launchers carry over a link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/link/tunnel.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::server {

// For each tunnel, calls the job's service on this host, as a stock client here would, and passes
// its bytes on. So stock clients, which can neither encrypt nor authenticate, cross the network in
// the launcher's link, which does both.
//
// Threads: loop-confined. Ownership: `loop` outlives it. Bounds: kTunnelsPerLinkMax,
// kTunnelsPerJobMax, kTunnelsMax; each tunnel, those of TunnelFlow.
class StockTunnels {
 public:
  // `tunnels_per_link_max`: a host with a thousand processes, with a few connections each.
  static constexpr size_t kTunnelsPerLinkMax = 4096;
  static constexpr size_t kTunnelsMax = 100'000;  // of all links: `tunnels_max`
  // Of one job, which is not to take them from others: `tunnels_per_job_max`.
  static constexpr size_t kTunnelsPerJobMax = kTunnelsMax / 2;
  // Descriptors that are left to others: `descriptors_left_min`.
  static constexpr size_t kDescriptorsLeftMin = 256;
  // Until the service, on this host, has accepted the connection.
  static constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

  struct Events {
    // Where the service listens; or why it cannot be called, with a reason.
    std::function<absl::StatusOr<runtime::Address>(const wire::native::OpenTunnel&)> find;
    std::function<void(link::LinkId, link::Message)> send;
    // The link breaks the rules.
    std::function<void(link::LinkId, absl::Status why)> close;
  };

  // `memory`: whose account they are in; outlives them.
  StockTunnels(runtime::Loop& loop, runtime::MemoryAccount& memory, Events events)
      : loop_(loop), memory_(memory), events_(std::move(events)) {}
  ~StockTunnels();
  StockTunnels(const StockTunnels&) = delete;
  StockTunnels& operator=(const StockTunnels&) = delete;

  // RESOURCE_EXHAUSTED (`limit_exceeded`, `memory_max`), or UNAVAILABLE (`no_stock_service`):
  // nobody listens there; or what `find` says.
  void Open(const link::Request& request, link::Responder responder);
  // Frames of a tunnel that is over are ignored: they were on their way.
  void Take(link::LinkId link, link::Message frame);
  // Its connections are broken.
  void Ended(link::LinkId link);
  bool Holds(link::LinkId link) const { return links_.contains(link); }  // whether it has a tunnel

 private:
  struct Place {
    std::string job;
    std::shared_ptr<link::Tunnel> tunnel = nullptr;  // null: being connected
  };
  using Places = std::map<uint64_t, Place>;  // by the request's id

  // OK: there may be one more for the job.
  absl::Status CheckRoom(link::LinkId link, const std::string& job) const;
  void Connected(link::LinkId link, uint64_t id, absl::StatusOr<asio::ip::tcp::socket> socket,
                 link::Responder responder);
  // Null: there is none, or not any more.
  Place* Find(link::LinkId link, uint64_t id);
  // Does nothing where there is none.
  void Remove(link::LinkId link, uint64_t id);
  // One of its tunnels, in the counts.
  void Forget(const std::string& job);
  // Of those that are to go, of which there are some. Returns whether there are more.
  bool AbandonOne();

  runtime::Loop& loop_;
  runtime::MemoryAccount& memory_;
  const Events events_;
  std::map<link::LinkId, Places> links_;   // none is empty
  std::map<std::string, size_t> of_jobs_;  // none is 0
  size_t count_ = 0;
  std::vector<std::shared_ptr<link::Tunnel>> gone_;  // detached, and to be abandoned
  // What Asio calls back outlives us; it looks here first.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lockstep::server

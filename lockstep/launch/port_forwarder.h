// Addresses of this host at which stock clients reach the services of a job on the server's host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/base/time.h"
#include "lockstep/launch/environment.h"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/link/tunnel.h"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::launch {

// Whether stock clients on this host need it: the service listens at a loopback address of the
// server's host, which is called by another one. Of several servers, the one that comes to lead may
// be on another host. `coordinator`: as link::Servers::Read takes it.
bool NeedsForwarding(const std::string& service, const std::string& coordinator);

// Carries the connections of this host's stock clients in tunnels over one link to the server, with
// the launcher's token and, between hosts, TLS. When the link breaks, so do they; who connects
// while the server is away waits for it.
//
// Threads: loop-confined. Ownership: `loop` outlives it. Bounds: kConnectionsMax; a tunnel,
// TunnelFlow's. Serves the users whom runtime::AllowedPeers allows: this one and root.
class PortForwarder {
 public:
  // As the server: StockTunnels::kTunnelsPerLinkMax. `forwarded_connections_max`
  static constexpr size_t kConnectionsMax = 4096;
  // A connection waits so long for a server that is away.
  static constexpr absl::Duration kPatience = absl::Seconds(60);

  // One for this job, if stock clients on this host need it; `address` then says where it forwards
  // from. Null: they do not. Errors as `Forward`.
  static absl::StatusOr<std::unique_ptr<PortForwarder>> WhereNeeded(
      runtime::Loop& loop, JobAddress& address, std::function<void(std::string)> say);

  // `coordinator`: as link::Servers::Read takes it. `say`: for people.
  PortForwarder(runtime::Loop& loop, std::string coordinator, std::string job,
                std::function<void(std::string)> say);
  ~PortForwarder();
  PortForwarder(const PortForwarder&) = delete;
  PortForwarder& operator=(const PortForwarder&) = delete;

  // Listens at a loopback address from now on, instead of where it did for this service;
  // connections stay. HOST:PORT. `attempt`: of torch's store; 0: the current one. UNAVAILABLE or
  // RESOURCE_EXHAUSTED: there is no port or no descriptor left.
  absl::StatusOr<std::string> Forward(wire::native::StockService service, int64_t attempt);

 private:
  // A connection that was accepted and has no tunnel yet.
  struct Opening {
    wire::native::OpenTunnel asked;
    asio::ip::tcp::socket socket;
    Time give_up;
    uint64_t id = 0;  // of the request
  };
  using OpeningPtr = std::shared_ptr<Opening>;

  void Accepted(const wire::native::OpenTunnel& asked, int fd);
  void Dial();
  void LinkReady();
  void LinkClosed(const absl::Status& why);
  void Open(const OpeningPtr& opening);
  void Opened(Opening& opening, const absl::Status& status);
  void Take(link::Message frame);
  void DropWaiting(const absl::Status& why, Time due_by);

  runtime::Loop& loop_;
  const std::string coordinator_;
  std::shared_ptr<link::Servers> servers_;  // null before the first link
  const std::string job_;
  const std::function<void(std::string)> say_;
  std::map<wire::native::StockService, std::unique_ptr<runtime::Acceptor>> acceptors_;
  std::shared_ptr<link::ClientLink> link_;  // null: nobody needs it, or it is dialled again soon
  bool ready_ = false;                      // the link is
  // What people have been told.
  struct {
    bool trouble = false;  // that the server is away
    Time next_complaint;   // of a connection that was not forwarded
  } said_;
  runtime::Timer redial_;
  std::deque<OpeningPtr> waiting_;  // for the link
  size_t opening_ = 0;              // requests without an answer
  std::map<uint64_t, std::shared_ptr<link::Tunnel>> tunnels_;
};

}  // namespace lockstep::launch

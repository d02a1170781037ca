// gRPC's server behind one listener for stock clients.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/stock/grpc/stock_listener_options.h"

namespace grpc {
class ResourceQuota;
class Server;
class ServerBuilder;
namespace experimental {
class ExternalConnectionAcceptor;
}  // namespace experimental
}  // namespace grpc

namespace lockstep::net {

// Serves what its owner adds, and gRPC's health service, over connections that others accept. Its
// memory is a quota of the budget from the first `Start` until it is destroyed.
//
// Threads: loop-confined, but for `Shutdown`. Bounds: StockListenerOptions.
class GrpcServer {
 public:
  // `options` outlives it.
  explicit GrpcServer(const StockListenerOptions& options);
  // Not while it serves: `Shutdown` comes first.
  ~GrpcServer();

  // Serves from now on, if it does not yet, what `add` registers, which outlives this; `names` are
  // told to be healthy. False: gRPC did not start; it may be tried again.
  bool Start(const std::function<void(grpc::ServerBuilder&)>& add,
             const std::vector<std::string>& names);
  bool started() const { return server_ != nullptr; }  // also after `Shutdown`
  // Connections may be given to `Take`.
  bool serves() const { return started() && !shut_down_; }
  // Takes over a connected socket. After `Start`.
  void Take(int fd);

  // Ends all connections once their last answers are out. Once started, it blocks for up to
  // `drain_time` while the loop runs: so it is not to be called on the loop then.
  void Shutdown();

 private:
  const StockListenerOptions& options_;
  // Each uses those before it.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::shared_ptr<grpc::ResourceQuota> quota_;
  std::unique_ptr<grpc::Server> server_;
  bool shut_down_ = false;
};

}  // namespace lockstep::net

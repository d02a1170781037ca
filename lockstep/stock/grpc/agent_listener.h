// The listener of a host's agent: takes the calls of stock clients as bytes, whatever they mean.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/stock/grpc/grpc_server.h"
#include "lockstep/stock/grpc/stock_listener_options.h"

namespace lockstep::net {

// A call, as gRPC delivered it.
struct AgentCall {
  std::string method;  // "/xla.coordination.CoordinationService/Heartbeat"
  std::string bytes;   // of the message
  // Its connection: numbered from 1; numbers are never reused.
  uint64_t connection = 0;
  absl::Duration left = absl::InfiniteDuration();  // until its caller stops waiting
};

// What its caller is told.
struct AgentAnswer {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  std::string details;  // `grpc-status-details-bin`; empty: none
  std::string reason;   // `lockstep-reason`; empty: none
  std::string bytes;    // of the message, when `code` is OK
};

// Life: construct, Listen, Start, ... Shutdown, destroy. Shutdown is mandatory after Start.
// Threads: loop-confined, but for `Shutdown`; all may be called while the loop does not run; calls
// begin on gRPC's threads. Bounds: those of StockListenerOptions; one message a call, of at most
// kMessageBytesMax; names of connections, of which an address has one for each port.
class AgentListener {
 public:
  // Of one call, at most once, from any thread; it may come before `begin` returns.
  using Answer = std::function<void(AgentAnswer)>;
  // Called for each call; thread-safe. What it returns is called if the caller cancels before its
  // answer, which must come all the same.
  using Begin = std::function<std::function<void()>(AgentCall, Answer)>;

  AgentListener(runtime::Loop& loop, StockListenerOptions options, Begin begin,
                runtime::Complain complain);
  ~AgentListener();

  // As StockListener.
  absl::Status Listen(const runtime::Address& at) { return acceptor_.Listen(at); }
  asio::ip::tcp::endpoint address() const { return acceptor_.address(); }
  void Start() { acceptor_.Start(); }
  // Ends all connections once what was answered is out. Blocks for up to `drain_time`; not on the
  // loop. Each call must have been answered, or will be while this waits.
  void Shutdown() { server_.Shutdown(); }

 private:
  class Service;
  // The current connection from a peer's address, whose port may be reused.
  class Connections {
   public:
    void Add(const std::string& peer);
    uint64_t Find(const std::string& peer) const;

   private:
    mutable Mutex mutex_;
    uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
    absl::flat_hash_map<std::string, uint64_t> numbers_ ABSL_GUARDED_BY(mutex_);
  };

  void TakeConnection(int fd);

  const StockListenerOptions options_;
  runtime::Complain complain_;
  runtime::Acceptor acceptor_;
  Connections connections_;
  const std::unique_ptr<Service> service_;
  GrpcServer server_;
};

}  // namespace lockstep::net

// The listener of one job for stock clients: xla.coordination.CoordinationService (jaxlib 0.10 and
// later), tensorflow.CoordinationService (TensorFlow, and jaxlib up to 0.9.2) and
// grpc.health.v1.Health, all on an address of the job's own, since nothing on their wire names the
// job.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/stock/grpc/grpc_server.h"
#include "lockstep/stock/grpc/open_calls.h"
#include "lockstep/stock/grpc/stock_listener_options.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::net {

class StockInbox;
class StockService;

// Turns every call into an event with a new call id, and every reply into that call's answer. A
// call whose caller cancels, runs into its deadline or disconnects becomes a CallLeft at once.
//
// Life: construct, Listen, Start, ... Shutdown, destroy (on the loop, or when it does not run).
// Shutdown is mandatory after Start.
// Threads: gRPC's decode; the handler and `Answer` are the loop's. A waiting call costs no thread.
// Bounds: StockListenerOptions, kMessageBytesMax per request.
class StockListener {
 public:
  // Called on the loop for each event. May call `Answer` at once.
  using Handler = absl::AnyInvocable<void(coord::Event)>;
  // The job's current attempt, for requests that do not say which one they mean. Loop.
  using CurrentAttempt = absl::AnyInvocable<ServiceIncarnation() const>;

  // `complain` gets a line for the log of what cannot be taken; see Acceptor.
  StockListener(runtime::Loop& loop, StockListenerOptions options, Handler handler,
                CurrentAttempt current, runtime::Complain complain);
  ~StockListener();

  // Takes the address, so that two servers cannot both believe to have it. UNAVAILABLE: another
  // process has it, or it is none of this host's.
  absl::Status Listen(const runtime::Address& at);
  asio::ip::tcp::endpoint address() const;  // after `Listen`: with the port that was chosen

  // Begins to serve. Loop, or before the loop runs. What gRPC needs is made when the first
  // connection comes: a listener that nobody uses costs one socket.
  void Start() { acceptor_.Start(); }

  // Finishes the calls that are answered. Replies to calls that have left are dropped. Loop.
  void Answer(const std::vector<coord::Reply>& replies);

  // Loop, or not running: takes no more connections.
  void StopAccepting();

  // Ends all connections once their last answers are out. Blocks for up to `drain_time`, while the
  // loop must run: so not on the loop, unless nobody ever came.
  void Shutdown();
  // Whether a connection ever came: only then `Shutdown` blocks.
  bool anyone_came() const { return server_.started(); }

  // Calls without an answer. Loop.
  size_t open_calls() const { return calls_.size(); }
  // Connections that are open. Loop.
  size_t CountConnections();

 private:
  // Hands on what is in the inbox, in as many turns as it needs.
  void Drain();
  void TakeConnection(int fd);
  bool StartServer();

  runtime::Loop& loop_;
  const StockListenerOptions options_;
  Handler handler_;
  CurrentAttempt current_;
  runtime::Complain complain_;
  runtime::Acceptor acceptor_;
  // What is on its way in calls, whose share gRPC's threads change; and connections.
  runtime::MemoryShare call_share_;
  runtime::MemoryShare connection_share_;
  std::shared_ptr<StockInbox> inbox_;
  OpenCalls calls_;
  struct Served {
    std::unique_ptr<wire::stock::Family> family;
    std::unique_ptr<StockService> service;
  };
  std::vector<Served> served_;
  GrpcServer server_;
};

}  // namespace lockstep::net

// The door of one job for stock clients: xla.coordination.CoordinationService (jaxlib 0.10 and
// later), tensorflow.CoordinationService (TensorFlow, and jaxlib up to 0.9.2) and
// grpc.health.v1.Health, all on an address of the job's own, since nothing on their wire names the
// job.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/stock/grpc/registered_connections.h"
#include "lockstep/stock/wire/answer_cache.h"
#include "lockstep/stock/wire/family.h"

namespace grpc {
class ResourceQuota;
class Server;
class Service;
namespace experimental {
class ExternalConnectionAcceptor;
}  // namespace experimental
}  // namespace grpc

namespace lockstep::net {

class StockCall;
class StockInbox;

// What gRPC may hold for all doors of a server, as quotas of equal size. As long as there is room
// for it each door that serves has a quota of its own, so that what fills the memory of one job
// ends no calls of another; where there are more doors, several share one. All quotas together are
// never more than the budget.
//
// Threads: loop-confined, or while the loop does not run. Outlives its doors.
class GrpcBudget {
 public:
  explicit GrpcBudget(size_t bytes) : bytes_(bytes) {}

  // The quota of a door that begins to serve, which has at most `most` from now on, and less as
  // others enter.
  std::shared_ptr<grpc::ResourceQuota> Enter(size_t most);
  // A door ends. The quota goes with the last door that shares it, and the others get more.
  void Leave(const std::shared_ptr<grpc::ResourceQuota>& quota);

  // How many there are, and what each may hold (less where its doors want less).
  size_t quotas() const { return shared_.size(); }
  // The budget's equal part.
  size_t quota_bytes() const { return bytes_ / std::max<size_t>(1, shared_.size()); }

 private:
  struct Shared {
    std::shared_ptr<grpc::ResourceQuota> quota;
    size_t most = 0;
    size_t doors = 0;
  };
  void Divide();

  const size_t bytes_;
  std::vector<Shared> shared_;
};

// Limits of one door; each has the name of its option in its error text.
struct StockDoorOptions {
  // gRPC holds a connection that says nothing until `handshake_timeout`; the server's own link, its
  // pages and its journal must not wait for that.
  runtime::AcceptorOptions connections = {.descriptors_left_min = 64};
  // The job's, by which the older clients name members (CoordinatorOptions::roles).
  std::vector<coord::RoleOptions> roles;
  // Open calls, waiting or not; further ones get RESOURCE_EXHAUSTED: `calls_max`.
  size_t calls_max = 1'100'000;
  // What gRPC may hold for connections and for messages that are on their way; beyond, it ends
  // calls and idle connections instead of the whole process: `grpc_memory_max`.
  size_t grpc_memory_max = size_t{4} << 30;
  // From a connection to its first HTTP/2 settings; then it is closed.
  absl::Duration handshake_timeout = absl::Seconds(5);
  // Null: each door has all of `grpc_memory_max`.
  std::shared_ptr<GrpcBudget> budget;
  // What calls hold is in this account, under this name. Null: in none.
  runtime::MemoryAccount* memory = nullptr;
  std::string owner;
  // How long `Shutdown` lets answers go out before it cuts what is left.
  absl::Duration drain_time = absl::Seconds(3);
};

// Turns every call into an event with a new call id, and every reply into that call's answer. A
// call whose caller cancels, runs into its deadline or disconnects becomes a CallLeft at once.
//
// Life: construct, Listen, Start, ... Shutdown, destroy (on the loop, or when it does not run).
// Shutdown is mandatory after Start.
// Threads: gRPC's decode; the handler and `Answer` are the loop's. A waiting call costs no thread.
// Bounds: StockDoorOptions, kMessageBytesMax per request.
class StockDoor {
 public:
  // Called on the loop for each event. May call `Answer` at once.
  using Handler = absl::AnyInvocable<void(coord::Event)>;
  // The job's current attempt, for requests that do not say which one they mean. Loop.
  using CurrentAttempt = absl::AnyInvocable<ServiceIncarnation() const>;

  // `complain` gets a line for the log of what cannot be taken; see Acceptor.
  StockDoor(runtime::Loop& loop, StockDoorOptions options, Handler handler, CurrentAttempt current,
            runtime::Complain complain);
  ~StockDoor();

  // Takes the address, so that two servers cannot both believe to have it. UNAVAILABLE: another
  // process has it, or it is none of this host's.
  absl::Status Listen(const runtime::Address& at);
  asio::ip::tcp::endpoint address() const;  // after `Listen`: with the port that was chosen

  // Begins to serve. Loop, or before the loop runs. What gRPC needs is made when the first
  // connection comes: a door that nobody uses costs one socket.
  void Start() { acceptor_.Start(); }

  // Finishes the calls that are answered. Replies to calls that have left are dropped. Loop.
  void Answer(const std::vector<coord::Reply>& replies);

  // Loop, or not running: takes no more connections.
  void StopAccepting();

  // Ends all connections once their last answers are out. Blocks for up to `drain_time`, while the
  // loop must run: so not on the loop, unless nobody ever came.
  void Shutdown();
  // Whether a connection ever came: only then `Shutdown` blocks.
  bool anyone_came() const { return server_ != nullptr; }

  // Calls without an answer. Loop.
  size_t open_calls() const { return open_.size(); }
  // Connections that are open. Loop.
  size_t CountConnections();

 private:
  // Hands on what is in the inbox, in as many turns as it needs.
  void Drain();
  bool StartServer();
  void TakeConnection(int fd);
  void SetAttempt(const StockCall& call, coord::Event& event) const;

  runtime::Loop& loop_;
  const StockDoorOptions options_;
  Handler handler_;
  CurrentAttempt current_;
  runtime::Complain complain_;
  runtime::Acceptor acceptor_;
  // What is on its way in calls, whose share gRPC's threads change; and connections.
  runtime::MemoryShare call_share_;
  runtime::MemoryShare connection_share_;
  std::shared_ptr<StockInbox> inbox_;

  // Loop-confined. Whoever takes a call out of the table finishes it.
  absl::flat_hash_map<CallId, StockCall*> open_;
  wire::stock::AnswerCache answers_;
  RegisteredConnections registered_;

  const std::vector<std::unique_ptr<wire::stock::Family>> families_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::shared_ptr<grpc::ResourceQuota> quota_;
  std::unique_ptr<grpc::Server> server_;
  bool shut_down_ = false;
};

}  // namespace lockstep::net

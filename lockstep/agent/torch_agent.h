// The agent of a host, for torch's clients: they call it as they would call the store of their job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/agent/torch_stream.h"
#include "lockstep/client/engine.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/complaints.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/peer_owner.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/listener/torch_store_listener.h"
#include "lockstep/stock/tcpstore/options.h"
#include "lockstep/stock/tcpstore/passed_connections.h"

namespace lockstep::agent {

// Ends torch's protocol and passes each command on as a request of one session, which outlives
// links and servers. Decides nothing but the order of each connection's commands (TorchStream). It
// takes waits back itself, so that a client's own time-out holds while the server is away. A
// command that the server refuses ends its connection. What a client said before it left is passed
// on, and only then the server is told that it has gone: until then it must know what took effect.
//
// Threads: loop-confined, but for the engine's callbacks. Ownership: `loop` outlives it. Bounds:
// those of TorchStoreListener, TorchStream and the session (client_calls_max,
// client_call_bytes_max); kClientsMax, with those that have left.
class TorchAgent {
 public:
  static constexpr size_t kClientsMax = tcpstore::PassedConnections::kPerAgentMax;

  struct Options {
    int64_t attempt = 0;  // whose store it is; 0: that of the attempt in which a client connects
    runtime::AllowedPeers allowed = {};
  };

  // `engine`: a session that is open, of which no other agent serves the same attempt. `complain`:
  // for the log; not of each connection that is closed, since clients cause them
  // (runtime::Complaints).
  TorchAgent(runtime::Loop& loop, std::shared_ptr<client::Engine> engine, Options options,
             std::function<void(std::string)> complain);
  // Its clients' connections break, and the server is told.
  ~TorchAgent();
  TorchAgent(const TorchAgent&) = delete;
  TorchAgent& operator=(const TorchAgent&) = delete;

  // As TorchStoreListener.
  absl::Status Listen(const runtime::Address& at) { return listener_.Listen(at); }
  asio::ip::tcp::endpoint address() const { return listener_.address(); }
  void Start() { listener_.Start(); }

 private:
  struct Client {
    TorchStream commands;
    int64_t attempt = 0;
    Pending wait;       // that is under way
    bool left = false;  // it is not connected any more
  };

  void Came(tcpstore::ConnectionId id, const tcpstore::Command& command);
  // Passes on what may go on, and takes more.
  void GoOn(tcpstore::ConnectionId id);
  void PassOn(tcpstore::ConnectionId id, Client& client, TorchStream::Command command);
  void Answered(tcpstore::ConnectionId id, uint64_t number, client::Engine::Answer answer);
  void Left(tcpstore::ConnectionId id);
  // A client that has left is forgotten once its commands were answered.
  void ForgetIfGone(tcpstore::ConnectionId id);
  // That it has gone is told like a command, and answered by nobody.
  void TellGone(tcpstore::ConnectionId id, const Client& client);
  // Of a connection, in this session: another agent of it may serve another attempt.
  uint64_t NumberOf(tcpstore::ConnectionId id) const {
    return static_cast<uint64_t>(options_.attempt) << 32 | id.value();
  }

  runtime::Loop& loop_;
  const std::shared_ptr<client::Engine> engine_;
  const Options options_;
  const tcpstore::StoreOptions store_ = {.request_bytes_max =
                                             tcpstore::PassedConnections::kBytesMax};
  runtime::Complaints complaints_;
  std::map<tcpstore::ConnectionId, Client> clients_;
  // Gone with this, for answers that come later.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  net::TorchStoreListener listener_;
};

}  // namespace lockstep::agent

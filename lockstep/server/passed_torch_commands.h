// The connections of a store that agents pass on: beside its listener, another way to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/ids.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/options.h"
#include "lockstep/stock/tcpstore/passed_connections.h"
#include "lockstep/stock/tcpstore/records.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::server {

// Reads commands that come as requests of agents' sessions, hands them to the store as a listener
// does, and answers each request with what the store answers. A command that has taken effect does
// so only once (tcpstore::PassedConnections).
//
// Threads: loop-confined. Bounds: those of the agents' links (requests_in_flight_max) and
// PassedConnections; StoreOptions for one command and one answer.
class PassedTorchCommands {
 public:
  // As those of net::TorchStoreListener. None may destroy this.
  struct Events {
    std::function<void(tcpstore::ConnectionId, std::string peer)> connected;
    std::function<void(tcpstore::ConnectionId, const tcpstore::Command&)> command;
    // The command was answered before; this is its answer once more, after what waits.
    std::function<void(tcpstore::ConnectionId, tcpstore::ValuePtr answer)> again;
    // Its wait is over: its client took it back, or (`quietly`) its agent is away and asks again.
    std::function<void(tcpstore::ConnectionId, bool quietly)> cancelled;
    std::function<void(tcpstore::ConnectionId, tcpstore::Effects& out)> left;
    // Of a request that has not left: the bytes, or an error with a reason.
    std::function<void(CallId, absl::StatusOr<tcpstore::ValuePtr>)> answer;
  };

  // `options` outlives it.
  PassedTorchCommands(const tcpstore::StoreOptions& options, Events events)
      : options_(options), events_(std::move(events)), connections_(options.keeps) {}

  // A request of the agent whose session this is.
  void Begin(CallId call, SessionId agent, const std::string& peer,
             const wire::native::TorchCommand& asked);
  // Nobody waits for its answer any more: it was cancelled, or its link has ended (`away`), over
  // which it may come again.
  void Left(CallId call, bool away);
  // The session is over, and its connections are.
  void AgentGone(SessionId agent);

  // The store has handled the command of one of these connections; adds to what it said.
  void Handled(tcpstore::ConnectionId id, const tcpstore::Command& command, tcpstore::Effects& out);
  // Answers; of connections that are not of these, nothing.
  void CarryOut(const tcpstore::Effects& effects);
  // Answers what waits with this.
  void Close(const absl::Status& why);

  // See PassedConnections.
  void Apply(const tcpstore::Record& record) { connections_.Apply(record); }
  std::vector<tcpstore::Record> Snapshot() const { return connections_.Snapshot(); }

  // What it holds, as it costs.
  size_t memory() const { return connections_.memory() + calls_.size() * kCallBytes; }

 private:
  static constexpr size_t kCallBytes = 128;

  // A command that was handed to the store, and is to be answered.
  struct Pending {
    std::optional<CallId> call;  // nothing: it has left
    uint64_t number = 0;
    bool parks = false;
  };

  void Take(CallId call, tcpstore::ConnectionId id, uint64_t number, std::string_view bytes);
  // The oldest command that waits is answered.
  void Answer(tcpstore::ConnectionId id, const tcpstore::Answer& answer);
  void Refuse(tcpstore::ConnectionId id, const std::string& why);
  void End(tcpstore::ConnectionId id);
  void Fail(CallId call, const absl::Status& why);

  const tcpstore::StoreOptions& options_;
  const Events events_;
  tcpstore::PassedConnections connections_;
  // Those that the store knows, with their commands, the oldest first. Each is answered once, and
  // in this order.
  absl::flat_hash_map<tcpstore::ConnectionId, std::deque<Pending>> connected_;
  absl::flat_hash_map<CallId, tcpstore::ConnectionId> calls_;
};

}  // namespace lockstep::server

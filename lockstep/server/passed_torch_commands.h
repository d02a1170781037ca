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
#include "absl/container/flat_hash_set.h"
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
// A connection that was refused stays so until its agent says that it has ended: what was on its
// way behind the refused command has no effect.
//
// Threads: loop-confined. Bounds: those of the agents' links (requests_in_flight_max) and
// PassedConnections; kPendingMax of a connection.
class PassedTorchCommands {
 public:
  // As those of net::TorchStoreListener. None may destroy this.
  struct Events {
    std::function<void(tcpstore::ConnectionId, std::string peer)> connected;
    std::function<void(tcpstore::ConnectionId, const tcpstore::Command&)> command;
    // The command was answered before; this is its answer once more, after what waits.
    std::function<void(tcpstore::ConnectionId, tcpstore::ValuePtr answer)> again;
    // Its client takes its waits back.
    std::function<void(tcpstore::ConnectionId)> cancelled;
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
  // Nobody waits for its answer any more: it was cancelled, or its link has ended (`away`). Then
  // its wait goes on: it may come again over the next link.
  void Left(CallId call, bool away);
  // The session is over: ends one of its connections. False: it has no more.
  bool EndOneOf(SessionId agent);

  // The store has handled a command, of one of these connections or of another; adds to what it
  // said. `Replied`, of what the store said later by itself.
  void Handled(tcpstore::ConnectionId from, const tcpstore::Command& command,
               tcpstore::Effects& out);
  void Replied(tcpstore::Effects& out);
  // Answers; of connections that are not of these, nothing.
  void CarryOut(const tcpstore::Effects& effects);
  // Answers what waits with this.
  void Close(const absl::Status& why);

  // See PassedConnections.
  void Apply(const tcpstore::Record& record) { connections_.Apply(record); }
  std::vector<tcpstore::Record> Snapshot() const { return connections_.Snapshot(); }

  // What it holds, as it costs.
  size_t memory() const {
    return connections_.memory() + connected_.size() * kConnectedBytes + pending_ * kPendingBytes;
  }

 private:
  static constexpr size_t kPendingBytes = 192;
  static constexpr size_t kConnectedBytes = 1536;  // with the first blocks of its queues
  // Commands of a connection that the store has not answered: those that an agent sends at a time,
  // and those that they replace.
  static constexpr size_t kPendingMax = 256;

  // A command that was handed to the store, which answers it once.
  struct Pending {
    std::optional<CallId> call;  // nothing: it has left
    uint64_t number = 0;
    bool parks = false;
    bool asks = false;  // torch's protocol has an answer
    bool lists = false;
  };
  // Those of a connection, each the oldest first.
  struct Commands {
    std::deque<Pending> open;     // the store has not said what they are answered with
    std::deque<Pending> replied;  // it has: its words are on their way, in this order
    size_t size() const { return open.size() + replied.size(); }
  };

  // Of a connection that the store knows.
  absl::Status Take(CallId call, tcpstore::ConnectionId id,
                    const wire::native::TorchCommand& asked);
  // One that comes again over a new link, and is on its way still; null: there is none.
  static Pending* Find(Commands& all, uint64_t number);
  // Whether the command may be handed to the store, beside those that are pending.
  absl::Status Check(const Commands& all, const Pending& command) const;
  // The newest command of the connection, or the end of its waits.
  void HandledOwn(tcpstore::ConnectionId id, const tcpstore::Command& command,
                  tcpstore::Effects& out);
  // The store answers the oldest open command of which `chosen` is true, with this, which may be
  // among `out`: only its records change.
  template <class Chosen>
  void Reply(tcpstore::ConnectionId id, const tcpstore::Answer& answer, const Chosen& chosen,
             tcpstore::Effects& out);
  // The store answers a wait or a list.
  void ReplyLate(tcpstore::ConnectionId id, const tcpstore::Answer& answer, tcpstore::Effects& out);
  // The oldest command that is pending is answered.
  void Answer(tcpstore::ConnectionId id, const tcpstore::Answer& answer);
  // From now on it is only refused.
  void Refuse(tcpstore::ConnectionId id, const std::string& why);
  void End(tcpstore::ConnectionId id);
  // Answers what is pending with this, and forgets it.
  void Disconnect(tcpstore::ConnectionId id, const std::string& why);
  void Fail(CallId call, const absl::Status& why);

  const tcpstore::StoreOptions& options_;
  const Events events_;
  tcpstore::PassedConnections connections_;
  // Those that the store knows: it answers the commands of each in their order.
  absl::flat_hash_map<tcpstore::ConnectionId, Commands> connected_;
  absl::flat_hash_set<tcpstore::ConnectionId> refused_;
  absl::flat_hash_map<CallId, tcpstore::ConnectionId> calls_;
  size_t pending_ = 0;  // of all connections
};

}  // namespace lockstep::server

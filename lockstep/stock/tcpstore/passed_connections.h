// Connections of torch's clients to the agents of their hosts, as the server knows them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "lockstep/base/ids.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/records.h"

namespace lockstep::tcpstore {

// Whether the command may change what is in the store, so that it must not be carried out twice.
bool Changes(const Command& command);
// Whether torch's protocol has an answer to it.
bool HasAnswer(const Command& command);
// Whether it may wait for other clients.
bool Parks(const Command& command);

// Makes commands that agents pass on take effect once. An agent numbers the commands of each of its
// connections and sends those without an answer again when its link breaks. It passes on a command
// only when all those before it were answered, other than some that have no answer in torch's
// protocol. So the newest that took effect, and its answer, are all that has to
// be kept of a connection.
//
// Owns the names of connections and these answers; the store knows the connections by their ids.
// Threads: thread-compatible. Bounds: kPerAgentMax connections of each agent.
class PassedConnections {
 public:
  static constexpr size_t kPerAgentMax = 4096;  // `passed_connections_max`
  // Of one command and of one answer: each is handled whole. `passed_bytes_max`
  static constexpr size_t kBytesMax = size_t{9} << 20;

  // `keeps`: the journal is told, with the store's own records.
  explicit PassedConnections(bool keeps) : keeps_(keeps) {}

  // Ids of passed connections are not those of a listener.
  static bool Owns(ConnectionId id) { return (id.value() & kPassedBit) != 0; }

  // Its id; nothing: it is not known.
  std::optional<ConnectionId> Find(PassedConnection name) const;
  // A new one. RESOURCE_EXHAUSTED: its agent has too many.
  absl::StatusOr<ConnectionId> Add(PassedConnection name);
  // What a command is to lead to: it is carried out, or only waits on, since it was counted at its
  // barrier before, or is answered as it was, or is refused: it cannot have this number.
  enum class Course { kCarryOut, kWaitOn, kAnswerAgain, kRefuse };
  // `after`: the number of the one before it, which was not answered when it was passed on; 0: all
  // were.
  Course CourseOf(ConnectionId id, uint64_t number, uint64_t after, const Command& command) const;
  // What the command was answered with; null: nothing.
  ValuePtr AnswerOf(ConnectionId id, uint64_t number) const;

  // The store has carried out the command, which changes something; `out` is what it said, which
  // the record of that joins. `answer`: null while there is none.
  void Done(ConnectionId id, uint64_t number, const Command& command, ValuePtr answer,
            Effects& out);
  // Whether that is the newest that took effect, and it waits for its answer.
  bool AwaitsAnswer(ConnectionId id, uint64_t number) const;
  // It has come, among `out`: a wait that is over must not begin again, since what it waited for
  // may have been forgotten by then.
  void Released(ConnectionId id, uint64_t number, ValuePtr answer, Effects& out);
  // It has gone.
  void Remove(ConnectionId id, Effects& out);
  // The first connection of the agent; nothing: it has none.
  std::optional<ConnectionId> FirstOf(SessionId agent) const;

  // Of record::CommandDone and record::PassedGone; others are ignored.
  void Apply(const Record& record);
  // From which it is made again: those of which something took effect.
  std::vector<Record> Snapshot() const;

  // What it holds, as it costs.
  size_t memory() const { return names_.size() * kConnectionBytes + answer_bytes_; }

 private:
  static constexpr uint64_t kPassedBit = uint64_t{1} << 63;
  static constexpr size_t kConnectionBytes = 256;

  struct Connection {
    ConnectionId id;
    uint64_t done = 0;  // the newest command that took effect
    ValuePtr answer;    // to it
  };
  using Connections = std::map<PassedConnection, Connection>;

  Connection& Make(PassedConnection name);
  Connection& At(ConnectionId id) { return connections_.at(names_.at(id)); }
  const Connection& At(ConnectionId id) const { return connections_.at(names_.at(id)); }
  void Keep(Connection& connection, uint64_t number, ValuePtr answer);
  void Erase(Connections::iterator connection);

  const bool keeps_;
  uint64_t last_ = 0;
  Connections connections_;
  absl::flat_hash_map<SessionId, size_t> of_agents_;  // counted; none is 0
  absl::flat_hash_map<ConnectionId, PassedConnection> names_;
  size_t answer_bytes_ = 0;
};

}  // namespace lockstep::tcpstore

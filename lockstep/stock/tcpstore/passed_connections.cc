#include "lockstep/stock/tcpstore/passed_connections.h"

#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::tcpstore {
namespace {

size_t SizeOf(const ValuePtr& value) { return value ? value->size() : 0; }

template <class... Kinds>
bool IsOneOf(const Command& command) {
  return (std::holds_alternative<Kinds>(command) || ...);
}

}  // namespace

bool HasAnswer(const Command& command) {
  return !IsOneOf<Set, Append, MultiSet, QueuePush>(command);
}

bool Parks(const Command& command) { return IsOneOf<Wait, Barrier>(command); }

bool Changes(const Command& command) {
  return !HasAnswer(command) || IsOneOf<CompareSet, Add, DeleteKey, QueuePop, Barrier>(command);
}

std::optional<ConnectionId> PassedConnections::Find(PassedConnection name) const {
  const auto found = connections_.find(name);
  return found == connections_.end() ? std::nullopt : std::optional(found->second.id);
}

absl::StatusOr<ConnectionId> PassedConnections::Add(PassedConnection name) {
  const auto of_agent = of_agents_.find(name.agent);
  if (of_agent != of_agents_.end() && of_agent->second >= kPerAgentMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the agent has passed on the commands of ", kPerAgentMax,
                     " connections (passed_connections_max) that have not ended"));
  }
  return Make(name).id;
}

PassedConnections::Connection& PassedConnections::Make(PassedConnection name) {
  Connection& connection = connections_[name];
  if (connection.id == ConnectionId()) {
    connection.id = ConnectionId(++last_ | kPassedBit);
    names_[connection.id] = name;
    ++of_agents_[name.agent];
  }
  return connection;
}

PassedConnections::Course PassedConnections::CourseOf(ConnectionId id, uint64_t number,
                                                      uint64_t after,
                                                      const Command& command) const {
  const Connection& connection = At(id);
  if (number == 0 || after > connection.done) return Course::kRefuse;
  if (!Changes(command) || number > connection.done) return Course::kCarryOut;
  // Of those that have an answer only the newest comes again.
  if (HasAnswer(command) && number < connection.done) return Course::kRefuse;
  return Parks(command) && AwaitsAnswer(id, number) ? Course::kWaitOn : Course::kAnswerAgain;
}

bool PassedConnections::AwaitsAnswer(ConnectionId id, uint64_t number) const {
  const Connection& connection = At(id);
  return number == connection.done && connection.answer == nullptr;
}

ValuePtr PassedConnections::AnswerOf(ConnectionId id, uint64_t number) const {
  const Connection& connection = At(id);
  return number == connection.done ? connection.answer : nullptr;
}

void PassedConnections::Keep(Connection& connection, uint64_t number, ValuePtr answer) {
  answer_bytes_ -= SizeOf(connection.answer);
  answer_bytes_ += SizeOf(answer);
  connection.done = number;
  connection.answer = std::move(answer);
}

void PassedConnections::Done(ConnectionId id, uint64_t number, const Command& command,
                             ValuePtr answer, Effects& out) {
  LOCKSTEP_DCHECK(Changes(command));
  // What changed nothing may be done again, and its answer is not kept. One without an answer is
  // noted all the same: those behind it may have been passed on already.
  if (keeps_ && out.records.empty() && HasAnswer(command)) return;
  if (keeps_) {
    // An entry of the journal holds the change whole, and this with it: an entry is closed only
    // when it is long, which this is not. Keys that are set together may take several entries, and
    // may be set again, so that this comes last.
    const bool is_last = out.records.empty() || std::holds_alternative<MultiSet>(command);
    out.records.insert(is_last ? out.records.end() : std::prev(out.records.end()),
                       record::CommandDone{names_.at(id), number, answer});
  }
  Keep(At(id), number, std::move(answer));
}

void PassedConnections::Released(ConnectionId id, uint64_t number, ValuePtr answer, Effects& out) {
  LOCKSTEP_DCHECK(AwaitsAnswer(id, number));
  if (keeps_) out.records.push_back(record::CommandDone{names_.at(id), number, answer});
  Keep(At(id), number, std::move(answer));
}

void PassedConnections::Erase(Connections::iterator connection) {
  answer_bytes_ -= SizeOf(connection->second.answer);
  names_.erase(connection->second.id);
  const auto of_agent = of_agents_.find(connection->first.agent);
  if (--of_agent->second == 0) of_agents_.erase(of_agent);
  connections_.erase(connection);
}

void PassedConnections::Remove(ConnectionId id, Effects& out) {
  const auto connection = connections_.find(names_.at(id));
  if (keeps_ && connection->second.done > 0) {
    out.records.push_back(record::PassedGone{connection->first});
  }
  Erase(connection);
}

std::optional<ConnectionId> PassedConnections::FirstOf(SessionId agent) const {
  const auto first = connections_.lower_bound({.agent = agent, .number = 0});
  const bool is_of_agent = first != connections_.end() && first->first.agent == agent;
  return is_of_agent ? std::optional(first->second.id) : std::nullopt;
}

void PassedConnections::Apply(const Record& record) {
  if (const auto* done = std::get_if<record::CommandDone>(&record)) {
    Keep(Make(done->by), done->number, done->answer);
  } else if (const auto* gone = std::get_if<record::PassedGone>(&record)) {
    if (const auto found = connections_.find(gone->gone); found != connections_.end()) Erase(found);
  }
}

std::vector<Record> PassedConnections::Snapshot() const {
  std::vector<Record> records;
  for (const auto& [name, connection] : connections_) {
    if (connection.done == 0) continue;
    records.push_back(record::CommandDone{name, connection.done, connection.answer});
  }
  return records;
}

}  // namespace lockstep::tcpstore

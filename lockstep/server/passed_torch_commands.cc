#include "lockstep/server/passed_torch_commands.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/stock/tcpstore/wire/command_reader.h"
#include "lockstep/stock/tcpstore/wire/outbox.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using tcpstore::ConnectionId;
using tcpstore::PassedConnections;
using tcpstore::ValuePtr;
using wire::native::WithReason;

absl::Status Invalid(const std::string& why) {
  return WithReason(absl::InvalidArgumentError(why), "invalid_argument");
}

// A whole command, and nothing else.
absl::Status Read(wire::tcpstore::CommandReader& reader, std::string_view bytes,
                  tcpstore::Command& command) {
  for (size_t read = 0; read < bytes.size();) {
    const absl::Span<char> room = reader.Prepare();
    const size_t some = std::min(room.size(), bytes.size() - read);
    std::memcpy(room.data(), bytes.data() + read, some);
    reader.Commit(some);
    read += some;
    const absl::StatusOr<bool> whole = reader.Next(command);
    if (!whole.ok()) return whole.status();
    if (*whole && reader.bytes().size() == bytes.size()) return absl::OkStatus();
    if (*whole) break;
  }
  return absl::InvalidArgumentError("it is not one whole command");
}

}  // namespace

void PassedTorchCommands::Fail(CallId call, const absl::Status& why) {
  calls_.erase(call);
  events_.answer(call, why);
}

void PassedTorchCommands::Begin(CallId call, SessionId agent, const std::string& peer,
                                const wire::native::TorchCommand& asked) {
  const tcpstore::PassedConnection name = {.agent = agent, .number = asked.connection};
  std::optional<ConnectionId> id = connections_.Find(name);
  if (asked.command.view.empty()) {
    if (id) End(*id);
    return events_.answer(call, nullptr);
  }
  if (!id) {
    const absl::StatusOr<ConnectionId> added = connections_.Add(name);
    if (!added.ok()) return Fail(call, WithReason(added.status(), "limit_exceeded"));
    id = *added;
  }
  if (connected_.try_emplace(*id).second) events_.connected(*id, peer);
  Take(call, *id, asked.number, asked.command.view);
}

void PassedTorchCommands::Take(CallId call, ConnectionId id, uint64_t number,
                               std::string_view bytes) {
  wire::tcpstore::CommandReader reader(options_, /*validated=*/true);
  tcpstore::Command command;
  if (const absl::Status status = Read(reader, bytes, command); !status.ok()) {
    return Fail(call, Invalid(absl::StrCat("a command of torch's store cannot be read: ",
                                           std::string(status.message()))));
  }
  const PassedConnections::Course course = connections_.CourseOf(id, number, command);
  connected_.at(id).push_back({.call = call, .number = number, .parks = tcpstore::Parks(command)});
  calls_.emplace(call, id);
  if (course == PassedConnections::Course::kAnswerAgain) {
    return events_.again(id, connections_.AnswerOf(id, number));
  }
  if (course == PassedConnections::Course::kWaitOn) {
    std::get<tcpstore::Barrier>(command).arrived = true;
  }
  events_.command(id, command);
}

void PassedTorchCommands::Handled(ConnectionId id, const tcpstore::Command& command,
                                  tcpstore::Effects& out) {
  const bool refused =
      std::any_of(out.refusals.begin(), out.refusals.end(),
                  [id](const tcpstore::Refusal& refusal) { return refusal.connection == id; });
  const auto own = std::find_if(out.replies.begin(), out.replies.end(),
                                [id](const tcpstore::Reply& reply) { return reply.to == id; });
  if (refused) return;
  if (std::holds_alternative<tcpstore::CancelWait>(command)) {
    // No command of an agent's, but the end of its waits: the answer to each that had none.
    if (own != out.replies.end()) out.replies.erase(own);
    for (size_t i = 0; i < out.given_up.size(); ++i) {
      out.replies.push_back({id, tcpstore::WaitCancelled{}});
    }
    return;
  }
  if (tcpstore::Changes(command)) {
    ValuePtr answer;
    if (tcpstore::HasAnswer(command) && own != out.replies.end()) {
      answer = std::make_shared<const std::string>(wire::tcpstore::Encode(own->answer));
    }
    connections_.Done(id, connected_.at(id).back().number, command, std::move(answer), out);
  }
  if (!tcpstore::HasAnswer(command)) out.replies.push_back({id, tcpstore::Encoded{}});
}

void PassedTorchCommands::CarryOut(const tcpstore::Effects& effects) {
  for (const tcpstore::Reply& reply : effects.replies) {
    if (PassedConnections::Owns(reply.to)) Answer(reply.to, reply.answer);
  }
  for (const tcpstore::Refusal& refusal : effects.refusals) {
    if (PassedConnections::Owns(refusal.connection)) Refuse(refusal.connection, refusal.why);
  }
}

void PassedTorchCommands::Answer(ConnectionId id, const tcpstore::Answer& answer) {
  const auto found = connected_.find(id);
  if (found == connected_.end() || found->second.empty()) return;
  const Pending pending = found->second.front();
  found->second.pop_front();
  auto bytes = std::make_shared<const std::string>(wire::tcpstore::Encode(answer));
  const bool cancelled = std::holds_alternative<tcpstore::WaitCancelled>(answer);
  if (pending.parks && !cancelled) connections_.AnsweredLate(id, pending.number, bytes);
  if (!pending.call) return;
  calls_.erase(*pending.call);
  events_.answer(*pending.call, std::move(bytes));
}

void PassedTorchCommands::Refuse(ConnectionId id, const std::string& why) {
  const auto found = connected_.find(id);
  if (found == connected_.end()) return;
  for (const Pending& pending : std::exchange(found->second, {})) {
    if (pending.call) Fail(*pending.call, Invalid(absl::StrCat("the connection is closed: ", why)));
  }
  End(id);
}

void PassedTorchCommands::End(ConnectionId id) {
  tcpstore::Effects out;
  connections_.Remove(id, out);
  if (const auto connected = connected_.extract(id); !connected.empty()) {
    for (const Pending& pending : connected.mapped()) {
      if (pending.call) Fail(*pending.call, Invalid("the connection has ended"));
    }
  }
  events_.left(id, out);
}

void PassedTorchCommands::Left(CallId call, bool away) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  const ConnectionId id = found->second;
  calls_.erase(found);
  auto& all = connected_.at(id);
  const auto pending =
      std::find_if(all.begin(), all.end(), [call](const Pending& of) { return of.call == call; });
  LOCKSTEP_DCHECK(pending != all.end());
  pending->call.reset();
  if (pending->parks) events_.cancelled(id, away);
}

void PassedTorchCommands::AgentGone(SessionId agent) {
  for (const ConnectionId id : connections_.OfAgent(agent)) End(id);
}

void PassedTorchCommands::Close(const absl::Status& why) {
  for (auto& [call, id] : std::exchange(calls_, {})) events_.answer(call, why);
  connected_.clear();
}

}  // namespace lockstep::server

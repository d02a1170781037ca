#include "lockstep/server/passed_torch_commands.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
absl::Status Read(wire::tcpstore::CommandReader& reader, absl::string_view bytes,
                  tcpstore::Command& command) {
  if (bytes.size() > PassedConnections::kBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", bytes.size(),
                                                   " bytes, over the limit passed_bytes_max (",
                                                   PassedConnections::kBytesMax, ")"));
  }
  const absl::StatusOr<bool> whole = reader.Next(command);
  if (!whole.ok()) return whole.status();
  if (!*whole || reader.bytes().size() != bytes.size()) {
    return absl::InvalidArgumentError("it is not one whole command");
  }
  if (std::holds_alternative<tcpstore::CancelWait>(command)) {
    return absl::InvalidArgumentError("it takes a wait back, which agents do themselves");
  }
  return absl::OkStatus();
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
  if (refused_.contains(*id)) return Fail(call, Invalid("the connection was refused before"));
  if (connected_.try_emplace(*id).second) events_.connected(*id, peer);
  const absl::Status taken = Take(call, *id, asked);
  if (taken.ok()) return;
  Fail(call, taken);
  Refuse(*id, std::string(taken.message()));
}

PassedTorchCommands::Pending* PassedTorchCommands::Find(Commands& all, uint64_t number) {
  for (std::deque<Pending>* pending : {&all.open, &all.replied}) {
    for (Pending& of : *pending) {
      if (of.number == number) return &of;
    }
  }
  return nullptr;
}

absl::Status PassedTorchCommands::Check(const Commands& all, const Pending& command) const {
  if (all.size() >= kPendingMax) return Invalid("too many of its commands are not answered");
  for (const std::deque<Pending>* pending : {&all.open, &all.replied}) {
    for (const Pending& before : *pending) {
      // Behind a question comes nothing before its answer; a list that nobody waits for any more is
      // made all the same, and the store wants no more of who asked for it meanwhile.
      if ((before.call && before.asks) || (before.lists && command.number > before.number)) {
        return Invalid(absl::StrFormat("command %d came before the answer to command %d",
                                       command.number, before.number));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status PassedTorchCommands::Take(CallId call, ConnectionId id,
                                       const wire::native::TorchCommand& asked) {
  const absl::string_view bytes(asked.command.view.data(), asked.command.view.size());
  wire::tcpstore::CommandReader reader(options_, bytes);
  tcpstore::Command command;
  if (const absl::Status status = Read(reader, bytes, command); !status.ok()) {
    return Invalid(
        absl::StrCat("a command of torch's store cannot be read: ", std::string(status.message())));
  }
  Commands& all = connected_.at(id);
  if (Pending* const same = Find(all, asked.number)) {
    if (same->call) return Invalid(absl::StrCat("command ", asked.number, " came twice"));
    same->call = call;
    calls_.emplace(call, id);
    return absl::OkStatus();
  }
  // A wait that another command follows was taken back while its agent was away.
  const bool waits = std::any_of(all.open.begin(), all.open.end(), [&](const Pending& pending) {
    return pending.parks && !pending.call && pending.number < asked.number;
  });
  if (waits) {
    events_.cancelled(id);
    if (!connected_.contains(id)) return Invalid("the connection was refused before");
  }
  const PassedConnections::Course course =
      connections_.CourseOf(id, asked.number, asked.after, command);
  if (course == PassedConnections::Course::kRefuse) {
    return Invalid(
        absl::StrFormat("command %d (after %d) is out of order", asked.number, asked.after));
  }
  const Pending pending = {.call = call,
                           .number = asked.number,
                           .parks = tcpstore::Parks(command),
                           .asks = tcpstore::HasAnswer(command),
                           .lists = std::holds_alternative<tcpstore::ListKeys>(command)};
  if (absl::Status status = Check(all, pending); !status.ok()) return status;
  const bool again = course == PassedConnections::Course::kAnswerAgain;
  (again ? all.replied : all.open).push_back(pending);
  ++pending_;
  calls_.emplace(call, id);
  if (again) {
    events_.again(id, connections_.AnswerOf(id, asked.number));
    return absl::OkStatus();
  }
  if (course == PassedConnections::Course::kWaitOn) {
    std::get<tcpstore::Barrier>(command).arrived = true;
  }
  events_.command(id, command);
  return absl::OkStatus();
}

void PassedTorchCommands::Handled(ConnectionId from, const tcpstore::Command& command,
                                  tcpstore::Effects& out) {
  if (connected_.empty()) return;
  if (PassedConnections::Owns(from)) HandledOwn(from, command, out);
  for (const tcpstore::Reply& reply : out.replies) {
    if (reply.to != from) ReplyLate(reply.to, reply.answer, out);
  }
}

void PassedTorchCommands::Replied(tcpstore::Effects& out) {
  for (const tcpstore::Reply& reply : out.replies) ReplyLate(reply.to, reply.answer, out);
}

template <class Chosen>
void PassedTorchCommands::Reply(ConnectionId id, const tcpstore::Answer& answer,
                                const Chosen& chosen, tcpstore::Effects& out) {
  const auto found = connected_.find(id);
  if (found == connected_.end()) return;
  Commands& all = found->second;
  const auto pending = std::find_if(all.open.begin(), all.open.end(), chosen);
  if (pending == all.open.end()) return;
  // Who was counted at a barrier, and is let go now.
  if (pending->parks && connections_.AwaitsAnswer(id, pending->number) &&
      !std::holds_alternative<tcpstore::WaitCancelled>(answer)) {
    connections_.Released(id, pending->number,
                          std::make_shared<const std::string>(wire::tcpstore::Encode(answer)), out);
  }
  all.replied.push_back(*pending);
  all.open.erase(pending);
}

void PassedTorchCommands::ReplyLate(ConnectionId id, const tcpstore::Answer& answer,
                                    tcpstore::Effects& out) {
  const bool names = std::holds_alternative<tcpstore::KeyNames>(answer);
  Reply(
      id, answer, [names](const Pending& pending) { return names ? pending.lists : pending.parks; },
      out);
}

void PassedTorchCommands::HandledOwn(ConnectionId id, const tcpstore::Command& command,
                                     tcpstore::Effects& out) {
  const auto to_it = [id](const auto& reply) { return reply.to == id; };
  if (std::holds_alternative<tcpstore::CancelWait>(command)) {
    // No command of an agent's, but the end of its waits: the answer to each that had none.
    out.replies.erase(std::remove_if(out.replies.begin(), out.replies.end(), to_it),
                      out.replies.end());
    for (size_t i = 0; i < out.given_up.size(); ++i) {
      out.replies.push_back({id, tcpstore::WaitCancelled{}});
      ReplyLate(id, tcpstore::WaitCancelled{}, out);
    }
    return;
  }
  const bool refused =
      std::any_of(out.refusals.begin(), out.refusals.end(),
                  [id](const tcpstore::Refusal& refusal) { return refusal.connection == id; });
  if (refused) {
    refused_.insert(id);
    return;
  }
  const uint64_t number = connected_.at(id).open.back().number;
  const auto own = std::find_if(out.replies.begin(), out.replies.end(), to_it);
  if (tcpstore::Changes(command)) {
    ValuePtr answer;
    if (tcpstore::HasAnswer(command) && own != out.replies.end()) {
      answer = std::make_shared<const std::string>(wire::tcpstore::Encode(own->answer));
    }
    connections_.Done(id, number, command, std::move(answer), out);
  }
  const auto is_own = [number](const Pending& pending) { return pending.number == number; };
  if (!tcpstore::HasAnswer(command)) {
    // It may have let go a wait of its own connection.
    if (own != out.replies.end()) ReplyLate(id, own->answer, out);
    out.replies.push_back({id, tcpstore::Encoded{}});
    Reply(id, tcpstore::Encoded{}, is_own, out);
  } else if (own != out.replies.end()) {
    Reply(id, own->answer, is_own, out);
  }
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
  if (found == connected_.end() || found->second.replied.empty()) return;
  const size_t bytes = tcpstore::ValueBytesOf(answer);
  if (bytes > PassedConnections::kBytesMax) {
    return Refuse(id, absl::StrCat("an answer of ", bytes, " bytes, over the limit ",
                                   "passed_bytes_max (", PassedConnections::kBytesMax, ")"));
  }
  const Pending pending = found->second.replied.front();
  found->second.replied.pop_front();
  --pending_;
  if (!pending.call) return;
  calls_.erase(*pending.call);
  events_.answer(*pending.call,
                 std::make_shared<const std::string>(wire::tcpstore::Encode(answer)));
}

void PassedTorchCommands::Disconnect(ConnectionId id, const std::string& why) {
  auto connected = connected_.extract(id);
  if (connected.empty()) return;
  Commands& all = connected.mapped();
  pending_ -= all.size();
  for (const std::deque<Pending>* pending : {&all.replied, &all.open}) {
    for (const Pending& of : *pending) {
      if (of.call) Fail(*of.call, Invalid(why));
    }
  }
}

void PassedTorchCommands::Refuse(ConnectionId id, const std::string& why) {
  refused_.insert(id);
  Disconnect(id, absl::StrCat("the connection is closed: ", why));
  tcpstore::Effects out;
  events_.left(id, out);
}

void PassedTorchCommands::End(ConnectionId id) {
  tcpstore::Effects out;
  connections_.Remove(id, out);
  refused_.erase(id);
  Disconnect(id, "the connection has ended");
  events_.left(id, out);
}

void PassedTorchCommands::Left(CallId call, bool away) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  const ConnectionId id = found->second;
  calls_.erase(found);
  Commands& all = connected_.at(id);
  for (Pending& pending : all.replied) {
    if (pending.call == call) return pending.call.reset();
  }
  const auto pending = std::find_if(all.open.begin(), all.open.end(),
                                    [call](const Pending& of) { return of.call == call; });
  LOCKSTEP_DCHECK(pending != all.open.end());
  pending->call.reset();
  if (pending->parks && !away) events_.cancelled(id);
}

bool PassedTorchCommands::EndOneOf(SessionId agent) {
  const std::optional<ConnectionId> id = connections_.FirstOf(agent);
  if (id) End(*id);
  return id.has_value();
}

void PassedTorchCommands::Close(const absl::Status& why) {
  connected_.clear();
  pending_ = 0;
  for (const auto& [call, id] : std::exchange(calls_, {})) events_.answer(call, why);
}

}  // namespace lockstep::server

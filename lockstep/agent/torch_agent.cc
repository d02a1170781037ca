#include "lockstep/agent/torch_agent.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/client/typed.h"
#include "lockstep/stock/tcpstore/passed_connections.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::agent {
namespace {

using client::CallType;
using client::Engine;
using tcpstore::ConnectionId;
using wire::native::TorchCommand;
using wire::native::TorchCommandReply;

TorchStream::Kind KindOf(const tcpstore::Command& command) {
  if (std::holds_alternative<tcpstore::CancelWait>(command)) return TorchStream::Kind::kCancel;
  if (tcpstore::Parks(command)) return TorchStream::Kind::kWait;
  return tcpstore::HasAnswer(command) ? TorchStream::Kind::kAsk : TorchStream::Kind::kTell;
}

// That it takes effect once is the store's business: none of these is kEffect.
client::Request ToRequest(const TorchCommand& message, CallType type) {
  return {.kind = wire::native::KindOf<TorchCommand>::kKind,
          .type = type,
          .payload = wire::native::Encode(message),
          .timeout_field = client::TimeoutField<TorchCommand>(),
          .leave_server_a_margin = false,
          .what = "a command of torch's store"};
}

}  // namespace

TorchAgent::TorchAgent(runtime::Loop& loop, std::shared_ptr<client::Engine> engine, Options options,
                       std::function<void(std::string)> complain)
    : loop_(loop),
      engine_(std::move(engine)),
      options_(std::move(options)),
      complaints_(std::move(complain)),
      listener_(loop, store_, {.connections = {.allowed = options_.allowed}},
                {.connected =
                     [this](ConnectionId id, const std::string& /*peer*/) {
                       clients_[id].attempt = options_.attempt;
                     },
                 .command = [this](ConnectionId id,
                                   const tcpstore::Command& command) { Came(id, command); },
                 .left = [this](ConnectionId id) { Left(id); },
                 .complain = [this](std::string text) { complaints_.Say(std::move(text)); }}) {}

TorchAgent::~TorchAgent() {
  for (const auto& [id, client] : clients_) {
    if (client.commands.was_heard()) TellGone(id, client);
  }
}

void TorchAgent::Came(ConnectionId id, const tcpstore::Command& command) {
  TorchStream& commands = clients_.at(id).commands;
  if (clients_.size() > kClientsMax && !commands.was_heard()) {
    tcpstore::Effects told;
    told.refusals.push_back(
        {id, absl::StrCat("the agent has ", kClientsMax,
                          " clients (passed_connections_max), with those that have left and "
                          "whose commands wait for the server")});
    return listener_.CarryOut(told);
  }
  const absl::string_view bytes = listener_.bytes();
  commands.Push(KindOf(command), std::string(bytes.data(), bytes.size()));
  GoOn(id);
}

// What is told may end the connection, and the client with it.
void TorchAgent::GoOn(ConnectionId id) {
  for (auto found = clients_.find(id); found != clients_.end(); found = clients_.find(id)) {
    Client& client = found->second;
    std::optional<TorchStream::Command> next = client.commands.TakeNext();
    if (!next) {
      client.commands.takes_more() ? listener_.Release(id) : listener_.HoldUp(id);
      return ForgetIfGone(id);
    }
    if (next->kind != TorchStream::Kind::kCancel) {
      PassOn(id, client, *std::move(next));
      continue;
    }
    if (next->number != 0) client.wait.Cancel();
    tcpstore::Effects told;
    told.replies.push_back({id, tcpstore::WaitCancelled{}});
    listener_.CarryOut(told);
  }
}

void TorchAgent::PassOn(ConnectionId id, Client& client, TorchStream::Command command) {
  const bool waits = command.kind == TorchStream::Kind::kWait;
  const TorchCommand message = {.attempt = client.attempt,
                                .connection = NumberOf(id),
                                .number = command.number,
                                .after = command.after,
                                .command = {.view = command.bytes}};
  Pending pending = engine_->CallDirect(
      ToRequest(message, waits ? CallType::kWatch : CallType::kRead),
      [this, id, number = command.number, alive = std::weak_ptr(alive_),
       loop = &loop_](Engine::Answer&& answer) {
        loop->Post([this, id, number, alive, answer = std::move(answer)]() mutable {
          if (!alive.expired()) Answered(id, number, std::move(answer));
        });
      });
  if (!waits) return;
  client.wait = std::move(pending);
  if (client.left) client.wait.Cancel();
}

void TorchAgent::Answered(ConnectionId id, uint64_t number, Engine::Answer answer) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || !found->second.commands.Answered(number)) return;
  Client& client = found->second;
  absl::StatusOr<TorchCommandReply> reply =
      answer.ok() ? wire::native::Decode<TorchCommandReply>(*std::move(answer))
                  : absl::StatusOr<TorchCommandReply>(answer.status());
  tcpstore::Effects told;
  if (reply.ok()) {
    client.attempt = reply->attempt;
    if (reply->answer.data != nullptr) {
      told.replies.push_back({id, tcpstore::Encoded{std::move(reply->answer.data)}});
    }
  } else {
    // A wait that ends because its client has left says nothing of what follows.
    if (!absl::IsCancelled(reply.status())) client.commands.DropQueued();
    if (!client.left) told.refusals.push_back({id, std::string(reply.status().message())});
  }
  listener_.CarryOut(told);
  GoOn(id);
}

void TorchAgent::Left(ConnectionId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  found->second.left = true;
  if (found->second.commands.wait() != 0) found->second.wait.Cancel();
  ForgetIfGone(id);
}

void TorchAgent::ForgetIfGone(ConnectionId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || !found->second.left || !found->second.commands.idle()) return;
  if (found->second.commands.was_heard()) TellGone(id, found->second);
  clients_.erase(found);
}

void TorchAgent::TellGone(ConnectionId id, const Client& client) {
  engine_->CallAsync(
      ToRequest({.attempt = client.attempt, .connection = NumberOf(id)}, CallType::kRead),
      [](Engine::Answer&& /*answer*/) {});
}

}  // namespace lockstep::agent

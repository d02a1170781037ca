#include "lockstep/stock/tcpstore/listener/torch_store_listener.h"

#include <unistd.h>

#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/dial.h"

namespace lockstep::net {
namespace {

// A request this long has to find room first.
constexpr size_t kLongRequestBytes = size_t{64} << 10;
// Keys of one command from here on are given back once it is done.
constexpr size_t kKeptKeysMax = 1024;

using Stage = TorchStoreConnection::Stage;

size_t KeysOf(const tcpstore::Command& command) {
  if (const auto* get = std::get_if<tcpstore::MultiGet>(&command)) return get->keys.size();
  if (const auto* set = std::get_if<tcpstore::MultiSet>(&command)) return set->pairs.size();
  if (const auto* wait = std::get_if<tcpstore::Wait>(&command)) return wait->keys.size();
  if (const auto* check = std::get_if<tcpstore::Check>(&command)) return check->keys.size();
  return 0;
}

}  // namespace

TorchStoreListener::TorchStoreListener(runtime::Loop& loop, const tcpstore::StoreOptions& store,
                                       TorchStoreListenerOptions options, Events events)
    : loop_(loop),
      options_(std::move(options)),
      events_(std::move(events)),
      acceptor_(
          loop, options_.connections, [this](int fd) { TakeSocket(fd); },
          [this](std::string text) { events_.complain(std::move(text)); }),
      connections_(store),
      greetings_(loop, options_.greeting_timeout,
                 [this](const ConnectionPtr& late) {
                   Refuse(late, absl::StrCat("it did not say VALIDATE within ",
                                             absl::FormatDuration(options_.greeting_timeout)));
                 }),
      progress_(loop, options_.progress_timeout, connections_,
                [this](const ConnectionPtr& stalled, const std::string& why) {
                  LogClosed(
                      *stalled,
                      absl::StrCat(why, " for ", absl::FormatDuration(options_.progress_timeout)));
                  Drop(stalled);
                }),
      unsent_([this](const ConnectionPtr& connection) { Write(connection); }),
      busy_poll_(loop, options_.busy_poll) {}

TorchStoreListener::~TorchStoreListener() { Close(); }

absl::Status TorchStoreListener::Listen(const runtime::Address& at) { return acceptor_.Listen(at); }

void TorchStoreListener::Close() {
  acceptor_.Stop();
  greetings_.Stop();
  progress_.Stop();
  connections_.CloseAll();
  unsent_.Clear();
  gate_.Clear();
}

void TorchStoreListener::TakeSocket(int fd) {
  asio::ip::tcp::socket socket(loop_.io());
  asio::error_code error;
  socket.assign(acceptor_.address().protocol(), fd, error);
  if (error) {
    ::close(fd);
    return events_.complain(absl::StrCat("a connection was lost: ", error.message()));
  }
  socket.non_blocking(true, error);
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return;  // it has gone already
  const ConnectionPtr connection = connections_.Add(std::move(socket), runtime::ToString(endpoint));
  greetings_.Add(connection);
  progress_.Start();
  Read(connection);
}

void TorchStoreListener::Recount(TorchStoreConnection& connection) {
  if (connections_.Recount(connection) && events_.counted) events_.counted();
}

void TorchStoreListener::Read(const ConnectionPtr& connection) {
  connection->Read(
      [this](const ConnectionPtr& from, const asio::error_code& error) { ReadDone(from, error); });
  Recount(*connection);
}

void TorchStoreListener::ReadDone(const ConnectionPtr& connection, const asio::error_code& error) {
  if (error) return Drop(connection);
  busy_poll_.Came();
  const size_t pending = connection->pending();
  if (pending > kLongRequestBytes && events_.has_room) {
    // The buffer doubles when it is full.
    if (const std::string limit = events_.has_room(2 * pending); !limit.empty()) {
      Refuse(connection,
             absl::StrCat("a request of more than ", pending, " bytes finds no room: ", limit));
      return unsent_.Flush();
    }
  }
  TakeCommands(connection);
}

void TorchStoreListener::TakeCommands(const ConnectionPtr& connection) {
  unsent_.BeginStep();
  bool whole = true;
  runtime::TurnBudget budget(kCommandsPerTurn);
  while (connection->takes_commands() && !gate_.shut()) {
    const absl::StatusOr<bool> next = connection->Next(taken_.command, taken_.bytes);
    if (!next.ok()) {
      Refuse(connection, {next.status().message().data(), next.status().message().size()});
      break;
    }
    if (connection->EndsGreeting()) events_.connected(connection->id(), connection->peer());
    whole = *next;
    if (!whole) break;
    events_.command(connection->id(), taken_.command);
    if (budget.Spent()) break;
  }
  if (KeysOf(taken_.command) > kKeptKeysMax) taken_.command = tcpstore::CountKeys{};
  unsent_.EndStep();
  Recount(*connection);
  GoOn(connection, whole);
}

void TorchStoreListener::GoOn(const ConnectionPtr& connection, bool whole) {
  if (connection->stage() >= Stage::kDeaf || !connection->idle()) return;
  if (!whole) return Read(connection);
  if (gate_.shut()) return gate_.HoldUp(connection);
  // Its answers filled the outbox, or its turn is over. What could leave at once has left; else
  // `RoomCame` goes on.
  if (connection->awaits_room()) return;
  connection->AwaitTurn(loop_, [this](const ConnectionPtr& next) { TakeCommands(next); });
}

void TorchStoreListener::Resume() {
  for (const ConnectionPtr& connection : gate_.Open()) {
    if (connection->stage() != Stage::kClosed) TakeCommands(connection);
  }
}

void TorchStoreListener::HoldUp(tcpstore::ConnectionId id) {
  const ConnectionPtr connection = connections_.Find(id);
  if (connection != nullptr && connection->idle()) connection->HoldUp();
}

void TorchStoreListener::Release(tcpstore::ConnectionId id) {
  const ConnectionPtr connection = connections_.Find(id);
  if (connection != nullptr && connection->GoOn()) TakeCommands(connection);
}

void TorchStoreListener::TakeNoMoreOf(tcpstore::ConnectionId id) {
  if (const ConnectionPtr connection = connections_.Find(id)) connection->TakeNoMore();
}

void TorchStoreListener::CarryOut(const tcpstore::Effects& effects) {
  for (const tcpstore::Reply& reply : effects.replies) {
    const ConnectionPtr connection = connections_.Find(reply.to);
    if (connection == nullptr || connection->stage() == Stage::kRefused) continue;
    const bool goes_on = connection->Push(reply.answer);
    unsent_.Add(connection);
    if (goes_on) GoOn(connection, /*whole=*/true);
  }
  // After the answers: those that a refused connection got before leave first.
  for (const tcpstore::Refusal& refusal : effects.refusals) {
    if (const ConnectionPtr connection = connections_.Find(refusal.connection)) {
      Refuse(connection, refusal.why);
    }
  }
  unsent_.Flush();
}

void TorchStoreListener::Write(const ConnectionPtr& connection) {
  const TorchStoreConnection::Sent sent = connection->Send(pieces_);
  if (sent == TorchStoreConnection::Sent::kBroken) return Drop(connection);
  Recount(*connection);
  if (sent == TorchStoreConnection::Sent::kFull) {
    return connection->AwaitRoom(
        [this](const ConnectionPtr& to, const asio::error_code& error) { RoomCame(to, error); });
  }
  if (connection->stage() == Stage::kRefused) Drop(connection);
}

void TorchStoreListener::RoomCame(const ConnectionPtr& connection, const asio::error_code& error) {
  if (error) return Drop(connection);
  unsent_.BeginStep();  // what a drop causes goes out with what else waits
  Write(connection);
  unsent_.EndStep();
  if (connection->stage() < Stage::kDeaf && !connection->awaits_room() && connection->idle()) {
    TakeCommands(connection);
  }
}

void TorchStoreListener::Refuse(const ConnectionPtr& connection, absl::string_view why) {
  if (!connection->Refuse()) return;
  LogClosed(*connection, why);
  if (connection->has_unsent()) return unsent_.Add(connection);
  Drop(connection);
}

void TorchStoreListener::Drop(const ConnectionPtr& connection) {
  if (connections_.Close(*connection)) events_.left(connection->id());
}

void TorchStoreListener::LogClosed(const TorchStoreConnection& connection, absl::string_view why) {
  events_.complain(absl::StrCat("connection from ", connection.peer(), " closed: ", why));
}

}  // namespace lockstep::net

#include "lockstep/stock/tcpstore/door/torch_store_door.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "asio/buffer.hpp"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/stock/tcpstore/wire/command_reader.h"
#include "lockstep/stock/tcpstore/wire/outbox.h"

namespace lockstep::net {
namespace {

// With so much unread by it, a connection is not asked for more.
constexpr size_t kUnreadBytesMax = size_t{256} << 10;
// Pieces of one system call.
constexpr size_t kPiecesMax = 64;
// The object, its socket, and its place in tables.
constexpr size_t kConnectionBytes = size_t{2} << 10;
// A request this long has to find room first.
constexpr size_t kLongRequestBytes = size_t{64} << 10;
// What an unfinished request has to come on by between two looks.
constexpr size_t kProgressBytesMin = size_t{64} << 10;
// Keys of one command from here on are given back once it is done.
constexpr size_t kKeptKeysMax = 1024;

size_t KeysOf(const tcpstore::Command& command) {
  if (const auto* get = std::get_if<tcpstore::MultiGet>(&command)) return get->keys.size();
  if (const auto* set = std::get_if<tcpstore::MultiSet>(&command)) return set->pairs.size();
  if (const auto* wait = std::get_if<tcpstore::Wait>(&command)) return wait->keys.size();
  if (const auto* check = std::get_if<tcpstore::Check>(&command)) return check->keys.size();
  return 0;
}

}  // namespace

// One client's socket, and what is on its way through it.
class TorchStoreDoor::Connection {
 public:
  Connection(tcpstore::ConnectionId its_id, asio::ip::tcp::socket its_socket, std::string its_peer,
             const tcpstore::StoreOptions& options)
      : id(its_id), socket(std::move(its_socket)), peer(std::move(its_peer)), reader(options) {}

  const tcpstore::ConnectionId id;
  asio::ip::tcp::socket socket;
  const std::string peer;
  wire::tcpstore::CommandReader reader;
  wire::tcpstore::Outbox outbox;
  bool connected = false;  // the owner was told of it
  bool unsent = false;     // it is among those with something to be sent
  bool awaits_room = false;
  bool reading = false;
  bool goes_on = false;  // its next turn is posted
  bool held_up = false;  // it is among those who wait for `Resume`
  bool deaf = false;     // its commands are not taken any more
  bool refused = false;  // closed once its last answers are out
  bool closed = false;
  size_t counted = 0;     // of `memory_`
  uint64_t commands = 0;  // that were taken

  // As it was at the last look, and for how many looks it has stood still.
  struct {
    uint64_t commands = 0;
    size_t pending = 0;
    uint64_t sent = 0;
    int still = 0;
  } looked;
};

TorchStoreDoor::TorchStoreDoor(runtime::Loop& loop, const tcpstore::StoreOptions& store,
                               TorchStoreDoorOptions options, Events events)
    : loop_(loop),
      store_options_(store),
      options_(std::move(options)),
      events_(std::move(events)),
      acceptor_(
          loop, options_.connections, [this](int fd) { TakeSocket(fd); },
          [this](std::string text) { events_.complain(std::move(text)); }),
      greeting_timer_(loop),
      progress_timer_(loop) {}

TorchStoreDoor::~TorchStoreDoor() { Close(); }

absl::Status TorchStoreDoor::Listen(const runtime::Address& at) { return acceptor_.Listen(at); }

void TorchStoreDoor::Close() {
  alive_.reset();
  acceptor_.Stop();
  greeting_timer_.Cancel();
  progress_timer_.Cancel();
  for (auto& [id, connection] : connections_) {
    connection->closed = true;
    asio::error_code ignored;
    connection->socket.close(ignored);
  }
  connections_.clear();
  memory_ = 0;
  unsent_.clear();
  held_up_.clear();
}

void TorchStoreDoor::TakeSocket(int fd) {
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
  const tcpstore::ConnectionId id(next_id_++);
  auto connection = std::make_shared<Connection>(id, std::move(socket), runtime::ToString(endpoint),
                                                 store_options_);
  connections_.emplace(id, connection);
  greetings_.emplace_back(runtime::MonotonicNow(), connection);
  if (greetings_.size() == 1) CheckGreetings();
  if (!std::exchange(watching_, true)) CheckProgress();
  Read(connection);
}

void TorchStoreDoor::Count(Connection& connection) {
  if (connection.closed) return;
  const size_t holds = kConnectionBytes + connection.reader.memory() + connection.outbox.memory();
  if (holds == connection.counted) return;
  memory_ += holds - std::exchange(connection.counted, holds);
  if (events_.counted) events_.counted();
}

// Twice in `progress_timeout`, so that nobody stands still for longer than that and half of it.
void TorchStoreDoor::CheckProgress() {
  std::vector<std::pair<ConnectionPtr, std::string>> still;
  for (const auto& [id, connection] : connections_) {
    std::string why = StandsStill(*connection);
    if (!why.empty()) still.emplace_back(connection, std::move(why));
  }
  for (const auto& [connection, why] : still) {
    events_.complain(absl::StrCat("connection from ", connection->peer, " closed: ", why, " for ",
                                  absl::FormatDuration(options_.progress_timeout)));
    Drop(connection);
  }
  watching_ = !connections_.empty();
  if (!watching_) return;
  progress_timer_.Arm(runtime::MonotonicNow() + options_.progress_timeout / 2,
                      [this] { CheckProgress(); });
}

std::string TorchStoreDoor::StandsStill(Connection& connection) {
  auto& looked = connection.looked;
  const size_t pending = connection.reader.pending();
  const bool writes = !connection.outbox.empty();
  // What we hold up ourselves does not count.
  const bool reads = pending > 0 && connection.reading;
  const bool written = connection.outbox.sent() != looked.sent;
  const bool came =
      connection.commands != looked.commands || pending >= looked.pending + kProgressBytesMin;
  const bool stands = (writes && !written) || (!writes && reads && !came);
  looked.still = stands ? looked.still + 1 : 0;
  looked.commands = connection.commands;
  looked.sent = connection.outbox.sent();
  looked.pending = pending;
  // The first look finds what had begun before; two more are the whole time.
  if (looked.still < 3) return "";
  return writes ? absl::StrCat("it has not read any of ", connection.outbox.bytes(), " bytes")
                : absl::StrCat("a request of which ", pending, " bytes arrived is not continued");
}

void TorchStoreDoor::CheckGreetings() {
  const Time now = runtime::MonotonicNow();
  while (!greetings_.empty()) {
    const ConnectionPtr connection = greetings_.front().second.lock();
    const bool greets = connection && !connection->closed && !connection->connected;
    const Time due = greetings_.front().first + options_.greeting_timeout;
    if (greets && due > now) {
      return greeting_timer_.Arm(due, [this] { CheckGreetings(); });
    }
    greetings_.pop_front();
    if (greets) {
      Refuse(connection, absl::StrCat("it did not say VALIDATE within ",
                                      absl::FormatDuration(options_.greeting_timeout)));
    }
  }
}

void TorchStoreDoor::Read(const ConnectionPtr& connection) {
  const absl::Span<char> room = connection->reader.Prepare();
  Count(*connection);
  connection->reading = true;
  connection->socket.async_read_some(asio::buffer(room.data(), room.size()),
                                     [this, alive = std::weak_ptr(alive_), connection](
                                         const asio::error_code& error, size_t bytes) {
                                       if (!alive.expired()) ReadDone(connection, error, bytes);
                                     });
}

void TorchStoreDoor::ReadDone(const ConnectionPtr& connection, const asio::error_code& error,
                              size_t bytes) {
  connection->reading = false;
  if (connection->closed) return;
  if (error) return Drop(connection);
  StayAwake();
  connection->reader.Commit(bytes);
  const size_t pending = connection->reader.pending();
  if (pending > kLongRequestBytes && events_.has_room) {
    // The buffer doubles when it is full.
    if (const std::string limit = events_.has_room(2 * pending); !limit.empty()) {
      Refuse(connection,
             absl::StrCat("a request of more than ", pending, " bytes finds no room: ", limit));
      return Flush();
    }
  }
  TakeCommands(connection);
}

void TorchStoreDoor::StayAwake() {
  const Time now = runtime::MonotonicNow();
  const Time before = std::exchange(last_read_, now);
  if (now - before < options_.busy_poll) loop_.StayAwakeUntil(now + options_.busy_poll);
}

void TorchStoreDoor::TakeCommands(const ConnectionPtr& connection) {
  taking_ = true;
  bool whole = true;
  runtime::TurnBudget budget(kCommandsPerTurn);
  while (!connection->closed && !connection->refused && !connection->deaf && !paused_ &&
         connection->outbox.bytes() <= kUnreadBytesMax) {
    const absl::StatusOr<bool> next = connection->reader.Next(command_);
    if (!next.ok()) {
      Refuse(connection, {next.status().message().data(), next.status().message().size()});
      break;
    }
    if (!connection->connected && connection->reader.validated()) {
      connection->connected = true;
      events_.connected(connection->id, connection->peer);
    }
    whole = *next;
    if (!whole) break;
    ++connection->commands;
    events_.command(connection->id, command_);
    if (budget.Spent()) break;
  }
  taking_ = false;
  if (KeysOf(command_) > kKeptKeysMax) command_ = tcpstore::CountKeys{};
  Flush();
  Count(*connection);
  if (connection->closed || connection->refused || connection->deaf) return;
  if (connection->reading || connection->held_up || connection->goes_on) return;
  if (!whole) return Read(connection);
  if (paused_) {
    connection->held_up = true;
    held_up_.push_back(connection);
    return;
  }
  // Its answers filled the outbox, or its turn is over. What could leave at once has left; else
  // `AwaitRoom` comes back.
  if (connection->awaits_room) return;
  connection->goes_on = true;
  loop_.Post([this, alive = std::weak_ptr(alive_), connection] {
    if (alive.expired()) return;
    connection->goes_on = false;
    if (!connection->closed) TakeCommands(connection);
  });
}

void TorchStoreDoor::Resume() {
  paused_ = false;
  for (const ConnectionPtr& connection : std::exchange(held_up_, {})) {
    connection->held_up = false;
    if (!connection->closed) TakeCommands(connection);
  }
}

void TorchStoreDoor::TakeNoMoreOf(tcpstore::ConnectionId connection) {
  const auto found = connections_.find(connection);
  if (found != connections_.end()) found->second->deaf = true;
}

void TorchStoreDoor::CarryOut(const tcpstore::Effects& effects) {
  for (const tcpstore::Reply& reply : effects.replies) {
    const auto found = connections_.find(reply.to);
    if (found == connections_.end()) continue;
    const ConnectionPtr& connection = found->second;
    if (connection->refused) continue;
    connection->outbox.Push(reply.answer);
    if (std::exchange(connection->unsent, true)) continue;
    unsent_.push_back(connection);
  }
  for (const tcpstore::Refusal& refusal : effects.refusals) {
    const auto found = connections_.find(refusal.connection);
    if (found == connections_.end()) continue;
    Refuse(ConnectionPtr(found->second), refusal.why);
  }
  if (!taking_) Flush();
}

void TorchStoreDoor::Flush() {
  // Who is dropped meanwhile may cause answers to others.
  for (size_t i = 0; i < unsent_.size(); ++i) {
    const ConnectionPtr connection = unsent_[i];
    connection->unsent = false;
    if (!connection->closed && !connection->awaits_room) Write(connection);
  }
  unsent_.clear();
}

void TorchStoreDoor::Write(const ConnectionPtr& connection) {
  asio::error_code error;
  while (!connection->outbox.empty()) {
    connection->outbox.Peek(kPiecesMax, pieces_);
    std::array<asio::const_buffer, kPiecesMax> buffers;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      buffers[i] = asio::const_buffer(pieces_[i].data(), pieces_[i].size());
    }
    const size_t sent =
        connection->socket.write_some(absl::MakeConstSpan(buffers.data(), pieces_.size()), error);
    if (error == asio::error::would_block && !connection->refused) {
      Count(*connection);
      return AwaitRoom(connection);
    }
    if (error) return Drop(connection);
    connection->outbox.Sent(sent);
  }
  Count(*connection);
  if (connection->refused) Drop(connection);
}

void TorchStoreDoor::AwaitRoom(const ConnectionPtr& connection) {
  connection->awaits_room = true;
  connection->socket.async_wait(
      asio::ip::tcp::socket::wait_write,
      [this, alive = std::weak_ptr(alive_), connection](const asio::error_code& error) {
        if (alive.expired() || connection->closed) return;
        connection->awaits_room = false;
        if (error) return Drop(connection);
        taking_ = true;  // what a drop causes goes out with `Flush`
        Write(connection);
        taking_ = false;
        Flush();
        const bool goes_on = !connection->closed && !connection->refused &&
                             !connection->awaits_room && !connection->reading;
        if (goes_on) TakeCommands(connection);
      });
}

void TorchStoreDoor::Refuse(const ConnectionPtr& connection, absl::string_view why) {
  if (connection->closed || std::exchange(connection->refused, true)) return;
  events_.complain(absl::StrCat("connection from ", connection->peer, " closed: ", why));
  if (connection->outbox.empty()) return Drop(connection);
  // Its answers leave first, as far as the kernel takes them.
  if (!connection->awaits_room && !connection->unsent) {
    connection->unsent = true;
    unsent_.push_back(connection);
  }
}

void TorchStoreDoor::Drop(const ConnectionPtr& connection) {
  if (std::exchange(connection->closed, true)) return;
  asio::error_code ignored;
  connection->socket.close(ignored);
  connections_.erase(connection->id);
  memory_ -= connection->counted;
  events_.left(connection->id);
}

}  // namespace lockstep::net

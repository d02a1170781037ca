// One connection of a client of torch's TCPStore: its socket, and what is on its way through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "asio/error_code.hpp"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/listener/progress_check.h"
#include "lockstep/stock/tcpstore/options.h"
#include "lockstep/stock/tcpstore/wire/command_reader.h"
#include "lockstep/stock/tcpstore/wire/outbox.h"

namespace lockstep::net {

// Reads commands and sends answers when its owner says so; decides nothing about other connections.
//
// It waits for one thing at a time on the way in (bytes, its next turn, or leave to go on), and for
// room in the socket on the way out. Its life only moves forward: it greets, is served, is served
// no more commands, is refused (its last answers leave), is closed. Once it is closed it calls
// nothing back, so what its callbacks use may go as soon as all connections are closed.
//
// Threads: loop-confined. Bounds: StoreOptions for a request; the owner stops taking commands while
// `takes_commands` is false.
class TorchStoreConnection : public std::enable_shared_from_this<TorchStoreConnection> {
 public:
  using Ptr = std::shared_ptr<TorchStoreConnection>;
  // Gets the connection, so that what it captures needs no memory of its own.
  using Done = std::function<void(const Ptr&, const asio::error_code&)>;
  using Go = std::function<void(const Ptr&)>;

  // Where it is in its life, in this order.
  enum class Stage {
    kGreeting,  // it has not said VALIDATE
    kServed,
    kDeaf,     // its commands are not taken any more
    kRefused,  // it is only sent what waits
    kClosed,
  };

  // While so many bytes of answers wait to be read, no more commands are taken.
  static constexpr size_t kUnreadBytesMax = size_t{256} << 10;

  // `options` outlives it.
  TorchStoreConnection(tcpstore::ConnectionId id, asio::ip::tcp::socket socket, std::string peer,
                       const tcpstore::StoreOptions& options)
      : id_(id), socket_(std::move(socket)), peer_(std::move(peer)), reader_(options) {}

  tcpstore::ConnectionId id() const { return id_; }
  const std::string& peer() const { return peer_; }  // HOST:PORT

  // --- Its life ---

  Stage stage() const { return stage_; }
  // True: it has just said VALIDATE, which is told once.
  bool EndsGreeting();
  // Its commands are not taken any more. Does nothing once it is refused or closed.
  void TakeNoMore();
  // From now on it is only sent what waits. False: it was refused or closed before.
  bool Refuse();
  // At once. False: it was closed before.
  bool Close();

  // --- Commands ---

  // Whether commands are taken from it, and their answers have room.
  bool takes_commands() const {
    return stage_ < Stage::kDeaf && idle() && outbox_.bytes() <= kUnreadBytesMax;
  }
  // Nothing on the way in is waited for: neither bytes, nor a turn, nor leave to go on, nor the
  // answer to a command that takes many turns.
  bool idle() const { return intake_ == Intake::kIdle; }

  // Waits for more bytes and calls `done` when they are in. Only when `idle`.
  void Read(Done done);
  // Calls `go` in a turn of its own. Only when `idle`.
  void AwaitTurn(runtime::Loop& loop, Go go);
  // Waits for `GoOn`. Only when `idle`.
  void HoldUp();
  // After `HoldUp`: it is idle again, and the caller reads on. False: it was not held up.
  bool GoOn();

  // Reads the next command; `bytes` is that as it came. False: it is not whole. An error says why
  // the connection is to be refused; see CommandReader::Next. After ListKeys it is not idle until
  // that is answered.
  absl::StatusOr<bool> Next(tcpstore::Command& command, absl::string_view& bytes);
  size_t pending() const { return reader_.pending(); }  // bytes of a request that is not whole

  // --- Answers ---

  // Behind what waits; `QueueToSend` says whether somebody has to send it. True: it is idle again,
  // since its list of keys is among it (or what an agent's server made of it), and the caller goes
  // on.
  bool Push(const tcpstore::Answer& answer);
  bool has_unsent() const { return !outbox_.empty(); }

  // True: the caller is to `Send` soon, which has not been said since the last time. False: someone
  // else does, or the socket has no room yet.
  bool QueueToSend();
  // Whether `QueueToSend` is still to be honoured; ends it.
  bool LeaveQueue();

  // What `Send` came to: all is out; the socket is full, or the turn is over; the other end is
  // gone, or is refused and does not read.
  enum class Sent { kAll, kFull, kBroken };
  // Sends what fits. `pieces`: memory for it to use.
  Sent Send(std::vector<absl::string_view>& pieces);
  // Calls `done` when the socket has room for more.
  void AwaitRoom(Done done);
  // The socket is full: `done` of `AwaitRoom` follows.
  bool awaits_room() const { return output_ == Output::kAwaitsRoom; }

  // --- For those who watch over all ---

  // Why it is to be closed, as it makes no progress; empty: it does. At regular intervals.
  std::string CheckProgress();
  // What it holds, as of the last `Recount`.
  size_t counted() const { return counted_; }
  // Counts anew what it holds; false: it is the same as before.
  bool Recount();

 private:
  enum class Intake { kIdle, kReads, kAwaitsTurn, kHeldUp, kAwaitsNames };
  enum class Output { kIdle, kQueued, kAwaitsRoom };

  const tcpstore::ConnectionId id_;
  asio::ip::tcp::socket socket_;
  const std::string peer_;
  wire::tcpstore::CommandReader reader_;
  wire::tcpstore::Outbox outbox_;
  Stage stage_ = Stage::kGreeting;
  Intake intake_ = Intake::kIdle;
  Output output_ = Output::kIdle;
  uint64_t commands_ = 0;  // that were taken
  ProgressCheck progress_;
  size_t counted_ = 0;
};

}  // namespace lockstep::net

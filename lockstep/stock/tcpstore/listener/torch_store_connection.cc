#include "lockstep/stock/tcpstore/listener/torch_store_connection.h"

#include <array>
#include <utility>
#include <variant>

#include "absl/types/span.h"
#include "asio/buffer.hpp"
#include "lockstep/base/check.h"

namespace lockstep::net {
namespace {

// Pieces of one system call.
constexpr size_t kPiecesMax = 64;
// The object, its socket, and its place in tables.
constexpr size_t kConnectionBytes = size_t{2} << 10;

}  // namespace

bool TorchStoreConnection::EndsGreeting() {
  if (stage_ != Stage::kGreeting || !reader_.validated()) return false;
  stage_ = Stage::kServed;
  return true;
}

void TorchStoreConnection::TakeNoMore() {
  if (stage_ < Stage::kDeaf) stage_ = Stage::kDeaf;
}

bool TorchStoreConnection::Refuse() {
  if (stage_ >= Stage::kRefused) return false;
  stage_ = Stage::kRefused;
  return true;
}

bool TorchStoreConnection::Close() {
  if (stage_ == Stage::kClosed) return false;
  stage_ = Stage::kClosed;
  asio::error_code ignored;
  socket_.close(ignored);
  return true;
}

void TorchStoreConnection::Read(Done done) {
  LOCKSTEP_DCHECK(idle());
  intake_ = Intake::kReads;
  const absl::Span<char> room = reader_.Prepare();
  socket_.async_read_some(asio::buffer(room.data(), room.size()),
                          [self = shared_from_this(), done = std::move(done)](
                              const asio::error_code& error, size_t bytes) {
                            self->intake_ = Intake::kIdle;
                            if (self->stage_ == Stage::kClosed) return;
                            if (!error) self->reader_.Commit(bytes);
                            done(self, error);
                          });
}

void TorchStoreConnection::AwaitTurn(runtime::Loop& loop, Go go) {
  LOCKSTEP_DCHECK(idle());
  intake_ = Intake::kAwaitsTurn;
  loop.Post([self = shared_from_this(), go = std::move(go)] {
    self->intake_ = Intake::kIdle;
    if (self->stage_ != Stage::kClosed) go(self);
  });
}

void TorchStoreConnection::HoldUp() {
  LOCKSTEP_DCHECK(idle());
  intake_ = Intake::kHeldUp;
}

bool TorchStoreConnection::GoOn() {
  if (intake_ != Intake::kHeldUp) return false;
  intake_ = Intake::kIdle;
  return true;
}

absl::StatusOr<bool> TorchStoreConnection::Next(tcpstore::Command& command,
                                                absl::string_view& bytes) {
  absl::StatusOr<bool> whole = reader_.Next(command);
  if (!whole.ok() || !*whole) return whole;
  bytes = reader_.bytes();
  ++commands_;
  // Its answers are sent in order, and this one may take the store many turns.
  if (std::holds_alternative<tcpstore::ListKeys>(command)) intake_ = Intake::kAwaitsNames;
  return whole;
}

bool TorchStoreConnection::Push(const tcpstore::Answer& answer) {
  outbox_.Push(answer);
  if (intake_ != Intake::kAwaitsNames) return false;
  if (!std::holds_alternative<tcpstore::KeyNames>(answer) &&
      !std::holds_alternative<tcpstore::Encoded>(answer)) {
    return false;
  }
  intake_ = Intake::kIdle;
  return true;
}

bool TorchStoreConnection::QueueToSend() {
  if (output_ != Output::kIdle) return false;
  output_ = Output::kQueued;
  return true;
}

bool TorchStoreConnection::LeaveQueue() {
  LOCKSTEP_DCHECK(output_ == Output::kQueued);
  output_ = Output::kIdle;
  return stage_ != Stage::kClosed;
}

TorchStoreConnection::Sent TorchStoreConnection::Send(std::vector<absl::string_view>& pieces) {
  LOCKSTEP_DCHECK(stage_ != Stage::kClosed);
  asio::error_code error;
  runtime::TurnBudget budget;
  while (!outbox_.empty()) {
    outbox_.Peek(kPiecesMax, pieces);
    std::array<asio::const_buffer, kPiecesMax> buffers;
    for (size_t i = 0; i < pieces.size(); ++i) {
      buffers[i] = asio::const_buffer(pieces[i].data(), pieces[i].size());
    }
    const size_t sent =
        socket_.write_some(absl::MakeConstSpan(buffers.data(), pieces.size()), error);
    if (error == asio::error::would_block && stage_ != Stage::kRefused) return Sent::kFull;
    if (error) return Sent::kBroken;
    outbox_.Sent(sent);
    // A reader that is as fast as this must not keep the loop with a long answer.
    if (stage_ != Stage::kRefused && !outbox_.empty() && budget.Spent()) return Sent::kFull;
  }
  return Sent::kAll;
}

void TorchStoreConnection::AwaitRoom(Done done) {
  LOCKSTEP_DCHECK(output_ == Output::kIdle);
  output_ = Output::kAwaitsRoom;
  socket_.async_wait(
      asio::ip::tcp::socket::wait_write,
      [self = shared_from_this(), done = std::move(done)](const asio::error_code& error) {
        if (self->stage_ == Stage::kClosed) return;
        self->output_ = Output::kIdle;
        done(self, error);
      });
}

std::string TorchStoreConnection::CheckProgress() {
  return progress_.Look({.commands = commands_,
                         .pending = reader_.pending(),
                         .reads = intake_ == Intake::kReads,
                         .unsent = outbox_.bytes(),
                         .sent = outbox_.sent()});
}

bool TorchStoreConnection::Recount() {
  const size_t holds = kConnectionBytes + reader_.memory() + outbox_.memory();
  return std::exchange(counted_, holds) != holds;
}

}  // namespace lockstep::net

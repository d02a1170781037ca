#include "lockstep/rendezvous/transport/bulk_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
#include "lockstep/rendezvous/transport/door.h"
#include "lockstep/rendezvous/transport/link_stream.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::transport {
namespace {

using asio::ip::tcp;
using wire::native::PeerWelcome;

// At a time, so that others get their turn.
constexpr int kReadsPerTurn = 16;

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

BulkConnection::BulkConnection(BulkLoop& loop, Options options, Events events)
    : loop_(loop),
      options_(std::move(options)),
      events_(std::move(events)),
      socket_(loop.io()),
      pause_(loop.io()) {}

BulkConnection::~BulkConnection() { runtime::CloseSocket(socket_); }

// --- Coming and going ---

void BulkConnection::Open() {
  if (stage_ == Stage::kIdle) Find();
}

void BulkConnection::Find() {
  LOCKSTEP_DCHECK(stage_ == Stage::kIdle || stage_ == Stage::kPausing);
  stage_ = Stage::kFinding;
  events_.find_card([&loop = loop_, weak = weak_from_this()](absl::StatusOr<Card> card) {
    loop.Post([weak, card = std::move(card)] {
      if (const auto self = weak.lock()) self->Dial(card);
    });
  });
}

void BulkConnection::Dial(const absl::StatusOr<Card>& card) {
  if (stage_ != Stage::kFinding) return;
  if (!card.ok()) return Break(card.status());
  const auto address = runtime::ParseAddress(card->bulk_address);
  if (!address.ok()) return Break(address.status());
  card_ = *card;
  stage_ = Stage::kDialing;
  DialDoor(loop_.io(), *address, card->secret.data, options_.dial_timeout,
           [weak = weak_from_this()](absl::StatusOr<tcp::socket> socket) {
             if (const auto self = weak.lock()) {
               self->Dialed(std::move(socket));
             } else if (socket.ok()) {
               runtime::CloseSocket(*socket);
             }
           });
}

void BulkConnection::Dialed(absl::StatusOr<tcp::socket> socket) {
  if (stage_ != Stage::kDialing) {
    if (socket.ok()) runtime::CloseSocket(*socket);
    return;
  }
  if (!socket.ok()) return Break(socket.status());
  socket_ = *std::move(socket);
  asio::error_code ignored;  // of a dead socket, which the first read will tell
  socket_.non_blocking(true, ignored);
  stage_ = Stage::kGreeting;
  in_.clear();
  out_ = WithLength(events_.hello(card_));
  Write();
  runtime::FaultPoint("bulk/dialed");
  WaitToRead();
}

void BulkConnection::Disconnect() {
  pause_.cancel();
  out_.clear();
  runtime::CloseSocket(socket_);
  stage_ = Stage::kIdle;
}

void BulkConnection::Close() { Disconnect(); }

void BulkConnection::Break(const absl::Status& why) {
  Disconnect();
  if (!events_.broken(why) || stage_ != Stage::kIdle) return;
  stage_ = Stage::kPausing;
  pause_.expires_after(absl::ToChronoNanoseconds(
      std::min(options_.retry_last, options_.retry_first * (1 << std::min(failures_++, 16)))));
  pause_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && self->stage_ == Stage::kPausing) self->Find();
  });
}

// --- Writing ---

void BulkConnection::Send(std::string_view bytes) {
  out_ += bytes;
  Write();
}

void BulkConnection::Write() {
  while (!out_.empty()) {
    const ssize_t sent = ::send(socket_.native_handle(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0) break;
    out_.erase(0, static_cast<size_t>(sent));
  }
  if (out_.empty() || writing_) return;
  // When it is broken, reading tells.
  if (!WouldBlock()) return;
  writing_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const asio::error_code&) {
    // Perhaps of a connection that was made anew.
    self->writing_ = false;
    if (self->socket_.is_open()) self->Write();
  });
}

// --- Reading ---

void BulkConnection::WaitToRead() {
  socket_.async_wait(tcp::socket::wait_read,
                     [self = shared_from_this()](const asio::error_code& error) {
                       if (!error && self->socket_.is_open()) self->Readable();
                     });
}

void BulkConnection::Readable() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t count = stage_ == Stage::kGreeting ? ReadWelcome() : ReadBytes();
    if (count == 0) {
      return Break(absl::UnavailableError(absl::StrCat(options_.name, " closed it")));
    }
    if (count < 0) {
      if (WouldBlock()) break;
      return Break(absl::UnavailableError("the connection broke"));
    }
    if (absl::Status taken = Take(static_cast<size_t>(count)); !taken.ok()) {
      return events_.refused(taken);
    }
    if (!socket_.is_open()) return;
  }
  WaitToRead();
}

// Nothing comes behind it before something is asked for.
ssize_t BulkConnection::ReadWelcome() {
  return ::recv(socket_.native_handle(), greeting_.data(), greeting_.size(), 0);
}

ssize_t BulkConnection::ReadBytes() {
  const Room room = events_.room();
  return ::readv(socket_.native_handle(), room.pieces.data(), static_cast<int>(room.count));
}

absl::Status BulkConnection::Take(size_t count) {
  return stage_ == Stage::kGreeting ? TakeGreeting(count) : events_.take(count);
}

absl::Status BulkConnection::TakeGreeting(size_t count) {
  in_.append(greeting_.data(), count);
  auto message = transport::TakeMessage(in_);
  if (!message.ok()) return message.status();
  if (!message->has_value()) return absl::OkStatus();
  const auto welcome = wire::native::Decode<PeerWelcome>(**message);
  if (!welcome.ok()) return welcome.status();
  if (welcome->version != kPeerVersion || !in_.empty()) {
    return absl::InvalidArgumentError("it answered our hello with what is no welcome");
  }
  stage_ = Stage::kUp;
  failures_ = 0;
  events_.up(card_, *welcome);
  return absl::OkStatus();
}

}  // namespace lockstep::transport

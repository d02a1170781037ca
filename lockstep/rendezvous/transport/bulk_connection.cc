#include "lockstep/rendezvous/transport/bulk_connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/post.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
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
  const auto key = KeyOf(*card, options_.self);
  if (!key.ok()) return events_.refused(key.status());
  card_ = *card;
  stage_ = Stage::kDialing;
  DialDoor(loop_.io(), *address, *key, options_.dial_timeout,
           [weak = weak_from_this()](absl::StatusOr<ProvenConnection> dialed) {
             if (const auto self = weak.lock()) {
               self->Dialed(std::move(dialed));
             } else if (dialed.ok()) {
               runtime::CloseSocket(dialed->socket);
             }
           });
}

void BulkConnection::Dialed(absl::StatusOr<ProvenConnection> dialed) {
  if (stage_ != Stage::kDialing) {
    if (dialed.ok()) runtime::CloseSocket(dialed->socket);
    return;
  }
  if (!dialed.ok()) return Break(dialed.status());
  socket_ = std::move(dialed->socket);
  bytes_ = std::make_shared<BulkSocket>(socket_.native_handle(), std::move(dialed->layer));
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
    const iovec piece = {out_.data(), out_.size()};
    const ssize_t sent = bytes_->Write({&piece, 1});
    // When it is broken, reading tells.
    if (sent < 0 && !WouldBlock()) return;
    if (sent < 0) break;
    out_.erase(0, static_cast<size_t>(sent));
  }
  if ((bytes_->Flush() && out_.empty()) || writing_) return;
  writing_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const asio::error_code&) {
    // Perhaps of a connection that was made anew.
    self->writing_ = false;
    if (self->socket_.is_open()) self->Write();
  });
}

// --- Reading ---

void BulkConnection::WaitToRead() {
  if (bytes_->reads_on()) {
    return asio::post(loop_.io(), [self = shared_from_this(), of = bytes_] {
      if (self->socket_.is_open() && self->bytes_ == of) self->Readable();
    });
  }
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
  std::array<char, 64> room;
  const iovec piece = {room.data(), room.size()};
  const ssize_t count = bytes_->Read({&piece, 1});
  if (count > 0) in_.append(room.data(), static_cast<size_t>(count));
  return count;
}

ssize_t BulkConnection::ReadBytes() {
  const Room room = events_.room();
  return bytes_->Read({room.pieces.data(), room.count});
}

absl::Status BulkConnection::Take(size_t count) {
  return stage_ == Stage::kGreeting ? TakeGreeting() : events_.take(count);
}

absl::Status BulkConnection::TakeGreeting() {
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

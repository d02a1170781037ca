#include "lockstep/agent/value_peer.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "asio/buffer.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "lockstep/agent/value_cipher.h"
#include "lockstep/agent/value_wire.h"
#include "lockstep/platform/runtime/fork_guard.h"

namespace lockstep::agent {

class ValuePeer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::ip::tcp::socket socket, Events events)
      : socket_(std::move(socket)), events_(std::move(events)) {}

  void ReadAsk() {
    asio::async_read(socket_, asio::buffer(ask_),
                     [self = shared_from_this()](const asio::error_code& error, size_t) {
                       if (self->over_) return;
                       const std::string_view ticket =
                           TicketOf(std::string_view(self->ask_.data(), self->ask_.size()));
                       if (error || ticket.empty()) return self->End();
                       self->AwaitEnd();
                       self->events_.asked(PeerValues::Ticket(ticket));
                     });
  }

  void Hint() {
    if (over_ || writing_ || cipher_) return;
    writing_ = true;
    Write(asio::buffer(&kHint, 1));
  }

  void Serve(const PeerValues::Effects::Serving& serving) {
    if (over_) return;
    cipher_.emplace(serving.key, serving.ticket, serving.value->size());
    value_ = serving.value;
    out_.assign(1, kAnswer);
    if (!writing_) SendNext();
  }

  void Stop() {
    over_ = true;
    runtime::CloseSocket(socket_);
    value_ = nullptr;
  }

 private:
  // The other end says nothing more: whatever comes is its end.
  void AwaitEnd() {
    asio::async_read(socket_, asio::buffer(&more_, 1),
                     [self = shared_from_this()](const asio::error_code&, size_t) {
                       if (!self->over_) self->End();
                     });
  }

  void SendNext() {
    if (chunk_ == cipher_->chunks()) return End();
    writing_ = true;
    const std::string_view all = *value_;
    out_ += cipher_->Seal(
        chunk_, all.substr(chunk_ * ValueCipher::kChunkBytes, cipher_->ChunkBytes(chunk_)));
    ++chunk_;
    Write(asio::buffer(out_));
  }

  void Write(asio::const_buffer buffer) {
    asio::async_write(socket_, buffer,
                      [self = shared_from_this()](const asio::error_code& error, size_t) {
                        self->Written(error);
                      });
  }

  void Written(const asio::error_code& error) {
    if (over_) return;
    writing_ = false;
    if (error) return End();
    if (!cipher_) return;
    if (chunk_ > 0) {
      out_.clear();
      events_.took();
    }
    SendNext();
  }

  void End() {
    if (over_) return;
    over_ = true;
    runtime::CloseSocket(socket_);
    events_.ended();
  }

  asio::ip::tcp::socket socket_;
  const Events events_;
  std::array<char, kAskBytes> ask_;
  char more_ = 0;
  std::optional<ValueCipher> cipher_;  // since it is served
  PeerValues::Value value_;
  size_t chunk_ = 0;  // the next
  std::string out_;
  bool writing_ = false;
  bool over_ = false;
};

ValuePeer::ValuePeer(asio::ip::tcp::socket socket, Events events)
    : impl_(std::make_shared<Impl>(std::move(socket), std::move(events))) {
  impl_->ReadAsk();
}

ValuePeer::~ValuePeer() { impl_->Stop(); }

void ValuePeer::Hint() { impl_->Hint(); }
void ValuePeer::Serve(const PeerValues::Effects::Serving& serving) { impl_->Serve(serving); }

}  // namespace lockstep::agent

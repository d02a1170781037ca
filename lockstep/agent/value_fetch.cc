#include "lockstep/agent/value_fetch.h"

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "asio/buffer.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/post.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "lockstep/agent/value_cipher.h"
#include "lockstep/agent/value_wire.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/fork_guard.h"

namespace lockstep::agent {

class ValueFetch::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(runtime::Loop& loop, const PeerValues::Effects::Fetch& fetch, Events events)
      : cipher_(fetch.source.key, fetch.ticket, fetch.source.size),
        events_(std::move(events)),
        ask_(EncodeAsk(fetch.ticket)),
        socket_(loop.io()) {}

  void Start(runtime::Loop& loop, const std::string& from, absl::Duration timeout) {
    const auto address = runtime::ParseAddress(from);
    if (!address.ok()) {
      return asio::post(loop.io(), [self = shared_from_this()] { self->Done(nullptr); });
    }
    runtime::Dial(loop.io(), *address, timeout,
                  [self = shared_from_this()](absl::StatusOr<asio::ip::tcp::socket> socket) {
                    self->Connected(std::move(socket));
                  });
  }

  void Stop() {
    over_ = true;
    runtime::CloseSocket(socket_);
  }

 private:
  void Connected(absl::StatusOr<asio::ip::tcp::socket> socket) {
    if (over_) {
      if (socket.ok()) runtime::CloseSocket(*socket);
      return;
    }
    if (!socket.ok()) return Done(nullptr);
    socket_ = *std::move(socket);
    asio::async_write(socket_, asio::buffer(ask_),
                      [self = shared_from_this()](const asio::error_code& error, size_t) {
                        if (self->over_) return;
                        error ? self->Done(nullptr) : self->ReadWord();
                      });
  }

  void ReadWord() {
    asio::async_read(socket_, asio::buffer(&word_, 1),
                     [self = shared_from_this()](const asio::error_code& error, size_t) {
                       if (self->over_) return;
                       if (error) return self->Done(nullptr);
                       self->events_.progressed();
                       if (self->word_ == kHint) return self->ReadWord();
                       self->word_ == kAnswer ? self->ReadChunk() : self->Done(nullptr);
                     });
  }

  void ReadChunk() {
    sealed_.resize(cipher_.ChunkBytes(chunk_) + ValueCipher::kTagBytes);
    asio::async_read(socket_, asio::buffer(sealed_),
                     [self = shared_from_this()](const asio::error_code& error, size_t) {
                       if (self->over_) return;
                       error ? self->Done(nullptr) : self->TakeChunk();
                     });
  }

  void TakeChunk() {
    std::optional<std::string> bytes = cipher_.Open(chunk_, sealed_);
    if (!bytes) return Done(nullptr);
    value_ += *bytes;
    if (++chunk_ == cipher_.chunks()) {
      return Done(std::make_shared<const std::string>(std::move(value_)));
    }
    events_.progressed();
    ReadChunk();
  }

  void Done(PeerValues::Value value) {
    if (std::exchange(over_, true)) return;
    runtime::CloseSocket(socket_);
    events_.done(std::move(value));
  }

  const ValueCipher cipher_;
  const Events events_;
  const std::string ask_;
  asio::ip::tcp::socket socket_;
  char word_ = 0;
  std::string sealed_;
  size_t chunk_ = 0;  // the next
  std::string value_;
  bool over_ = false;
};

ValueFetch::ValueFetch(runtime::Loop& loop, const PeerValues::Effects::Fetch& fetch,
                       absl::Duration connect_timeout, Events events)
    : impl_(std::make_shared<Impl>(loop, fetch, std::move(events))) {
  impl_->Start(loop, fetch.source.from, connect_timeout);
}

ValueFetch::~ValueFetch() { impl_->Stop(); }

}  // namespace lockstep::agent

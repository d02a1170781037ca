#include "lockstep/platform/link/channel.h"

#include <algorithm>

#include "absl/types/span.h"
#include "asio/post.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fork_guard.h"

namespace lockstep::link {
namespace {

// Of encrypted bytes, read at a time: two records of the largest size.
constexpr size_t kReadBytes = size_t{32} << 10;
// Of encrypted bytes without a clear one between them, after the handshake or before: a handshake,
// with a chain of certificates from the client.
constexpr size_t kUnproductiveBytesMax = size_t{64} << 10;
// Of what waits for an end that takes nothing: what the link writes at a time is less, and the rest
// is what TLS itself says.
constexpr size_t kOutputBytesMax = size_t{1} << 20;
// Of what was written, kept for the next.
constexpr size_t kOutputKeptBytes = size_t{1} << 10;
// Of clear bytes, encrypted at a time: one record.
constexpr size_t kRecordBytes = size_t{16} << 10;

// The first so many bytes of them all.
void DropFront(std::vector<asio::const_buffer>& buffers, size_t bytes) {
  size_t whole = 0;
  while (whole < buffers.size() && bytes >= buffers[whole].size()) bytes -= buffers[whole++].size();
  buffers.erase(buffers.begin(), buffers.begin() + static_cast<ptrdiff_t>(whole));
  LOCKSTEP_DCHECK(bytes == 0 || !buffers.empty());
  if (bytes > 0) buffers.front() += bytes;
}

bool WouldBlock(const asio::error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

}  // namespace

Channel::Channel(asio::ip::tcp::socket socket, Layer layer)
    : socket_(std::move(socket)), layer_(std::move(layer)) {
  asio::error_code ignored;  // of a socket that is dead already, which the first read will tell
  socket_.non_blocking(true, ignored);
}

Channel::Channel(asio::ip::tcp::socket socket, AcceptLayer accept)
    : Channel(std::move(socket), Layer()) {
  accept_ = std::move(accept);
}

Channel::~Channel() { Close(); }

void Channel::Close() { runtime::CloseSocket(socket_); }

void Channel::ShutdownSend() {
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

size_t Channel::memory() const {
  return layer_ == nullptr ? 0
                           : runtime::kSecureLayerBytes + output_.capacity() + sending_.capacity();
}

// --- Reading ---

void Channel::ReadSecure(const std::array<asio::mutable_buffer, 2>& rooms, Done done) {
  Outcome outcome;
  if (layer_ == nullptr) return AwaitFirst(rooms, std::move(done));
  if (!Clear(rooms, outcome)) return AwaitSocket(rooms, std::move(done));
  // As Asio does: what is there is told later.
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), outcome, done = std::move(done)]() mutable {
               done(outcome.error, outcome.bytes);
             });
}

void Channel::AwaitSocket(const std::array<asio::mutable_buffer, 2>& rooms, Done done) {
  socket_.async_read_some(
      asio::buffer(front_), [self = shared_from_this(), rooms, done = std::move(done)](
                                const asio::error_code& error, size_t bytes) mutable {
        if (error) return done(error, 0);
        Outcome outcome;
        const bool known = bytes < self->front_.size()
                               ? self->Took({self->front_.data(), bytes}, rooms, outcome)
                               : self->TookFront(rooms, outcome);
        if (known) return done(outcome.error, outcome.bytes);
        self->AwaitSocket(rooms, std::move(done));
      });
}

void Channel::AwaitFirst(const std::array<asio::mutable_buffer, 2>& rooms, Done done) {
  socket_.async_wait(
      asio::ip::tcp::socket::wait_read,
      [self = shared_from_this(), rooms, done = std::move(done)](asio::error_code error) mutable {
        if (error) return done(error, 0);
        if (self->SeeFirst(error)) {
          return self->ReadSome(rooms, std::move(done));
        }
        if (!WouldBlock(error)) return done(error, 0);
        self->AwaitFirst(rooms, std::move(done));
      });
}

bool Channel::SeeFirst(asio::error_code& error) {
  char first = 0;
  if (socket_.receive(asio::buffer(&first, 1), asio::ip::tcp::socket::message_peek, error) == 0) {
    return false;
  }
  const AcceptLayer accept = std::exchange(accept_, nullptr);
  if (first == runtime::kTlsFirstByte) layer_ = accept();
  return true;
}

bool Channel::TookFront(const std::array<asio::mutable_buffer, 2>& rooms, Outcome& outcome) {
  std::array<char, kReadBytes> encrypted;  // not kept: thousands of connections may be idle
  std::copy(front_.begin(), front_.end(), encrypted.begin());
  asio::error_code ignored;  // the next read finds it, behind these bytes
  const size_t more = socket_.read_some(asio::buffer(encrypted) + front_.size(), ignored);
  return Took({encrypted.data(), front_.size() + more}, rooms, outcome);
}

bool Channel::Took(std::string_view encrypted, const std::array<asio::mutable_buffer, 2>& rooms,
                   Outcome& outcome) {
  const absl::Status received = layer_->Receive(encrypted);
  // The other end is told of an error, too.
  Flush();
  if (!received.ok()) {
    outcome = Fail(received);
    return true;
  }
  const bool any = Clear(rooms, outcome);
  if (output_.size() > kOutputBytesMax) {
    outcome = Fail(absl::InvalidArgumentError("answers of TLS wait, and it takes none of them"));
    return true;
  }
  unproductive_ = any ? 0 : unproductive_ + encrypted.size();
  if (unproductive_ <= kUnproductiveBytesMax) return any;
  outcome = Fail(absl::InvalidArgumentError("TLS records without data, again and again"));
  return true;
}

bool Channel::Clear(const std::array<asio::mutable_buffer, 2>& rooms, Outcome& outcome) {
  for (const asio::mutable_buffer& room : rooms) {
    const absl::StatusOr<size_t> read =
        layer_->Read(absl::MakeSpan(static_cast<char*>(room.data()), room.size()));
    if (!read.ok()) {
      Flush();
      outcome = Fail(read.status());
      return true;
    }
    outcome.bytes += *read;
    if (*read < room.size()) break;
  }
  if (outcome.bytes == 0 && layer_->ended()) outcome.error = asio::error::eof;
  return outcome.bytes > 0 || outcome.error;
}

Channel::Outcome Channel::Fail(absl::Status why) {
  why_ = std::move(why);
  return {.error = asio::error::access_denied, .bytes = 0};
}

// --- Writing ---

bool Channel::WritePlain(std::vector<asio::const_buffer>& buffers) {
  // Usually the kernel takes it at once, and nothing has to be waited for.
  asio::error_code error;
  const size_t written = socket_.write_some(buffers, error);
  DropFront(buffers, error ? 0 : written);
  return buffers.empty();
}

bool Channel::WriteSecure(const std::vector<asio::const_buffer>& buffers, Done done) {
  LOCKSTEP_DCHECK(written_ == nullptr);
  for (const asio::const_buffer& buffer : buffers) {
    std::string_view rest(static_cast<const char*>(buffer.data()), buffer.size());
    while (!rest.empty()) {
      const std::string_view piece = rest.substr(0, kRecordBytes);
      rest.remove_prefix(piece.size());
      // The reader tells of a failure: it is the same one.
      if (!layer_->Write(piece).ok()) break;
      layer_->TakeOutput(output_);
    }
  }
  if (Flush()) return true;
  written_ = std::move(done);
  return false;
}

bool Channel::Flush() {
  if (layer_ != nullptr) layer_->TakeOutput(output_);
  if (!sending_.empty()) return false;
  if (output_.empty()) return true;
  asio::error_code error;
  const size_t written = socket_.write_some(asio::buffer(output_), error);
  if (!error && written == output_.size()) {
    // A small one is likely followed by others like it.
    if (output_.capacity() <= kOutputKeptBytes) {
      output_.clear();
    } else {
      output_ = {};
    }
    return true;
  }
  sending_ = std::exchange(output_, {});
  asio::async_write(socket_, asio::buffer(sending_) + (error ? 0 : written),
                    [self = shared_from_this()](const asio::error_code& failure, size_t) {
                      self->Flushed(failure);
                    });
  return false;
}

void Channel::Flushed(const asio::error_code& error) {
  sending_ = {};
  if (!error && !Flush()) return;
  // Where nobody awaits it, the reader hears of an error.
  if (written_ != nullptr) std::exchange(written_, nullptr)(error, 0);
}

}  // namespace lockstep::link

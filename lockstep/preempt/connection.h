// One TCP connection with one deadline for all that is done on it, which can be broken off. What
// speaks HTTP here, over TLS or not, is made of these.
#pragma once

#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "asio/buffer.hpp"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/posix/stream_descriptor.hpp"
#include "asio/write.hpp"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/preempt/descriptor.h"

namespace lockstep::preempt {

// Until when, and what breaks it off.
struct Patience {
  Time deadline = Time::Infinite();  // of all that is done on the connection
  int interrupt = -1;                // readable: enough
};

// Runs Asio's operations one at a time on the calling thread. When one was given up, no other is
// started.
//
// Errors: DEADLINE_EXCEEDED, CANCELLED when interrupted, else UNAVAILABLE. Asio throws
// std::system_error where there are no descriptors or threads left: `Guarded` below.
class Connection {
 public:
  explicit Connection(Patience patience);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Looks the name up and connects, within `timeout`. UNAVAILABLE: nobody listens there;
  // RESOURCE_EXHAUSTED: no descriptor is left.
  absl::Status Dial(const runtime::Address& to, absl::Duration timeout);
  // Of a connected socket.
  void TakeOver(Descriptor socket);
  // Open after `Dial` or `TakeOver`; for operations that are given to `Run`.
  asio::ip::tcp::socket& socket() { return asio_->socket; }

  // How an operation ended.
  struct Outcome {
    asio::error_code error;
    size_t bytes = 0;
  };
  // `start` starts an operation, with the handler that it is given.
  template <class Start>
  absl::StatusOr<Outcome> Run(Start start) {
    if (!given_up_.ok()) return given_up_;
    // Shared, since an operation that is given up ends when it is destroyed.
    auto ended = std::make_shared<Ended>();
    start([ended](const asio::error_code& error, size_t bytes = 0) {
      ended->done = true;
      ended->outcome = {.error = error, .bytes = bytes};
    });
    given_up_ = Await(ended->done);
    if (!given_up_.ok()) return given_up_;
    return ended->outcome;
  }

 private:
  struct Ended {
    bool done = false;
    Outcome outcome;
  };
  // What Asio needs, in one piece, which somebody else can destroy.
  struct Asio {
    asio::io_context io{1};
    asio::ip::tcp::socket socket{io};
    asio::posix::stream_descriptor interrupt{io};
  };
  absl::Status Await(const bool& done);

  const Patience patience_;
  std::unique_ptr<Asio> asio_;
  bool interrupted_ = false;
  absl::Status given_up_;
  bool looking_up_ = false;  // a name, on a thread of Asio's, which cannot be broken off
};

// Bytes both ways.
class Stream {
 public:
  virtual ~Stream() = default;
  // All of the bytes, or an error: as Connection; UNAVAILABLE where the other end closed.
  virtual absl::Status Write(absl::string_view bytes) = 0;
  // What is there, at least one byte; empty at the end. Errors as Connection.
  virtual absl::StatusOr<std::string> Read() = 0;
};

// Over the connection's socket, or over what is layered upon it; `end` is that layer's own way to
// say that the other end has closed.
template <class Layer>
class LayerStream final : public Stream {
 public:
  // `end`: what the layer reports instead of end of file when the other end closes in order.
  LayerStream(Connection& connection, Layer& layer, asio::error_code end = asio::error::eof)
      : connection_(connection), layer_(layer), end_(end) {}

  // UNAVAILABLE: the other end closed, or reset the connection.
  absl::Status Write(absl::string_view bytes) override {
    const auto written = connection_.Run([&](auto ended) {
      asio::async_write(layer_, asio::buffer(bytes.data(), bytes.size()), std::move(ended));
    });
    if (!written.ok()) return written.status();
    return written->error ? Broke(written->error) : absl::OkStatus();
  }

  // At most 16 KiB.
  absl::StatusOr<std::string> Read() override {
    std::string bytes(16 << 10, '\0');
    const auto read = connection_.Run(
        [&](auto ended) { layer_.async_read_some(asio::buffer(bytes), std::move(ended)); });
    if (!read.ok()) return read.status();
    if (read->error && read->error != asio::error::eof && read->error != end_) {
      return Broke(read->error);
    }
    bytes.resize(read->bytes);
    return bytes;
  }

 private:
  static absl::Status Broke(const asio::error_code& error) {
    return absl::UnavailableError("the connection broke: " + error.message());
  }

  Connection& connection_;
  Layer& layer_;
  const asio::error_code end_;
};

// What `act` returns, or UNAVAILABLE with what it threw.
template <class Act>
auto Guarded(Act act) -> decltype(act()) {
  try {
    return act();
  } catch (const std::system_error& error) {
    return absl::UnavailableError(error.what());
  }
}

// A non-blocking socket that listens, and the port that it got.
struct Listening {
  Descriptor socket;
  int port = 0;
};
// UNAVAILABLE: the address is taken, or none of this host's.
absl::StatusOr<Listening> ListenAt(const runtime::Address& at);
// The next connection, when there is one.
Descriptor AcceptAt(int socket);

}  // namespace lockstep::preempt

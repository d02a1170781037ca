// A connection's socket, with TLS above it or without.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "asio/buffer.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/write.hpp"
#include "lockstep/platform/runtime/secure_layer.h"

namespace lockstep::link {

// Reads and writes clear bytes. An end that calls knows whether it wants TLS; one that accepts may
// take both, and knows by the first byte which it got.
//
// Threads: loop-confined. Ownership: alive while an operation is pending. Bounds: what is written
// and not yet gone, which the caller awaits before it writes more; a greeting's worth of handshake.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Done = absl::AnyInvocable<void(const asio::error_code&, size_t)>;
  using Layer = std::unique_ptr<runtime::SecureLayer>;
  // Makes the accepting end of a connection; null: there is no TLS here.
  using AcceptLayer = std::function<Layer()>;

  // Without TLS.
  explicit Channel(asio::ip::tcp::socket socket) : Channel(std::move(socket), Layer()) {}
  // With TLS, if there is a layer: the calling end.
  Channel(asio::ip::tcp::socket socket, Layer layer);
  // The accepting end of either.
  Channel(asio::ip::tcp::socket socket, AcceptLayer accept);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Into the first room and then the second, of which the first may be empty. `done` is called
  // later; with `eof` when nothing more comes, and with `access_denied` when TLS failed: `why` says
  // how. One at a time.
  template <class Handler>
  void ReadSome(const std::array<asio::mutable_buffer, 2>& rooms, Handler done) {
    if (layer_ != nullptr || accept_ != nullptr) return ReadSecure(rooms, std::move(done));
    if (rooms[0].size() == 0) return socket_.async_read_some(rooms[1], std::move(done));
    socket_.async_read_some(rooms, std::move(done));
  }

  // Writes all of it. True: it has gone to the kernel (or waits for the handshake), and `done` is
  // not called. One at a time. The buffers stay as they are until it is done.
  template <class Handler>
  bool Write(std::vector<asio::const_buffer>& buffers, Handler done) {
    if (layer_ != nullptr) return WriteSecure(buffers, std::move(done));
    if (!WritePlain(buffers)) {
      asio::async_write(socket_, buffers, std::move(done));
      return false;
    }
    return true;
  }

  // Nothing more is written.
  void ShutdownSend();
  void Close();

  bool secure() const { return layer_ != nullptr; }
  // As runtime::SecureLayer; false without TLS.
  bool certified() const { return layer_ != nullptr && layer_->certified(); }
  // The same; none without TLS.
  std::vector<std::string> peer_uris() const {
    return layer_ != nullptr ? layer_->peer_uris() : std::vector<std::string>();
  }
  // Why TLS failed; OK otherwise.
  const absl::Status& why() const { return why_; }
  // What it holds beside the object and the socket.
  size_t memory() const;
  const asio::ip::tcp::socket& socket() const { return socket_; }

 private:
  void ReadSecure(const std::array<asio::mutable_buffer, 2>& rooms, Done done);
  // For the reader.
  struct Outcome {
    asio::error_code error;
    size_t bytes = 0;
  };
  // Of the accepting end: whether the first byte has come, by which it knows what it got.
  bool SeeFirst(asio::error_code& error);
  // Whether these encrypted bytes make an outcome.
  bool Took(std::string_view encrypted, const std::array<asio::mutable_buffer, 2>& rooms,
            Outcome& outcome);
  // The same of a full `front_`, and what else is there.
  bool TookFront(const std::array<asio::mutable_buffer, 2>& rooms, Outcome& outcome);
  bool Clear(const std::array<asio::mutable_buffer, 2>& rooms, Outcome& outcome);
  void AwaitSocket(const std::array<asio::mutable_buffer, 2>& rooms, Done done);
  void AwaitFirst(const std::array<asio::mutable_buffer, 2>& rooms, Done done);
  Outcome Fail(absl::Status why);

  // False: there is more, of which what is left is in `buffers`, or an error, which the next write
  // finds again.
  bool WritePlain(std::vector<asio::const_buffer>& buffers);
  bool WriteSecure(const std::vector<asio::const_buffer>& buffers, Done done);
  // Sends what the layer has for the other end. False: some of it waits.
  bool Flush();
  void Flushed(const asio::error_code& error);

  asio::ip::tcp::socket socket_;
  Layer layer_;         // null: there is no TLS, or the first byte has not come
  AcceptLayer accept_;  // until the first byte has come
  absl::Status why_;
  // What comes first of what is awaited: a small message as a whole, so that thousands of idle
  // connections hold no more, and reading one takes no more calls of the kernel than without TLS.
  std::array<char, 512> front_;
  size_t unproductive_ = 0;  // encrypted bytes that came since the last clear one
  std::string output_;       // encrypted; waits
  std::string sending_;      // encrypted; on its way
  Done written_;             // called when both are empty
};

}  // namespace lockstep::link

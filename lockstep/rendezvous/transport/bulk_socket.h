// The bytes of a bulk link: clear on this side, and on the socket as they are or encrypted.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "lockstep/platform/runtime/secure_layer.h"

namespace lockstep::transport {

// As `readv` and `writev` on a socket that does not block, with the layer between, if there is one.
// EPROTO: the other end breaks TLS, or changed bytes came.
//
// Threads: thread-compatible. Bounds: what it reads and encrypts at a time (kPieceBytes), and what
// the socket does not take of that.
class BulkSocket {
 public:
  // Does not own the socket. `layer`: established, and may hold bytes that came with the last of
  // the handshake; null: bytes go as they are.
  BulkSocket(int fd, std::unique_ptr<runtime::SecureLayer> layer)
      : fd_(fd), layer_(std::move(layer)), reads_on_(layer_ != nullptr) {}

  ssize_t Read(absl::Span<const iovec> rooms);
  // Takes some of them, and none (EAGAIN) while what it took before waits.
  ssize_t Write(absl::Span<const iovec> pieces);
  // Whether nothing waits that was taken: otherwise to be called when the socket can be written.
  bool Flush();
  // Bytes may be here that the socket will not tell of: read before waiting for it.
  bool reads_on() const { return reads_on_; }

 private:
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  ssize_t ReadSecure(absl::Span<const iovec> rooms);

  int fd_;
  std::unique_ptr<runtime::SecureLayer> layer_;
  bool reads_on_;
  std::string encrypted_;  // room for what comes
  std::string output_;     // taken; from `sent_` on it waits
  size_t sent_ = 0;
};

}  // namespace lockstep::transport

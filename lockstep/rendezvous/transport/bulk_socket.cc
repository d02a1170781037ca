#include "lockstep/rendezvous/transport/bulk_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace lockstep::transport {
namespace {

// Reads of the socket without a clear byte, before others on the loop have their turn.
constexpr int kReadsMax = 16;

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

ssize_t Broken() {
  errno = EPROTO;
  return -1;
}

}  // namespace

ssize_t BulkSocket::Read(absl::Span<const iovec> rooms) {
  if (layer_ == nullptr) return ::readv(fd_, rooms.data(), static_cast<int>(rooms.size()));
  return ReadSecure(rooms);
}

ssize_t BulkSocket::ReadSecure(absl::Span<const iovec> rooms) {
  reads_on_ = true;
  for (int i = 0; i < kReadsMax; ++i) {
    ssize_t read = 0;
    for (const iovec& room : rooms) {
      const auto bytes = layer_->Read({static_cast<char*>(room.iov_base), room.iov_len});
      if (!bytes.ok()) return Broken();
      read += static_cast<ssize_t>(*bytes);
      if (*bytes < room.iov_len) break;
    }
    if (read > 0) return read;
    if (layer_->ended()) return 0;
    encrypted_.resize(kPieceBytes);
    const ssize_t come = ::recv(fd_, encrypted_.data(), encrypted_.size(), 0);
    if (come <= 0) {
      reads_on_ = false;
      return come;
    }
    if (!layer_->Receive({encrypted_.data(), static_cast<size_t>(come)}).ok()) return Broken();
  }
  errno = EAGAIN;
  return -1;
}

ssize_t BulkSocket::Write(absl::Span<const iovec> pieces) {
  if (layer_ == nullptr) {
    const msghdr message = {.msg_iov = const_cast<iovec*>(pieces.data()),
                            .msg_iovlen = pieces.size()};
    return ::sendmsg(fd_, &message, MSG_NOSIGNAL);
  }
  if (!Flush()) {
    errno = EAGAIN;
    return -1;
  }
  size_t taken = 0;
  for (const iovec& piece : pieces) {
    const size_t bytes = std::min(piece.iov_len, kPieceBytes - taken);
    if (bytes == 0) continue;
    if (!layer_->Write({static_cast<const char*>(piece.iov_base), bytes}).ok()) return Broken();
    taken += bytes;
  }
  layer_->TakeOutput(output_);
  Flush();
  return static_cast<ssize_t>(taken);
}

bool BulkSocket::Flush() {
  if (layer_ != nullptr) layer_->TakeOutput(output_);
  while (sent_ < output_.size()) {
    const ssize_t count = ::send(fd_, output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && WouldBlock()) return false;
    if (count < 0) break;  // it is broken, as reading tells, and nothing has to wait
    sent_ += static_cast<size_t>(count);
  }
  output_.clear();
  sent_ = 0;
  return true;
}

}  // namespace lockstep::transport

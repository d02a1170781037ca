#include "lockstep/rendezvous/transport/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/rendezvous/transport/pass_descriptors.h"
#include "lockstep/rendezvous/transport/system_call_error.h"

namespace lockstep::transport {
namespace {

// A hello has less, and so has everything after it.
constexpr size_t kMessageBytesMax = 8192;
constexpr int kBacklog = 512;
// Without descriptors nothing can be accepted until some are given back.
constexpr auto kPause = std::chrono::milliseconds(100);

absl::StatusOr<std::pair<sockaddr_un, socklen_t>> AddressOf(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no name of a unix socket"));
  }
  // A zero in front: the abstract namespace.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return std::pair(address,
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
}

int OpenUnixSocket() { return runtime::OpenSocket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK); }

}  // namespace

absl::StatusOr<std::shared_ptr<UnixSocket>> UnixSocket::Connect(asio::io_context& io,
                                                                const std::string& address) {
  if (address.empty() || address[0] != '@') {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' does not begin with @"));
  }
  const auto to = AddressOf(address.substr(1));
  if (!to.ok()) return to.status();
  const int fd = OpenUnixSocket();
  if (fd < 0) return SystemCallError("socket", errno, "a unix socket");
  auto socket = std::make_shared<UnixSocket>(io, fd);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to->first), to->second) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to unix socket ", address, ": ", std::strerror(errno)));
  }
  return socket;
}

UnixSocket::UnixSocket(asio::io_context& io, int fd) : socket_(io, fd) {}

UnixSocket::~UnixSocket() { Close(); }

void UnixSocket::Close() {
  if (const int fd = Release(); fd >= 0) runtime::CloseGuarded(fd);
}

int UnixSocket::Release() {
  readable_ = nullptr;
  if (!socket_.is_open()) return -1;
  socket_.cancel();
  return socket_.release();
}

void UnixSocket::OnReadable(std::function<void()> readable) {
  readable_ = std::move(readable);
  Wait();
}

void UnixSocket::Wait() {
  if (!socket_.is_open() || std::exchange(waiting_, true)) return;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const asio::error_code& error) {
                       const auto self = weak.lock();
                       if (self == nullptr) return;
                       self->waiting_ = false;
                       if (error || !self->readable_) return;
                       const auto readable = self->readable_;  // it may be replaced meanwhile
                       readable();
                       if (self->readable_) self->Wait();
                     });
}

absl::Status UnixSocket::Send(std::string_view bytes, std::span<const int> fds) {
  const auto sent = SendDescriptors(fd(), bytes, fds);
  if (!sent.ok()) return sent.status();
  if (*sent == bytes.size()) return absl::OkStatus();
  return absl::UnavailableError("the unix socket to the other member is full");
}

absl::StatusOr<std::optional<UnixSocket::Message>> UnixSocket::Receive() {
  std::array<std::byte, kMessageBytesMax> buffer;
  auto received = ReceiveDescriptors(fd(), buffer);
  if (!received.ok()) return received.status();
  switch (received->outcome) {
    case ReceivedDescriptors::Outcome::kWouldBlock:
      return std::nullopt;
    case ReceivedDescriptors::Outcome::kClosed:
      return absl::UnavailableError("the process at the other end is gone, or closed the socket");
    case ReceivedDescriptors::Outcome::kMessage:
      break;
  }
  return Message{
      .bytes = std::string(reinterpret_cast<const char*>(buffer.data()), received->bytes),
      .fds = std::move(received->fds)};
}

absl::StatusOr<std::shared_ptr<UnixListener>> UnixListener::Start(asio::io_context& io,
                                                                  const std::string& name,
                                                                  Accepted accepted) {
  const auto at = AddressOf(name);
  if (!at.ok()) return at.status();
  const int fd = OpenUnixSocket();
  if (fd < 0) return SystemCallError("socket", errno, "a unix socket");
  std::shared_ptr<UnixListener> listener(new UnixListener(io, fd, std::move(accepted)));
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&at->first), at->second) != 0) {
    return SystemCallError("bind", errno, absl::StrCat("unix socket @", name));
  }
  if (::listen(fd, kBacklog) != 0) {
    return SystemCallError("listen", errno, absl::StrCat("unix socket @", name));
  }
  listener->Wait();
  return listener;
}

UnixListener::UnixListener(asio::io_context& io, int fd, Accepted accepted)
    : io_(io), socket_(io, fd), pause_(io), accepted_(std::move(accepted)) {}

UnixListener::~UnixListener() { Close(); }

void UnixListener::Close() {
  if (!socket_.is_open()) return;
  pause_.cancel();
  socket_.cancel();
  runtime::CloseGuarded(socket_.release());
}

void UnixListener::Wait() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](const asio::error_code& error) {
                       const auto self = weak.lock();
                       if (!error && self != nullptr) self->Ready();
                     });
}

void UnixListener::Ready() {
  while (socket_.is_open()) {
    const int fd =
        ::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) break;
    runtime::GuardDescriptor(fd);
    accepted_(std::make_shared<UnixSocket>(io_, fd));
  }
  if (!socket_.is_open()) return;
  if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return Wait();
  pause_.expires_after(kPause);
  pause_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->Wait();
  });
}

}  // namespace lockstep::transport

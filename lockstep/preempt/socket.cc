#include "lockstep/preempt/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace lockstep::preempt {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses LookUp(const std::string& host, int port, int flags) {
  const addrinfo hints = {
      .ai_flags = AI_NUMERICSERV | flags, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return nullptr;
  return Addresses(list);
}

absl::Status Failed(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

absl::Status OutOfPatience(Waited waited, absl::string_view what) {
  return waited == Waited::kInterrupted ? absl::CancelledError("broken off")
                                        : absl::DeadlineExceededError(what);
}

absl::StatusOr<Descriptor> Connect(const addrinfo& address, Time deadline, int interrupt) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return Failed("cannot make a socket", errno);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Failed("cannot connect", errno);
    const Waited waited = WaitFor(socket.get(), POLLOUT, interrupt, deadline);
    if (waited != Waited::kReady) return OutOfPatience(waited, "nobody answers at that address");
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Failed("cannot connect", error);
  }
  return socket;
}

}  // namespace

Waited WaitFor(int fd, short events, int interrupt, Time deadline) {
  for (;;) {
    int timeout = -1;
    if (!deadline.is_infinite()) {
      const absl::Duration left = deadline - runtime::MonotonicNow();
      // Rounded up, so that it is not asked again for the last fraction.
      timeout = static_cast<int>(std::clamp<int64_t>(
          absl::ToInt64Milliseconds(left + absl::Microseconds(999)), 0, 1 << 30));
    }
    pollfd all[] = {{.fd = interrupt, .events = POLLIN}, {.fd = fd, .events = events}};
    const int ready = ::poll(all, 2, timeout);
    if (ready < 0 && errno == EINTR) continue;
    if (all[0].revents != 0) return Waited::kInterrupted;
    if (all[1].revents != 0) return Waited::kReady;
    if (!deadline.is_infinite() && runtime::MonotonicNow() >= deadline) return Waited::kTimedOut;
  }
}

absl::StatusOr<std::unique_ptr<TcpStream>> TcpStream::Dial(const std::string& host, int port,
                                                           Time connect_deadline,
                                                           Patience patience) {
  // A number needs no look-up, and so no name server that may be slow.
  Addresses addresses = LookUp(host, port, AI_NUMERICHOST);
  if (!addresses) addresses = LookUp(host, port, 0);
  if (!addresses) return absl::UnavailableError("the name of the host is not known");
  absl::Status first;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    absl::StatusOr<Descriptor> socket =
        Connect(*one, std::min(connect_deadline, patience.deadline), patience.interrupt);
    if (socket.ok()) return std::make_unique<TcpStream>(*std::move(socket), patience);
    if (first.ok()) first = socket.status();
    if (absl::IsCancelled(socket.status())) return socket.status();
  }
  return first;
}

absl::Status TcpStream::Wait(short events) {
  const Waited waited = WaitFor(socket_.get(), events, patience_.interrupt, patience_.deadline);
  if (waited == Waited::kReady) return absl::OkStatus();
  return OutOfPatience(waited, "no whole answer came in time");
}

absl::Status TcpStream::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      if (const absl::Status status = Wait(POLLOUT); !status.ok()) return status;
    } else if (errno != EINTR) {
      return Failed("the connection broke", errno);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TcpStream::Read() {
  char bytes[16 << 10];
  for (;;) {
    // Also where bytes are there: one who sends a few at a time has no longer for it.
    if (const absl::Status status = Wait(POLLIN); !status.ok()) return status;
    if (runtime::MonotonicNow() >= patience_.deadline) {
      return OutOfPatience(Waited::kTimedOut, "no whole answer came in time");
    }
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, 0);
    if (n >= 0) return std::string(bytes, static_cast<size_t>(n));
    if (errno != EAGAIN && errno != EINTR) return Failed("the connection broke", errno);
  }
}

absl::StatusOr<Listening> ListenAt(const std::string& host, int port) {
  const Addresses address = LookUp(host, port, AI_NUMERICHOST | AI_PASSIVE);
  if (!address) return absl::InvalidArgumentError(absl::StrCat(host, " is no number of a host"));
  Descriptor socket(::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), address->ai_addr, address->ai_addrlen) != 0 ||
      ::listen(socket.get(), 16) != 0) {
    return Failed(absl::StrCat("cannot listen at ", host, " port ", port), errno);
  }
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  const in_port_t network = bound.ss_family == AF_INET6
                                ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  return Listening{.socket = std::move(socket), .port = ntohs(network)};
}

Descriptor AcceptAt(int socket) {
  return Descriptor(::accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

}  // namespace lockstep::preempt

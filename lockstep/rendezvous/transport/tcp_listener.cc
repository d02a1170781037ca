#include "lockstep/rendezvous/transport/tcp_listener.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/ip/udp.hpp"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/open_files.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/rendezvous/transport/system_call_error.h"

namespace lockstep::transport {
namespace {

// Without descriptors nothing can be accepted until some are given back.
constexpr auto kPause = std::chrono::milliseconds(100);
// Before others on the loop have their turn.
constexpr int kAcceptsPerTurn = 64;
// `descriptors_left_min`
constexpr size_t kDescriptorsLeftMin = 128;

}  // namespace

absl::StatusOr<std::string> LocalHostTowards(const runtime::Address& other) {
  const addrinfo hints = {.ai_socktype = SOCK_DGRAM};
  addrinfo* found = nullptr;
  const int failure =
      ::getaddrinfo(other.host.c_str(), std::to_string(other.port).c_str(), &hints, &found);
  if (failure != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot look up ", other.host, ": ", ::gai_strerror(failure)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const runtime::UniqueFd fd(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // Of datagrams that chooses the route, and sends nothing.
    if (!fd.valid() || ::connect(fd.get(), each->ai_addr, each->ai_addrlen) != 0) continue;
    asio::ip::udp::endpoint local;
    socklen_t size = static_cast<socklen_t>(local.capacity());
    if (::getsockname(fd.get(), local.data(), &size) != 0) continue;
    local.resize(size);
    return local.address().to_string();
  }
  return absl::UnavailableError(absl::StrCat("this host has no route to ", other.host));
}

absl::StatusOr<std::shared_ptr<TcpListener>> TcpListener::Start(asio::io_context& io,
                                                                const std::string& host,
                                                                Accepted accepted,
                                                                Refused refused) {
  auto acceptor = runtime::Listen(io, {.host = host, .port = 0});
  if (!acceptor.ok()) return acceptor.status();
  runtime::GuardDescriptor(acceptor->native_handle());
  std::shared_ptr<TcpListener> listener(
      new TcpListener(io, *std::move(acceptor), std::move(accepted), std::move(refused)));
  listener->Wait();
  return listener;
}

TcpListener::TcpListener(asio::io_context& io, asio::ip::tcp::acceptor acceptor, Accepted accepted,
                         Refused refused)
    : io_(io),
      acceptor_(std::move(acceptor)),
      address_(runtime::ToString(acceptor_.local_endpoint())),
      gate_(acceptor_.local_endpoint(), runtime::AllowedPeers()),
      pause_(io),
      accepted_(std::move(accepted)),
      refused_(std::move(refused)) {
  acceptor_.non_blocking(true);
}

TcpListener::~TcpListener() { Close(); }

void TcpListener::Close() {
  if (!acceptor_.is_open()) return;
  pause_.cancel();
  asio::error_code ignored;
  acceptor_.cancel(ignored);
  runtime::CloseGuarded(acceptor_.release());
}

void TcpListener::Wait() {
  acceptor_.async_wait(asio::ip::tcp::acceptor::wait_read,
                       [weak = weak_from_this()](const asio::error_code& error) {
                         const auto self = weak.lock();
                         if (!error && self != nullptr) self->Ready();
                       });
}

void TcpListener::Ready() {
  for (int i = 0; i < kAcceptsPerTurn && acceptor_.is_open(); ++i) {
    const int fd =
        ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      Take(fd);
      continue;
    }
    // Anything but these concerns that one connection, or says that there is none.
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) break;
    pause_.expires_after(kPause);
    return pause_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
      const auto self = weak.lock();
      if (!error && self != nullptr) self->Wait();
    });
  }
  if (acceptor_.is_open()) Wait();
}

void TcpListener::Take(int fd) {
  runtime::GuardDescriptor(fd);
  // The last descriptors are the program's.
  if (runtime::LeavesTooFew(fd, kDescriptorsLeftMin)) return runtime::CloseGuarded(fd);
  if (const absl::Status may = gate_.Check(fd); !may.ok()) {
    if (refused_ && absl::IsPermissionDenied(may)) refused_(std::string(may.message()));
    return runtime::CloseGuarded(fd);
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  asio::ip::tcp::socket socket(io_);
  asio::error_code error;
  socket.assign(acceptor_.local_endpoint().protocol(), fd, error);
  if (error) return runtime::CloseGuarded(fd);
  accepted_(std::move(socket));
}

}  // namespace lockstep::transport

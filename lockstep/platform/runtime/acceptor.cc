#include "lockstep/platform/runtime/acceptor.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/open_files.h"

namespace lockstep::runtime {
namespace {

// A dead host is given up after 60 + 6 * 20 = 180 s of silence: a cut of 30 to 90 s must not end a
// connection, since a stock process dies with it. For the same reason no TCP_USER_TIMEOUT: what is
// unacknowledged is sent again for as long as the kernel does by itself (some 15 minutes).
constexpr int kKeepaliveIdleSeconds = 60;
constexpr int kKeepaliveIntervalSeconds = 20;
constexpr int kKeepaliveProbes = 6;
static_assert(kKeepaliveIdleSeconds + kKeepaliveProbes * kKeepaliveIntervalSeconds > 90);

// Connections that are taken before others on the loop have their turn.
constexpr int kAcceptsPerTurn = 64;

void SetOption(int fd, int level, int name, int value) {
  // Fails only on a socket that is already dead, which its owner will find out.
  static_cast<void>(setsockopt(fd, level, name, &value, sizeof(value)));
}

// As much as the kernel takes at once. What the other end has sent is taken, since closing over it
// would reset the connection, and the goodbye with it.
void SayGoodbye(int fd, const std::string& goodbye) {
  std::array<char, 4096> unread;
  static_cast<void>(send(fd, goodbye.data(), goodbye.size(), MSG_NOSIGNAL));
  static_cast<void>(shutdown(fd, SHUT_WR));
  static_cast<void>(recv(fd, unread.data(), unread.size(), 0));
}

UniqueFd OpenSpare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void SetConnectionOptions(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

}  // namespace

Acceptor::Acceptor(Loop& loop, AcceptorOptions options, TakeConnection take, Complain complain)
    : loop_(loop),
      options_(options),
      take_(std::move(take)),
      complaints_(std::move(complain)),
      acceptor_(loop.io()),
      resume_(loop),
      gate_({}, options_.allowed),
      open_({.connections_max = options_.connections_max,
             .connections_per_host_max = options_.connections_per_host_max}) {}

Acceptor::~Acceptor() { Stop(); }

absl::Status Acceptor::Listen(const Address& at) {
  absl::StatusOr<asio::ip::tcp::acceptor> acceptor = runtime::Listen(loop_.io(), at);
  if (!acceptor.ok()) return acceptor.status();
  acceptor_ = *std::move(acceptor);
  address_ = acceptor_.local_endpoint();
  gate_ = PeerGate(address_, options_.allowed);
  asio::error_code error;
  acceptor_.non_blocking(true, error);
  // Each connection has them from the listening socket, and costs no call for them.
  SetConnectionOptions(acceptor_.native_handle());
  spare_ = OpenSpare();
  return absl::OkStatus();
}

void Acceptor::Start() { AwaitConnections(); }

void Acceptor::Stop() {
  resume_.Cancel();
  asio::error_code ignored;
  acceptor_.close(ignored);
}

void Acceptor::AwaitConnections() {
  acceptor_.async_wait(asio::ip::tcp::acceptor::wait_read,
                       [this, alive = std::weak_ptr(alive_)](const asio::error_code& error) {
                         if (!alive.expired() && error != asio::error::operation_aborted)
                           AcceptWaiting();
                       });
}

void Acceptor::AcceptWaiting() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (!acceptor_.is_open()) return;
    asio::ip::tcp::endpoint peer;
    auto size = static_cast<socklen_t>(peer.capacity());
    UniqueFd socket(
        accept4(acceptor_.native_handle(), peer.data(), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      peer.resize(size);
      HandOver(std::move(socket), peer.address());
      continue;
    }
    const asio::error_code error(errno, asio::error::get_system_category());
    if (error == asio::error::would_block) break;
    if (error == asio::error::no_descriptors || error == std::errc::too_many_files_open_in_system) {
      // The kernel says so even when there is nobody to be taken.
      if (!SomebodyWaits()) break;
      if (!OutOfDescriptors(error)) return;
    } else if (error == asio::error::no_buffer_space || error == asio::error::no_memory) {
      return PauseAfter(error);
    }
    // Anything else concerns that one connection only (it was reset before we took it).
  }
  AwaitConnections();
}

bool Acceptor::SomebodyWaits() {
  pollfd listening = {.fd = acceptor_.native_handle(), .events = POLLIN, .revents = 0};
  return poll(&listening, 1, 0) == 1;
}

bool Acceptor::MayCall(int socket) {
  const absl::Status may = gate_.Check(socket);
  if (may.ok()) return true;
  if (absl::IsCancelled(may)) return false;
  complaints_.Say(absl::StrCat(std::string(may.message()), " (--allow-uid)"));
  SayGoodbye(socket, options_.goodbye_to_strangers);
  return false;
}

void Acceptor::HandOver(UniqueFd socket, const asio::ip::address& host) {
  if (!MayCall(socket.get())) return;
  if (const std::string_view limit = open_.LimitReached(MonotonicNow(), host); !limit.empty()) {
    complaints_.Say(absl::StrFormat(
        "%s: connection from %s refused, %d are open, %d from there (%s)", ToString(address_),
        host.to_string(), open_.size(), open_.From(host), limit));
    return;
  }
  if (LeavesTooFew(socket.get(), options_.descriptors_left_min)) {
    complaints_.Say(
        absl::StrFormat("%s: connections refused: the last file descriptors are for others "
                        "(descriptors_left_min). Raise the limit of open files (ulimit -n).",
                        ToString(address_)));
    return;
  }
  open_.Add(socket.get(), host);
  take_(socket.release());
}

// Who can be spared goes first; otherwise the newest is told that it cannot be taken. Either way
// the next one behind it comes at once.
bool Acceptor::OutOfDescriptors(const asio::error_code& error) {
  if (options_.make_room && options_.make_room()) return true;
  if (!RefuseWithSpare()) {
    PauseAfter(error);
    return false;
  }
  complaints_.Say(
      absl::StrFormat("%s: connections refused: %s. Raise the limit of open files (ulimit -n).",
                      ToString(address_), error.message()));
  return true;
}

bool Acceptor::RefuseWithSpare() {
  // In this order: the connection takes the spare's place, and leaves it again.
  spare_.reset();
  UniqueFd refused(
      accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool took = refused.valid();
  if (took) SayGoodbye(refused.get(), options_.goodbye);
  refused.reset();
  spare_ = OpenSpare();
  return took;
}

void Acceptor::PauseAfter(const asio::error_code& error) {
  complaints_.Say(absl::StrFormat(
      "%s: cannot accept connections: %s; they wait. Raise the limit of open files (ulimit -n).",
      ToString(address_), error.message()));
  resume_.Arm(MonotonicNow() + options_.pause, [this] {
    if (!spare_.valid()) spare_ = OpenSpare();
    AcceptWaiting();
  });
}

}  // namespace lockstep::runtime

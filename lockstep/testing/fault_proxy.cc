#include "lockstep/testing/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::testing {
namespace {

constexpr int kLookMs = 10;
constexpr size_t kPieceBytes = size_t{64} << 10;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

void NoDelay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

// One connection: both its ends.
struct FaultProxy::Pipe {
  int near = -1;
  int far = -1;
  uint64_t left = 0;  // until it is cut
  std::thread thread;
};

FaultProxy::FaultProxy(const std::string& target, const Options& options)
    : options_(options), random_(options.seed) {
  const auto address = runtime::ParseAddress(target);
  LOCKSTEP_CHECK(address.ok() && address->host == "127.0.0.1");
  target_port_ = address->port;
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at = Loopback(0);
  socklen_t size = sizeof(at);
  LOCKSTEP_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) == 0);
  LOCKSTEP_CHECK(::listen(listener_, SOMAXCONN) == 0);
  LOCKSTEP_CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  address_ = runtime::ToString(runtime::Address{.host = "127.0.0.1", .port = ntohs(at.sin_port)});
  accepting_ = std::thread([this] { Accept(); });
}

FaultProxy::~FaultProxy() {
  stops_ = true;
  accepting_.join();
  for (const auto& pipe : pipes_) pipe->thread.join();
  ::close(listener_);
}

uint64_t FaultProxy::DrawCut() {
  if (options_.cut_after_max == 0) return std::numeric_limits<uint64_t>::max();
  return std::uniform_int_distribution<uint64_t>(options_.cut_after_min,
                                                 options_.cut_after_max)(random_);
}

void FaultProxy::Accept() {
  while (!stops_) {
    pollfd ready = {.fd = listener_, .events = POLLIN};
    if (::poll(&ready, 1, kLookMs) <= 0) continue;
    const int near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (near < 0) continue;
    const int far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in at = Loopback(target_port_);
    if (::connect(far, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0) {
      ::close(near);
      ::close(far);
      continue;
    }
    NoDelay(near);
    NoDelay(far);
    pipes_.push_back(std::make_unique<Pipe>());
    Pipe& pipe = *pipes_.back();
    pipe.near = near;
    pipe.far = far;
    pipe.left = DrawCut();
    pipe.thread = std::thread([this, &pipe] { Forward(pipe); });
  }
}

void FaultProxy::Forward(Pipe& pipe) {
  bool open = true;
  while (open && !stops_) {
    std::array<pollfd, 2> ready = {
        {{.fd = pipe.near, .events = POLLIN}, {.fd = pipe.far, .events = POLLIN}}};
    if (Held()) {
      ::poll(nullptr, 0, kLookMs);
      continue;
    }
    if (::poll(ready.data(), ready.size(), kLookMs) <= 0) continue;
    if (ready[0].revents != 0) open = Move(pipe.near, pipe.far, pipe.left);
    if (open && ready[1].revents != 0) open = Move(pipe.far, pipe.near, pipe.left);
  }
  ::close(pipe.near);
  ::close(pipe.far);
}

void FaultProxy::Hold(bool hold) {
  const std::unique_lock lock(forwarding_);
  held_ = hold;
}

bool FaultProxy::Held() {
  const std::shared_lock lock(forwarding_);
  return held_;
}

bool FaultProxy::Move(int from, int to, uint64_t& left) {
  // Else what comes after the call of Hold might be taken for what came before.
  const std::shared_lock lock(forwarding_);
  if (held_) return true;
  std::vector<char> piece(kPieceBytes);
  const ssize_t come = ::recv(from, piece.data(), piece.size(), 0);
  if (come <= 0) return false;
  if (options_.delay.count() > 0) std::this_thread::sleep_for(options_.delay);
  size_t bytes = static_cast<size_t>(come);
  // One more than there may be is given back.
  const bool cut = bytes >= left && cuts_.fetch_add(1) < options_.cuts_max;
  if (bytes >= left && !cut) {
    cuts_.fetch_sub(1);
    left = std::numeric_limits<uint64_t>::max();
  }
  if (cut) bytes = left;
  left -= bytes;
  for (size_t sent = 0; sent < bytes;) {
    const ssize_t count = ::send(to, piece.data() + sent, bytes - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<size_t>(count);
    bytes_ += static_cast<uint64_t>(count);
  }
  return !cut;
}

}  // namespace lockstep::testing

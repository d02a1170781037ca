#include "lockstep/platform/etcd/leader_probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/signals_blocked.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::etcd {
namespace {

constexpr int kConnectTimeoutMs = 1000;
// How soon another leader is watched.
constexpr int kLookMs = 100;
// Between two tries to reach it for the first time.
constexpr absl::Duration kPause = absl::Milliseconds(500);
// That have to be refused, after the one that broke.
constexpr int kRefusals = 2;
// Between two tries after that: a server that comes to lead may be about to listen.
constexpr absl::Duration kRefusalPause = absl::Milliseconds(50);
// A connection over which nothing is said is let go before the other end complains.
constexpr absl::Duration kHoldTime = absl::Seconds(3);

}  // namespace

LeaderProbe::LeaderProbe(Died died) : died_(std::move(died)) {
  const runtime::AllSignalsBlocked blocked;
  thread_ = std::thread([this] { Run(); });
}

LeaderProbe::~LeaderProbe() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void LeaderProbe::Watch(std::string address, Revision leader) {
  const MutexLock lock(mutex_);
  target_ = {.address = std::move(address), .leader = leader};
  changed_.NotifyAll();
}

bool LeaderProbe::Wanted(const Target& target) const {
  const MutexLock lock(mutex_);
  return !ending_ && target_ == target;
}

void LeaderProbe::Run() {
  Target done;
  while (true) {
    Target target;
    {
      const MutexLock lock(mutex_);
      while (!ending_ && (target_.address.empty() || target_ == done)) changed_.Wait(mutex_);
      if (ending_) return;
      target = target_;
    }
    Probe(target);
    done = target;
  }
}

// Only who has been reached once can be missed: an address that nobody reaches proves nothing.
void LeaderProbe::Probe(const Target& target) {
  int refusals = 0;
  bool reached = false;
  while (Wanted(target)) {
    int fd = -1;
    const Found found = Connect(target.address, fd);
    const runtime::UniqueFd owner(fd);
    if (found == Found::kConnected) {
      refusals = 0;
      reached = true;
      Hold(fd, target);
      continue;
    }
    if (found == Found::kRefused && reached && ++refusals >= kRefusals && Wanted(target)) {
      died_(target.leader);
    }
    // A process that is just ending resets connections before its host refuses them.
    const WaitLimit limit = WaitLimitAfter(reached ? kRefusalPause : kPause);
    const MutexLock lock(mutex_);
    while (!ending_ && target_ == target && changed_.WaitUntil(mutex_, limit)) {
    }
  }
}

void LeaderProbe::Hold(int fd, const Target& target) {
  const WaitLimit limit = WaitLimitAfter(kHoldTime);
  while (Wanted(target) && std::chrono::steady_clock::now() < limit) {
    pollfd broken = {.fd = fd, .events = POLLIN | POLLRDHUP};
    if (poll(&broken, 1, kLookMs) > 0) return;
  }
}

LeaderProbe::Found LeaderProbe::Connect(const std::string& address, int& fd) const {
  const auto parsed = runtime::ParseAddress(address);
  if (!parsed.ok()) return Found::kUnknown;
  const addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* list = nullptr;
  if (getaddrinfo(parsed->host.c_str(), absl::StrCat(parsed->port).c_str(), &hints, &list) != 0) {
    return Found::kUnknown;
  }
  // Refused only if all its addresses refuse.
  Found found = Found::kRefused;
  for (const addrinfo* each = list; each != nullptr && found == Found::kRefused;
       each = each->ai_next) {
    found = ConnectTo(*each, fd);
    if (found != Found::kConnected && fd >= 0) close(std::exchange(fd, -1));
  }
  freeaddrinfo(list);
  return found;
}

LeaderProbe::Found LeaderProbe::ConnectTo(const addrinfo& to, int& fd) {
  fd = socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int error = fd < 0 ? errno : 0;
  if (fd >= 0 && connect(fd, to.ai_addr, to.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd ready = {.fd = fd, .events = POLLOUT};
    if (poll(&ready, 1, kConnectTimeoutMs) <= 0) return Found::kUnknown;
    socklen_t size = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return Found::kConnected;
  return error == ECONNREFUSED ? Found::kRefused : Found::kUnknown;
}

}  // namespace lockstep::etcd

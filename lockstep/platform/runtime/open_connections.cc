#include "lockstep/platform/runtime/open_connections.h"

#include <sys/stat.h>

#include "absl/time/time.h"
#include "lockstep/base/check.h"

namespace lockstep::runtime {
namespace {

// When full, how often the open connections are counted anew.
constexpr absl::Duration kCountInterval = absl::Seconds(1);

}  // namespace

void OpenConnections::Add(int fd, const asio::ip::address& host) {
  struct stat status;
  if (limits_.connections_max == 0 || fstat(fd, &status) != 0) return;
  handed_.push_back({.fd = fd, .inode = status.st_ino, .host = host});
  ++from_[host];
}

std::string_view OpenConnections::LimitReached(Time now, const asio::ip::address& host) {
  if (limits_.connections_max == 0 || Reached(host).empty()) return {};
  // Some may have ended since they were counted.
  if (now >= next_count_) {
    Count();
    next_count_ = now + kCountInterval;
  }
  return Reached(host);
}

std::string_view OpenConnections::Reached(const asio::ip::address& host) const {
  if (handed_.size() >= limits_.connections_max) return "connections_max";
  if (From(host) >= limits_.connections_per_host_max) return "connections_per_host_max";
  return {};
}

size_t OpenConnections::Count() {
  std::erase_if(handed_, [this](const Handed& handed) {
    struct stat status;
    if (fstat(handed.fd, &status) == 0 && status.st_ino == handed.inode) return false;
    const auto from = from_.find(handed.host);
    LOCKSTEP_DCHECK(from != from_.end() && from->second > 0);
    if (--from->second == 0) from_.erase(from);
    return true;
  });
  LOCKSTEP_DCHECK(from_.size() <= handed_.size());
  return handed_.size();
}

size_t OpenConnections::From(const asio::ip::address& host) const {
  const auto found = from_.find(host);
  return found == from_.end() ? 0 : found->second;
}

}  // namespace lockstep::runtime

#include "lockstep/server/process_watch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lockstep/platform/runtime/process_identity.h"

namespace lockstep::server {

ProcessWatch::ProcessWatch(runtime::Loop& loop, size_t watches_max)
    : loop_(loop), watches_max_(watches_max), machine_(runtime::ProcessMachine()) {}

ProcessWatch::~ProcessWatch() = default;

void ProcessWatch::Watch(uint64_t key, const std::string& machine, int64_t pid, int64_t started,
                         Ended ended) {
  if (machine_.empty() || machine != machine_ || pid <= 0 || started <= 0) return;
  const auto gone = [&] {
    loop_.Post([alive = std::weak_ptr(alive_), ended] {
      if (!alive.expired()) ended();
    });
  };
  const auto number = static_cast<pid_t>(pid);
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, number, 0));
  if (descriptor < 0) {
    if (errno == ESRCH) gone();
    return;
  }
  // Looked at behind the opening: it is this process, or one that has its number now.
  if (runtime::ProcessStarted(number) != started) {
    ::close(descriptor);
    return gone();
  }
  if (watches_.size() >= watches_max_) {
    ::close(descriptor);
    return;
  }
  auto watch = std::make_shared<asio::posix::stream_descriptor>(loop_.io(), descriptor);
  watches_[key] = watch;
  watch->async_wait(asio::posix::stream_descriptor::wait_read,
                    [this, alive = std::weak_ptr(alive_), key, watch,
                     ended = std::move(ended)](const asio::error_code& error) {
                      if (error || alive.expired()) return;
                      const auto found = watches_.find(key);
                      if (found == watches_.end() || found->second != watch) return;
                      watches_.erase(found);
                      ended();
                    });
}

}  // namespace lockstep::server

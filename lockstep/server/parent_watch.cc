#include "lockstep/server/parent_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::server {

class ParentWatch::Impl {
 public:
  Impl(int parent, int stop) : parent_(parent), stop_(stop) {
    thread_ = std::thread([this] { Watch(); });
  }
  ~Impl() {
    const uint64_t one = 1;
    // Cannot fail: the counter of an eventfd that is written once.
    if (write(stop_, &one, sizeof(one)) == sizeof(one)) thread_.join();
    close(parent_);
    close(stop_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  void Watch() const {
    pollfd both[] = {{parent_, POLLIN, 0}, {stop_, POLLIN, 0}};
    while (poll(both, 2, -1) < 0 && errno == EINTR) {
    }
    if (both[1].revents != 0) return;
    kill(getpid(), SIGTERM);
    pollfd stop = {stop_, POLLIN, 0};
    if (poll(&stop, 1, kDrainTimeMaxMs) == 0) kill(getpid(), SIGKILL);
  }

  const int parent_;
  const int stop_;
  std::thread thread_;
};

ParentWatch::ParentWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParentWatch::~ParentWatch() = default;

absl::StatusOr<std::unique_ptr<ParentWatch>> ParentWatch::Start(pid_t parent) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, parent, 0));
  if (descriptor < 0) {
    return absl::NotFoundError(
        absl::StrFormat("cannot watch process %d, with which this server should exit: %s", parent,
                        std::strerror(errno)));
  }
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    close(descriptor);
    return absl::ResourceExhaustedError(
        absl::StrFormat("cannot open a descriptor to watch a process: %s", std::strerror(errno)));
  }
  return std::unique_ptr<ParentWatch>(new ParentWatch(std::make_unique<Impl>(descriptor, stop)));
}

}  // namespace lockstep::server

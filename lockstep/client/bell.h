// How other processes of this host wake this one.
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "asio/io_context.hpp"
#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/platform/runtime/fork_guard.h"

namespace lockstep::client {

// An eventfd that they hold, too. A ring does nothing but end the loop's sleep: what was rung for
// lies in memory, where the loop looks. Threads: loop-confined.
class Bell {
 public:
  explicit Bell(asio::io_context& io) : rung_(io) {}

  // Closed in forked children. RESOURCE_EXHAUSTED and the like: there is no descriptor for it.
  absl::Status Open() {
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return absl::ErrnoToStatus(errno, "an eventfd for the rendezvous");
    runtime::GuardDescriptor(fd);
    rung_.assign(fd);
    return absl::OkStatus();
  }
  // For as long as `owner`, whose member this is, is there.
  void Hear(std::weak_ptr<void> owner) {
    rung_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, owner = std::move(owner)](const asio::error_code& error) mutable {
                       const auto alive = owner.lock();
                       if (error || alive == nullptr) return;
                       eventfd_t rings = 0;
                       ::eventfd_read(fd(), &rings);
                       Hear(std::move(owner));
                     });
  }
  int fd() { return rung_.native_handle(); }
  // Peers that still hold it ring in vain. Does nothing when it is not open.
  void Close() {
    if (!rung_.is_open()) return;
    rung_.cancel();
    runtime::CloseGuarded(rung_.release());
  }

 private:
  asio::posix::stream_descriptor rung_;
};

}  // namespace lockstep::client

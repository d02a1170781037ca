// File descriptors, and waiting for one in a way that can be broken off.
#pragma once

#include <unistd.h>

#include <utility>

#include "lockstep/base/time.h"

namespace lockstep::preempt {

// A file descriptor with one owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  // The other one is left without a descriptor.
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }  // -1: none
  // The caller's from here on.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

enum class Waited { kReady, kInterrupted, kTimedOut };

// Until `fd` (none: -1) is ready for `events` of poll(2), `interrupt` is readable, or `deadline`
// has come; the interrupt comes first.
Waited WaitFor(int fd, short events, int interrupt, Time deadline);

}  // namespace lockstep::preempt

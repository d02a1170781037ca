// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace lockstep::runtime {

// Closes the descriptor when it goes. Threads: thread-compatible.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  // The other one is left without a descriptor.
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }                   // -1: none
  bool valid() const { return fd_ >= 0; }           // whether there is one
  int release() { return std::exchange(fd_, -1); }  // gives it to the caller, who closes it
  // Closes what it has, and owns `fd` from here on.
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace lockstep::runtime

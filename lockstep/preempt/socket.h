// Descriptors, and bytes over TCP with one deadline, which can be broken off. The HTTP sources and
// the webhook are made of these.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/time.h"
#include "lockstep/runtime/loop.h"

namespace lockstep::preempt {

// A file descriptor with one owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

enum class Waited { kReady, kInterrupted, kTimedOut };

// Until `fd` (none: -1) is ready for `events` of poll(2), `interrupt` is readable, or `deadline`
// has come; the interrupt comes first.
Waited WaitFor(int fd, short events, int interrupt, Time deadline);

// Bytes both ways. Errors: DEADLINE_EXCEEDED, CANCELLED when interrupted, UNAVAILABLE.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual absl::Status Write(absl::string_view bytes) = 0;
  // What is there, at least one byte; empty at the end.
  virtual absl::StatusOr<std::string> Read() = 0;
};

// Until when, and what breaks it off.
struct Patience {
  Time deadline = Time::Infinite();
  int interrupt = -1;
};

class TcpStream final : public Stream {
 public:
  // A connected, non-blocking socket.
  TcpStream(Descriptor socket, Patience patience)
      : socket_(std::move(socket)), patience_(patience) {}

  // Each address of `host` in turn. A name is looked up, which cannot be broken off.
  static absl::StatusOr<std::unique_ptr<TcpStream>> Dial(const std::string& host, int port,
                                                         Time connect_deadline, Patience patience);

  absl::Status Write(absl::string_view bytes) override;
  absl::StatusOr<std::string> Read() override;

 private:
  absl::Status Wait(short events);

  const Descriptor socket_;
  const Patience patience_;
};

// A socket that listens at a number of this host's, and the port that it got.
struct Listening {
  Descriptor socket;
  int port = 0;
};
absl::StatusOr<Listening> ListenAt(const std::string& host, int port);
// The next connection, when there is one.
Descriptor AcceptAt(int socket);

}  // namespace lockstep::preempt

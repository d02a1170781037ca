#include "lockstep/preempt/connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::preempt {
namespace {

// So that no deadline is too far for a clock's own arithmetic.
constexpr absl::Duration kSlice = absl::Hours(1);

std::chrono::steady_clock::time_point ToChrono(Time time) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time.nanoseconds()));
}

}  // namespace

Connection::Connection(Patience patience) : patience_(patience), asio_(std::make_unique<Asio>()) {
  if (patience_.interrupt < 0) return;
  // Its own, since Asio closes what it is given.
  Descriptor own(::fcntl(patience_.interrupt, F_DUPFD_CLOEXEC, 0));
  asio_->interrupt.assign(own.get());
  own.Release();
  asio_->interrupt.async_wait(asio::posix::stream_descriptor::wait_read,
                              [this](const asio::error_code& error) { interrupted_ = !error; });
}

Connection::~Connection() {
  runtime::CloseSocket(asio_->socket);
  if (!looking_up_) return;
  // A name server that is slow must not hold us up: somebody else waits until it has answered.
  try {
    std::thread([asio = std::move(asio_)] {}).detach();
  } catch (const std::system_error&) {
    // No thread can be had. Then it was us who waited.
  }
}

absl::Status Connection::Dial(const runtime::Address& to, absl::Duration timeout) {
  LOCKSTEP_DCHECK(!asio_->socket.is_open());  // a connection is dialled once
  asio::error_code is_name;
  asio::ip::make_address(to.host, is_name);
  looking_up_ = bool{is_name};
  using Dialled = std::pair<bool, absl::StatusOr<asio::ip::tcp::socket>>;
  auto dialled = std::make_shared<Dialled>(false, absl::UnavailableError("nobody was dialled"));
  runtime::Dial(asio_->io, to, std::min(timeout, patience_.deadline - runtime::MonotonicNow()),
                [dialled](absl::StatusOr<asio::ip::tcp::socket> socket) {
                  *dialled = {true, std::move(socket)};
                });
  if (absl::Status status = Await(dialled->first); !status.ok()) return status;
  if (!dialled->second.ok()) return dialled->second.status();
  looking_up_ = false;
  asio_->socket = *std::move(dialled->second);
  return absl::OkStatus();
}

void Connection::TakeOver(Descriptor socket) {
  LOCKSTEP_DCHECK(socket.get() >= 0 && !asio_->socket.is_open());
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  asio_->socket.assign(address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(),
                       socket.get());
  socket.Release();
}

absl::Status Connection::Await(const bool& done) {
  asio_->io.restart();
  while (!done) {
    if (interrupted_) return absl::CancelledError("broken off");
    const Time now = runtime::MonotonicNow();
    // Also where bytes are there: one who sends a few at a time has no longer for it.
    if (now >= patience_.deadline) {
      return absl::DeadlineExceededError("no whole answer came in time");
    }
    asio_->io.run_one_until(ToChrono(std::min(patience_.deadline, now + kSlice)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Listening> ListenAt(const runtime::Address& at) {
  asio::io_context io;
  absl::StatusOr<asio::ip::tcp::acceptor> acceptor = runtime::Listen(io, at);
  if (!acceptor.ok()) return acceptor.status();
  acceptor->non_blocking(true);
  const int port = acceptor->local_endpoint().port();
  return Listening{.socket = Descriptor(acceptor->release()), .port = port};
}

Descriptor AcceptAt(int socket) {
  return Descriptor(::accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

}  // namespace lockstep::preempt

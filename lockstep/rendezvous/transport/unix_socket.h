// Unix sockets that carry whole messages with descriptors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asio/io_context.hpp"
#include "asio/posix/stream_descriptor.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::transport {

// One connection (SOCK_SEQPACKET). Closed in forked children. Threads: loop-confined, but `Send`
// and `Receive` are system calls that any thread may make.
class UnixSocket : public std::enable_shared_from_this<UnixSocket> {
 public:
  struct Message {
    std::string bytes;
    std::vector<runtime::UniqueFd> fds;
  };
  // `address`: as a card says it, a name with @ in front. Never blocks: UNAVAILABLE.
  static absl::StatusOr<std::shared_ptr<UnixSocket>> Connect(asio::io_context& io,
                                                             const std::string& address);
  // Takes a connected socket over.
  UnixSocket(asio::io_context& io, int fd);
  ~UnixSocket();

  // Calls, on the loop, whenever there is something to receive or the other end has closed; whoever
  // is called receives until there is nothing, or closes. Replaces the one before.
  void OnReadable(std::function<void()> readable);
  // All as one message, or nothing. UNAVAILABLE: the socket is full, or the other end gone.
  // `fds` stay the caller's.
  absl::Status Send(std::string_view bytes, std::span<const int> fds);
  // A message that is there already, or nothing. UNAVAILABLE: the other end has closed.
  absl::StatusOr<std::optional<Message>> Receive();
  // Calls nobody back any more.
  void Close();
  // The same, but the descriptor stays open and is the caller's, for `runtime::CloseGuarded`. -1:
  // it was closed before.
  int Release();

  // -1: it was closed.
  int fd() { return socket_.native_handle(); }

 private:
  void Wait();

  asio::posix::stream_descriptor socket_;
  std::function<void()> readable_;
  bool waiting_ = false;
};

// Listens under a name of its own in the abstract namespace: nothing is left behind. Threads:
// loop-confined.
class UnixListener : public std::enable_shared_from_this<UnixListener> {
 public:
  using Accepted = std::function<void(std::shared_ptr<UnixSocket>)>;

  // `name`: without the @; unguessable is not needed, unique is.
  static absl::StatusOr<std::shared_ptr<UnixListener>> Start(asio::io_context& io,
                                                             const std::string& name,
                                                             Accepted accepted);
  ~UnixListener();
  // Accepts nobody any more. Again: nothing.
  void Close();

 private:
  UnixListener(asio::io_context& io, int fd, Accepted accepted);
  void Wait();
  void Ready();

  asio::io_context& io_;
  asio::posix::stream_descriptor socket_;
  asio::steady_timer pause_;
  Accepted accepted_;
};

}  // namespace lockstep::transport

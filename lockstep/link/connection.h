// One end of a link: a socket that carries messages and knows whether the other end is there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/time.h"
#include "lockstep/link/frame.h"
#include "lockstep/link/options.h"

namespace lockstep::link {

// Reads and writes messages, sends pings, and ends when the other end is silent, breaks the rules
// or reads too slowly. What the messages mean is its owner's business; pings, farewells and unknown
// types are its own.
//
//   kGreeting --Welcomed()--> kOpen --> kClosing (farewell on its way) --> kClosed
//
// Threads: loop-confined (to `io`). Ownership: alive while an operation is pending or somebody
// holds it; calls its owner only until `Abandon`. Bounds: LinkOptions; a closing link lasts a
// second.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Events {
    std::function<void(Message)> message;
    // Once, never from within a call of the owner's. `why` is never OK.
    std::function<void(absl::Status why)> closed;
  };

  ~Connection();

  static std::shared_ptr<Connection> Start(asio::io_context& io, asio::ip::tcp::socket socket,
                                           const LinkOptions& options, Events events);

  // The hello was accepted: the bounds of an open link hold from here.
  void Welcomed();

  // Ignored once the link is closing.
  void Send(Message message);

  // Writes what waits and then a farewell (or `last`), and closes. `why` goes to `closed`.
  void Close(absl::Status why, std::string_view farewell_reason);
  void CloseWith(Message last, absl::Status why);

  // Closes at once and calls nobody any more.
  void Abandon();

  // HOST:PORT of the other end.
  const std::string& peer() const { return peer_; }

 private:
  enum class State { kGreeting, kOpen, kClosing, kClosed };

  Connection(asio::io_context& io, asio::ip::tcp::socket socket, const LinkOptions& options,
             Events events);

  void Read();
  void Take(std::string_view bytes);
  void Dispatch(Message message);
  void Write();
  void Written(const asio::error_code& error);
  void ArmTimer();
  void TimerFired(Time due);
  Time NextDue() const;
  void Break(absl::Status why);

  asio::io_context& io_;
  asio::ip::tcp::socket socket_;
  const LinkOptions options_;
  Events events_;
  const std::string peer_;

  State state_ = State::kGreeting;
  absl::Status why_;  // set from kClosing on
  MessageReader reader_;
  Outbox outbox_;
  std::vector<char> read_buffer_;
  std::string write_buffer_;  // being written when not empty
  asio::steady_timer timer_;
  Time state_since_;
  Time last_heard_;
  Time last_sent_;
};

}  // namespace lockstep::link

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
#include "lockstep/platform/link/channel.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/link_life.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/platform/runtime/memory_account.h"

namespace lockstep::link {

// Reads and writes messages, sends pings, and ends when the other end is silent, breaks the rules
// or reads too slowly. What the messages mean is its owner's business; pings, farewells and unknown
// types are its own. What is sent in one turn of the loop goes out in one piece after it; in answer
// to what was read, as soon as all of that is taken.
//
// Who sends much at once is served in turns with the others: after kMessagesPerTurn messages or
// runtime::TurnBudget::kTime the rest waits for the next turn of the loop, in order, and nothing
// more is read meanwhile.
//
// LinkLife has its states and deadlines: the greeting ends with `Welcomed`, and a link closes while
// its farewell is on its way.
//
// Threads: loop-confined (to `io`). Ownership: alive while an operation is pending or somebody
// holds it; calls its owner only until `Abandon`. Bounds: LinkOptions; a closing link lasts a
// second.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Events {
    std::function<void(Message&&)> message;
    // Once, never from within a call of the owner's. `why` is never OK; `ClosedByPeer` says more.
    std::function<void(absl::Status why)> closed;
  };

  static constexpr size_t kMessagesPerTurn = 64;

  ~Connection();

  // `memory`: whose account it is in; outlives it. Null: in none.
  static std::shared_ptr<Connection> Start(asio::io_context& io, std::shared_ptr<Channel> channel,
                                           const LinkOptions& options, Events events,
                                           runtime::MemoryAccount* memory = nullptr);
  // Without TLS.
  static std::shared_ptr<Connection> Start(asio::io_context& io, asio::ip::tcp::socket socket,
                                           const LinkOptions& options, Events events,
                                           runtime::MemoryAccount* memory = nullptr) {
    return Start(io, std::make_shared<Channel>(std::move(socket)), options, std::move(events),
                 memory);
  }

  // The hello was accepted: the bounds of an open link hold from here. `peer_message_bytes_max`:
  // what the other end says that it takes; 0: nothing.
  void Welcomed(size_t peer_message_bytes_max = 0);

  // Whether a message of so many bytes may be sent: else the other end reads too slowly
  // (write_queue_bytes_max), and sending it would break the link.
  bool HasRoom(size_t bytes) const;

  // Ignored once the link is closing. With a payload that others send as well, instead of the
  // message's own.
  void Send(Message message);
  // `payload` is not copied: it stays as it is until it is written.
  void Send(Message message, std::shared_ptr<const std::string> payload);

  // As Send, but written with what is written next: `SendNow`, perhaps of nothing.
  void Queue(Message message, std::shared_ptr<const std::string> payload);

  // Writes them now, for somebody who waits for the answers and sends nothing more meanwhile.
  void SendNow(std::vector<Message> messages);

  // Writes what waits and then a farewell (or `last`), and closes. `why` goes to `closed`.
  void Close(absl::Status why, std::string_view farewell_reason);
  // Ignored once the link is closing.
  void Close(Message last, absl::Status why);

  // Closes at once and calls nobody any more.
  void Abandon();

  // What it says of itself, for who looks who holds memory.
  void SetName(const std::string& who) { share_.SetPart(who + " at " + peer_); }

  // HOST:PORT of the other end.
  const std::string& peer() const { return peer_; }
  // Whether it is by TLS, and with whose certificate. Of an end that accepts either that is known
  // once something has come.
  const Channel& channel() const { return *channel_; }

 private:
  // When what is sent goes out.
  enum class Flush {
    kWithNextSend,  // nothing waits for its turn
    kPosted,        // a write is posted to the loop
    kAfterTaking,   // when all that was read is taken
  };

  Connection(asio::io_context& io, std::shared_ptr<Channel> channel, const LinkOptions& options,
             Events events, runtime::MemoryAccount* memory);

  void Read();
  void ReadDone(const asio::error_code& error, size_t bytes);
  // Takes what was read, in as many turns as it needs; then reads on.
  void TakeAll();
  // False: the turn is over, and there is more.
  bool Take();
  void Dispatch(Message&& message);
  bool MaySend(size_t bytes);
  // Tells the account what is held.
  void Count();
  void WriteSoon();
  void Write();
  void Written(const asio::error_code& error);
  void ArmTimer();
  void TimerFired(Time due);
  // Ends the link when the other end is silent, does not go on with what it began or takes nothing.
  void LookAround(Time now);
  void Break(absl::Status why);

  asio::io_context& io_;
  const std::shared_ptr<Channel> channel_;
  const LinkOptions options_;
  std::shared_ptr<const Events> events_;  // null: nobody is called any more
  const std::string peer_;

  LinkLife life_;
  runtime::MemoryShare share_;
  MessageReader reader_;
  Outbox outbox_;
  Batch batch_;  // being written when not empty
  Flush flush_ = Flush::kWithNextSend;
  asio::steady_timer timer_;
};

// Whether the other end closed the connection, as the kernel does when its process dies. Otherwise
// we did, or the network: no proof of anything about the process.
bool ClosedByPeer(const absl::Status& why);

}  // namespace lockstep::link

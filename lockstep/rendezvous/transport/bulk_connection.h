// A connection to where the values of one member are fetched.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/ip/tcp.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/rendezvous/transport/bulk_loop.h"
#include "lockstep/rendezvous/transport/bulk_socket.h"
#include "lockstep/rendezvous/transport/card.h"
#include "lockstep/rendezvous/transport/door.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::transport {

// Made when it is wanted, and again when it breaks, until it is closed.
//
//   kIdle --Open--> kFinding --card--> kDialing --> kGreeting --> kUp
//                      '<----- after a pause, if wanted ----- broken'
//
// Threads: confined to its loop. Bounds: what its owner sends.
class BulkConnection : public std::enable_shared_from_this<BulkConnection> {
 public:
  using FoundCard = std::function<void(absl::StatusOr<Card>)>;
  // What comes goes there, in this order.
  struct Room {
    std::array<iovec, 2> pieces;
    size_t count = 0;
  };
  struct Options {
    std::string name;  // of the member, for texts
    absl::Duration dial_timeout;
    absl::Duration retry_first;
    absl::Duration retry_last;
    Card self;  // ours
  };
  // May close it.
  struct Events {
    // Calls back on any thread.
    std::function<void(FoundCard)> find_card;
    // The first message to who has that card.
    std::function<std::string(const Card&)> hello;
    std::function<void(const Card&, const wire::native::PeerWelcome&)> up;
    std::function<Room()> room;
    // So many bytes came into the room. An error: it breaks the protocol.
    std::function<absl::Status(size_t bytes)> take;
    // It is not up any more, or did not come up. Whether another one is wanted.
    std::function<bool(const absl::Status& why)> broken;
    // The other end breaks the protocol.
    std::function<void(const absl::Status& why)> refused;
  };

  BulkConnection(BulkLoop& loop, Options options, Events events);
  ~BulkConnection();

  // Does nothing but when it is idle.
  void Open();
  bool up() const { return stage_ == Stage::kUp; }
  // When it is up.
  void Send(std::string_view bytes);
  // As when it breaks by itself.
  void Break(const absl::Status& why);
  // It is idle.
  void Close();

 private:
  enum class Stage { kIdle, kFinding, kDialing, kGreeting, kUp, kPausing };

  void Find();
  void Dial(const absl::StatusOr<Card>& card);
  void Dialed(absl::StatusOr<ProvenConnection> dialed);
  void Disconnect();
  void Write();
  void WaitToRead();
  void Readable();
  ssize_t ReadWelcome();
  ssize_t ReadBytes();
  absl::Status Take(size_t count);
  absl::Status TakeGreeting();

  BulkLoop& loop_;
  const Options options_;
  const Events events_;
  Stage stage_ = Stage::kIdle;
  asio::ip::tcp::socket socket_;
  std::shared_ptr<BulkSocket> bytes_;  // of that socket; null: there was none yet
  asio::steady_timer pause_;
  int failures_ = 0;
  Card card_;
  std::string out_;
  bool writing_ = false;
  std::string in_;  // before the welcome
};

}  // namespace lockstep::transport

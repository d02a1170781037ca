// Who is connected to a store. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/time.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/view.h"

namespace lockstep::tcpstore {

// Knows of each connection where it calls from, which rank is behind it, and the queues for whose
// values it was woken: torch's clients wait for one thing at a time, others may wait for several. A
// woken client has a value only when it takes it with its next command; if it does something else,
// the values are for the next who wait.
//
// Owns what is known of connections. Threads: thread-compatible. Bounds: one entry for each
// connection, whose number its listener limits.
class Clients {
 public:
  // A connection, before its first command; `peer` is where it calls from.
  void Came(ConnectionId connection, std::string peer);
  // Forgets it, and says the queues that it was woken for and whose values it did not take.
  std::vector<std::string> Left(ConnectionId connection);

  // Until it `Left`.
  bool Has(ConnectionId connection) const { return clients_.contains(connection); }

  // It is told that the queue has a value.
  void Woken(ConnectionId connection, const std::string& queue);
  // Its next command. Says the queues that it was woken for and whose values it does not take: all
  // of them, unless it takes one.
  std::vector<std::string> Asks(ConnectionId connection, const Command& command);
  // Whether anybody has been told so and has neither taken the value nor done anything else since.
  bool AnyWoken() const { return woken_ > 0; }
  // How many were told so of this queue and have neither taken the value nor done anything else
  // since.
  size_t CountWoken(absl::string_view queue) const;

  // It has made this key. Torch's ranks set a key of their own first, whose name has the rank.
  void MadeKey(ConnectionId connection, absl::string_view key);

  // As `status` shows one that waits since then; it is connected.
  WaiterView View(ConnectionId connection, Time since) const;

  size_t size() const { return clients_.size(); }  // that are connected
  // What they cost.
  size_t memory() const { return clients_.size() * kClientBytes; }

 private:
  static constexpr size_t kClientBytes = 192;

  struct Client {
    std::string peer;
    std::optional<int32_t> rank;
    std::vector<std::string> woken_for;  // in this order
  };

  absl::flat_hash_map<ConnectionId, Client> clients_;  // never iterated for effects
  size_t woken_ = 0;                                   // of all of them, for how many values
};

}  // namespace lockstep::tcpstore

// Those who wait for keys of a store, and at its barriers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/time.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/key_space.h"

namespace lockstep::tcpstore {

// Keeps each wait at one key that is missing, as coord::KeyWaits does: a wait for many keys moves
// on to the next missing one whenever its own comes. So a write costs one look-up and the waits
// that it moves, and ten thousand connections that each wait for ten thousand keys cost their names
// once.
//
// Invariants: (1) the key at which a wait is kept has no value, but perhaps a queue whose values
// are others' to take; (2) each wait is answered once, unless it is cancelled or its connection
// leaves; (3) the size of a barrier at which somebody waits is above 0.
//
// Threads: thread-compatible. Bounds: how many waits a connection has is bounded by whoever parks
// them.
class StoreWaits {
 public:
  struct Waiter {
    ConnectionId connection;
    Time since;
    std::vector<std::string> keys;  // of a wait for many: all of them
    size_t at = 0;                  // which of them it is kept at
    int64_t barrier_size = 0;
    size_t cost = 0;  // in bytes
  };
  using Waiters = absl::btree_map<uint64_t, Waiter>;  // in the order of arrival
  struct Slot {
    Waiters waiting;
    Waiters at_barrier;
  };

  // The first of the keys that is missing, looked for from `from` on and round.
  template <class KeyList>
  static std::optional<size_t> FirstMissing(const KeyList& keys, size_t from,
                                            const KeySpace& there) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const size_t at = from + i < keys.size() ? from + i : from + i - keys.size();
      if (!there.Exists(absl::string_view(keys[at]))) return at;
    }
    return std::nullopt;
  }

  // keys[at] is missing.
  void Park(Time now, ConnectionId connection, const Keys& keys, size_t at);
  // Until `Counted` says that many, which is more than 0. It waits for no value.
  void ParkAtBarrier(Time now, ConnectionId connection, const Barrier& barrier);

  // The key has a value: whoever waits for it is answered, or moves on.
  void KeySet(absl::string_view key, const KeySpace& there, Effects& out);
  // The key's queue has one more value, which is for one of them: the first that needs nothing
  // else.
  std::optional<ConnectionId> QueuePushed(absl::string_view key, const KeySpace& there,
                                          Effects& out);
  // The number under the key was added to.
  void Counted(absl::string_view key, int64_t count, Effects& out);

  // Cancelled, or its connection left: nothing of it is answered.
  void Forget(ConnectionId connection);

  // Each of its waits, with the key that it is kept at and those among whom it waits there:
  // `barrier` says which of the slot's two lists that is.
  using WaitVisitor = absl::FunctionRef<void(const std::string& key, bool barrier,
                                             const Waiters& among, const Waiter& waiter)>;
  // In no order. `visit` must not change the waits.
  void ForEachOf(ConnectionId connection, WaitVisitor visit) const;

  size_t Count(ConnectionId connection) const;  // waits of this connection
  size_t size() const { return waits_; }        // waits of all of them
  // What they cost; and what one for these keys does.
  size_t bytes() const { return bytes_; }
  static size_t CostOf(const Keys& keys);  // in bytes
  // By the key that is waited for; none is empty.
  const absl::node_hash_map<std::string, Slot>& slots() const { return slots_; }

  // Invariants (1) and (3), and that no wait is counted twice or forgotten, by looking at
  // everything.
  bool InvariantsHold(const KeySpace& there) const;

 private:
  using Node = std::pair<const std::string, Slot>;
  struct Place {
    Node* node;
    uint64_t number;
    bool barrier;
  };

  void Keep(absl::string_view key, uint64_t number, bool barrier, Waiter waiter);
  // Forgets where the wait is kept, not the wait.
  void Unlink(const Waiter& waiter, uint64_t number);
  void EraseIfEmpty(Node* node);

  absl::node_hash_map<std::string, Slot> slots_;  // never iterated for effects
  absl::flat_hash_map<ConnectionId, absl::InlinedVector<Place, 1>> places_;
  uint64_t next_number_ = 1;
  size_t waits_ = 0;
  size_t bytes_ = 0;
};

}  // namespace lockstep::tcpstore

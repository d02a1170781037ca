// One step's keys: what has come and nobody has received, and who waits for what has not come.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/hash/hash.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::rendezvous {

// One call of the program's that is answered later, once. Chosen by the shell, never used again.
using OpId = Id<struct OpIdTag, uint64_t>;

// A key as one member sees it: the other member, and the name between the two.
struct KeyView {
  MemberIndex peer;
  std::string_view name;
};

struct KeyId {
  MemberIndex peer;
  std::string name;

  KeyId() = default;
  explicit KeyId(KeyView key) : peer(key.peer), name(key.name) {}
  operator KeyView() const { return {peer, name}; }  // NOLINT: a view of it
};

// Keys are found by their hash and told apart by themselves. `mask` makes collisions, for tests.
struct KeyHash {
  using is_transparent = void;
  size_t mask = ~size_t{0};
  size_t operator()(KeyView key) const { return absl::HashOf(key.peer.value(), key.name) & mask; }
};

struct KeyEqual {
  using is_transparent = void;
  bool operator()(KeyView a, KeyView b) const { return a.peer == b.peer && a.name == b.name; }
};

// For orders that do not depend on a hash.
struct KeyLess {
  bool operator()(KeyView a, KeyView b) const {
    return a.peer != b.peer ? a.peer < b.peer : a.name < b.name;
  }
};

// A value that came for us.
struct Arrived {
  // Its sender is gone.
  void Disown() {
    lease = LeaseId();
    counts = false;
    tell = false;
  }

  Value value;
  LeaseId lease;                      // of its sender; 0: none
  std::shared_ptr<const void> place;  // where it lies, for the shell that put it here
  bool away = false;                  // its bytes must be fetched
  bool counts = false;                // against our credit, or our quota if we sent it ourselves
  bool tell = false;                  // its sender wants to hear that it was received
  OpId told;                          // sent to ourselves: who wants to hear that it was received
  Time since;
};

// Values and receives of the keys of one step, matched in the order in which they came: the k-th
// value of a key goes to its k-th receive.
//
// Receives that have waited for a while are wanted of the sender, in their order. A want is for the
// next value, whichever receive gets it, so that wants belong to the key and not to a receive. When
// one of those receives leaves, a want goes with it: the one that was answered, otherwise the
// newest, which has the best chance not to be answered yet and must be taken back.
//
// Invariants: (1) a key has values or receives, never both, and is forgotten when it has neither;
// (2) each value goes to one receive at most; (3) of n wants of a key its first n receives are the
// cause.
//
// Threads: thread-compatible. Bounds: those of whoever lets values and receives in.
class StepTable {
 public:
  explicit StepTable(KeyHash hash = {}) : keys_(0, hash) {}

  // A receive that does not wait any more, and the want that is to be taken back since; 0: none.
  struct RemovedWaiter {
    OpId op;
    WantId unwanted;
  };

  // The receive that gets this value, which was offered for the want `answers`; none: the value is
  // kept, and `value` is taken.
  std::optional<RemovedWaiter> Arrive(KeyView key, WantId answers, Arrived& value);
  // The value that this receive gets; none: it waits.
  std::optional<Arrived> Ask(KeyView key, OpId op);

  // As Arrive, of a value that was given out but not received: it comes before all others.
  std::optional<RemovedWaiter> PutBack(KeyView key, Arrived& value);

  // The first receive for which nothing is wanted yet now is. Ids go up.
  void Want(KeyView key, WantId want);
  // None: it does not wait.
  std::optional<RemovedWaiter> Forget(KeyView key, OpId op);
  // These wants are answered by no value: the last of those who wait for that, as many as there
  // are, do not wait any more. In their order.
  std::vector<OpId> Refuse(KeyView key, WantId first, WantId last);

  // Those who wait for any key of this member, or for any; they do not any more, and nothing is
  // wanted for them. In their order.
  std::vector<OpId> TakeWaitersOf(MemberIndex peer);
  std::vector<OpId> TakeWaiters();
  // The values that nobody has received.
  std::vector<std::pair<KeyId, Arrived>> TakeValues();
  // This sender is gone: the values that it did not bring, and all behind them, which cannot be
  // the next of their keys any more. `fetched`: keys whose first value has been given out, and
  // will not come either.
  std::vector<std::pair<KeyId, Arrived>> TakeLostWith(MemberIndex peer,
                                                      std::span<const KeyId> fetched);
  // Their sender is gone: the values that are left of it are not its concern any more.
  void Disown(MemberIndex peer);

  bool empty() const { return keys_.empty(); }
  size_t waiting(KeyView key) const;

  // Calls `see(key, oldest value or null, values, waiters)` for each key, in no order.
  template <class See>
  void ForEach(const See& see) const {
    for (const auto& [key, entry] : keys_) {
      see(key, entry.values.empty() ? nullptr : &entry.values.front(), entry.values.size(),
          entry.waiters);
    }
  }

 private:
  struct Entry {
    std::list<Arrived> values;
    std::list<OpId> waiters;
    std::list<WantId> wants;
  };
  using Keys = absl::node_hash_map<KeyId, Entry, KeyHash, KeyEqual>;

  Entry& EntryOf(KeyView key);
  std::optional<RemovedWaiter> TakeFirstWaiter(KeyView key, WantId answers);
  template <class Choose>
  std::vector<OpId> TakeWaitersIf(const Choose& choose);
  template <class Choose>
  std::vector<std::pair<KeyId, Arrived>> TakeValuesIf(const Choose& choose);

  Keys keys_;  // never iterated for effects, but sorted
};

}  // namespace lockstep::rendezvous

// What a member holds for others in one step, and who waits for what it has not sent. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/node_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::rendezvous {

// A value that was sent and is not offered yet.
struct HeldValue {
  Value value;
  OpId told;           // the send that waits for its receiver; 0: none
  uint64_t order = 0;  // of sending, to all members together
  Time since;
};

// Invariant: a key has values or wants, never both, and is forgotten when it has neither.
//
// Threads: thread-compatible. Bounds: those of whoever lets values and wants in.
class StepOutbox {
 public:
  // Nobody wants it: `TakeWant` came first.
  void Hold(KeyView key, HeldValue held);
  // The value that was sent first; null: there is none.
  const HeldValue* Front(KeyView key) const;
  std::optional<HeldValue> TakeFront(KeyView key);
  // All, or those for this member; in the order in which they were sent.
  std::vector<std::pair<MemberIndex, HeldValue>> TakeHeld(std::optional<MemberIndex> to);
  size_t held() const { return held_; }

  // There is nothing held under the key. `count` of them, from `first` up; returns how many are
  // new.
  size_t AddWants(KeyView key, WantId first, size_t count, Time since);
  // The oldest want of the key.
  std::optional<WantId> TakeWant(KeyView key);
  // False: there is no such want (any more).
  bool ForgetWant(KeyView key, WantId want);
  // Of that member; how many there were.
  size_t ForgetWantsOf(MemberIndex peer);

  struct KeyWants {
    KeyId key;
    WantId first;
    WantId last;
    size_t count = 0;
  };
  // All wants, in the order of their keys.
  std::vector<KeyWants> TakeWants();

  // Calls `see(key, oldest value or null, count, since)` for each key, in no order.
  template <class See>
  void ForEach(const See& see) const {
    for (const auto& [key, entry] : keys_) {
      if (!entry.values.empty()) {
        const HeldValue& oldest = entry.values.front();
        see(key, &oldest.value, entry.values.size(), oldest.since);
      } else {
        see(key, nullptr, entry.wants.size(), entry.wants.begin()->second);
      }
    }
  }

 private:
  struct Entry {
    std::list<HeldValue> values;
    absl::btree_map<WantId, Time> wants;  // since when
  };

  absl::node_hash_map<KeyId, Entry, KeyHash, KeyEqual> keys_;  // never iterated, but sorted
  size_t held_ = 0;
};

}  // namespace lockstep::rendezvous

// Which keys end by themselves: at a time, or with the member that owns them. Pure.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/stored_key.h"

namespace lockstep::coord {

// Finds the keys that are due without looking at the others. It holds names only; the owner of the
// table tells it of each change of a key that has a lease.
//
// The keys of a member that is gone are dying: they are still read until the table removes them, a
// few in each turn. `TakeDying` lists them in the order in which their members went.
//
// Invariants: (1) a key with a finite `expires` has exactly one place by time, at that time; (2) a
// key with an owner is owned by it, or dies.
//
// Threads: thread-compatible. Bounds: two names for each key, those of dying keys included. Time:
// a key is due from `expires` on.
class KeyLeases {
 public:
  // The key, which held `old` (null: nothing), holds `stored` from now on.
  void Grant(const std::string& key, const StoredKey* old, const StoredKey& stored);
  // The key, which held `stored`, is removed.
  void End(const std::string& key, const StoredKey& stored);

  // The keys of this member die from now on. Returns false when it has none.
  bool OwnerGone(MemberIndex owner);
  // Whether the key belongs to a member that is gone: it is still to be removed.
  bool Dies(absl::string_view key, const StoredKey& stored) const;

  bool any_dying() const { return !dying_.empty(); }
  // The next of the keys that died with their members, which is taken off the list; nothing when
  // there is none. The key may have been removed meanwhile, or be another member's: ask `Dies`.
  std::optional<std::string> TakeDying();

  // The key that was due first, at `now` or before; null when none is. It stays due until `End`.
  const std::string* FindExpired(Time now) const;
  // When the first key is due; infinite when none has a time.
  Time FirstExpiry() const;

 private:
  void Disown(MemberIndex owner, const std::string& key);

  absl::btree_set<std::pair<Time, std::string>> expiries_;
  absl::flat_hash_map<MemberIndex, absl::btree_set<std::string>> owned_;  // looked up only
  // What members owned that are gone, oldest first; no set is empty.
  std::deque<absl::btree_set<std::string>> dying_;
};

}  // namespace lockstep::coord

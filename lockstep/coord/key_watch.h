// What has changed among the keys lately, and those who want to hear what changes next. Pure.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/stored_key.h"

namespace lockstep::coord {

// Remembers which keys changed at which revision, not what they held: who is behind gets each key
// that changed once, as it is now. Values that nobody can read any more are not kept for it.
//
// A watcher of all keys may be one that does not see the hidden ones (key_rights.h): for it they do
// not change.
//
// A watcher is parked under what it watches. A change looks up only those directories of its key
// that somebody watches, so that it costs nothing to watch elsewhere.
//
// Invariants: (1) all changes after `floor()` are remembered; (2) a parked watcher has been told of
// all changes so far; (3) each watcher is answered once, unless it leaves.
//
// Threads: thread-compatible. Bounds: kept_key_changes_max changes, the oldest are forgotten;
// page_bytes_max an answer to who is behind, unless one change alone is larger. How many watch is
// bounded by whoever lets them in.
class KeyWatch {
 public:
  explicit KeyWatch(const CoordinatorOptions& options) : options_(options) {}

  // The key has this value from `revision` on; null: none. Whoever watches it is told by the next
  // `Publish`.
  void Note(absl::string_view key, const StoredKeyPtr& stored, int64_t revision);
  // To be called once after the changes of an event.
  void Publish(Effects& out);
  // All that was there at `revision` is known by snapshots only.
  void Forget(int64_t revision);

  // What changed at or below `directory` after the revision `after`, which is not below `floor()`.
  // `current` is the store's revision.
  KeysChanged Since(absl::string_view directory, int64_t after, int64_t current, KeyLookup lookup,
                    bool sees_hidden = true) const;
  // `moves_on`: it wants to hear of the next attempt's keys as well.
  void Park(CallId call, absl::string_view directory, bool moves_on, bool sees_hidden = true);

  // The caller left. False when it does not watch.
  bool Forget(CallId call);
  void FailAll(const ErrorPtr& error, Effects& out);
  // The next attempt begins, without keys, at this revision: those who want to hear of it are told.
  void MoveOn(int64_t revision, Effects& out);

  int64_t floor() const { return floor_; }
  size_t waits() const { return calls_.size(); }
  // What those who watch cost, in bytes; and what it costs to park one.
  size_t bytes() const { return calls_.size() * kWatchBytes + 2 * directory_bytes_; }
  static size_t CostOf(const WatchKeys& request) { return kWatchBytes + 2 * request.key.size(); }
  // What the changes cost that are remembered.
  size_t change_bytes() const { return changes_.size() * kChangeBytes + change_bytes_; }

 private:
  // Nodes and headers, about.
  static constexpr size_t kWatchBytes = 256;
  static constexpr size_t kChangeBytes = 64;

  struct Change {
    std::string key;
    int64_t revision = 0;
  };
  using Watchers = absl::btree_set<CallId>;
  using Slot = std::pair<const std::string, Watchers>;

  struct Watcher {
    Slot* slot = nullptr;
    bool moves_on = false;
    bool sees_hidden = true;
  };

  void Drop(const Slot& slot);

  const CoordinatorOptions& options_;
  std::deque<Change> changes_;  // oldest first
  size_t change_bytes_ = 0;     // of the names in it
  size_t directory_bytes_ = 0;  // of the names in slots_
  int64_t floor_ = 0;
  std::vector<KeyValue> unpublished_;                 // null values: deleted
  absl::node_hash_map<std::string, Watchers> slots_;  // by directory; never iterated for effects
  absl::btree_map<size_t, size_t> lengths_;           // how many directories have this length
  absl::flat_hash_map<CallId, Watcher> calls_;        // never iterated for effects, but sorted
};

}  // namespace lockstep::coord

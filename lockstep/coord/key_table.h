// The keys of one attempt, their values and their revisions. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/key_leases.h"
#include "lockstep/coord/key_waits.h"
#include "lockstep/coord/key_watch.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/stored_key.h"

namespace lockstep::coord {

// What one turn removes.
struct KeySlice {
  size_t keys = 0;
  size_t bytes = 0;
  bool full() const { return keys >= kDyingKeysSliceMax || bytes >= kDyingBytesSliceMax; }
};

// Holds values under ordered keys, in normal spelling. A `/` in a key makes directories, which
// exist as long as something is below them.
//
// Each change takes the next revision, is in a record, and is told to those who wait for the key
// (KeyWaits) or follow it (KeyWatch). Whoever removes keys calls `KeyWatch::Publish` afterwards,
// once for an event; `Write` does so itself.
//
// Invariants: (1) `bytes` is the sum over all keys and values, and `memory` that of their costs;
// (2) no key is at a revision above the table's; (3) every change is in a record.
//
// Threads: thread-compatible. Bounds: keys_max, value_bytes_max, store_bytes_max. Time: a key with
// a lease goes when it is due, not before `RemoveDead` is called.
class KeyTable {
 public:
  using Keys = absl::btree_map<std::string, StoredKeyPtr>;
  // Where a key is, or would be. Valid until the table changes.
  struct Place {
    absl::string_view key;
    Keys::iterator it;
    bool there = false;
  };
  // How long a value stays.
  struct Terms {
    Time expires = Time::Infinite();
    std::optional<MemberIndex> owner;
  };

  // `waits` and `watch` must outlive it. `first_revision`: of the empty table. Above all that
  // another table of the job ever had, so that who comes from there is known to know nothing.
  KeyTable(const CoordinatorOptions& options, int64_t first_revision, KeyWaits& waits,
           KeyWatch& watch);
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  Place Find(absl::string_view key);
  // What is under the key, or null.
  StoredKeyPtr Lookup(absl::string_view key) const;
  const Keys& keys() const { return keys_; }
  // Whether the key of a member that is gone is still to be removed.
  bool Dies(absl::string_view key, const StoredKey& stored) const {
    return leases_.Dies(key, stored);
  }
  // `visit`s the first keys below the directory and behind `after`, in order; it changes nothing
  // here. Returns whether there are more.
  using Visitor = absl::FunctionRef<void(absl::string_view key, const StoredKey& stored)>;
  bool ForEachBelow(absl::string_view directory, absl::string_view after, size_t keys_max,
                    Visitor visit) const;

  // Null: the value is written, and `place` is where. RESOURCE_EXHAUSTED (limit_exceeded): there is
  // no room for it; nothing was changed.
  ErrorPtr Write(Time now, Place& place, std::string value, const Terms& terms, Effects& out);

  // What is below this is everything: no key is called so, since slashes at the ends do not count.
  static constexpr absl::string_view kEverything = "/";
  // Removes the key (with what is below it), at one revision and with one record. Returns how many
  // keys went; with none, the revision stays.
  int64_t Delete(absl::string_view key, bool below, Effects& out);

  // Whether what begins with `prefix` is more than one turn may remove.
  bool IsLong(absl::string_view prefix) const;
  // Removes the keys that begin with `prefix` and lie behind `after` (empty: all), as far as the
  // slice goes, with a record for each; `after` is then the last that went. Adds their number to
  // `deleted`. Returns whether there are more.
  bool DeleteSlice(absl::string_view prefix, std::string& after, KeySlice& slice, int64_t& deleted,
                   Effects& out);
  // Removes one key, at a revision of its own.
  void DeleteOne(Keys::iterator it, Effects& out);

  // The member's keys die from now on. Returns false when it has none.
  bool OwnerGone(MemberIndex owner) { return leases_.OwnerGone(owner); }
  // Removes keys that die or whose time is up, as far as the slice goes.
  void RemoveDead(Time now, KeySlice& slice, Effects& out);
  bool any_dying() const { return leases_.any_dying(); }
  // When a key is due; the beginning of time while some die.
  Time NextDeadline() const;

  // INVALID_ARGUMENT: no state could have written this record next.
  absl::Status Apply(Time at, const record::KeySet& record);
  absl::Status Apply(const record::KeyDeleted& record);
  void Snapshot(std::vector<TimedRecord>& out) const;

  int64_t revision() const { return revision_; }
  size_t size() const { return keys_.size(); }
  size_t bytes() const { return bytes_; }
  // What the keys cost: nodes and headers included.
  size_t memory() const { return memory_; }

 private:
  ErrorPtr CheckRoom(const Place& place, size_t value_bytes) const;
  // The changes themselves, live or restored.
  void Put(Place& place, StoredKeyPtr stored);
  Keys::iterator Erase(Keys::iterator it, int64_t revision);
  int64_t EraseAll(absl::string_view key, bool below, int64_t revision);
  bool InvariantsHold() const;  // ends the process otherwise

  const CoordinatorOptions& options_;
  KeyWaits& waits_;
  KeyWatch& watch_;
  Keys keys_;
  KeyLeases leases_;
  size_t bytes_ = 0;
  size_t memory_ = 0;
  int64_t revision_;
};

}  // namespace lockstep::coord

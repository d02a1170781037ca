// The keys of one attempt: what its members tell each other. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/key_waits.h"
#include "lockstep/coord/key_watch.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/stored_key.h"

namespace lockstep::coord {

// Holds values under ordered keys. A `/` in a key makes directories, which exist as long as
// something is below them. Who waits for a key or follows changes is kept by the two parts.
//
// Each change takes the next revision; the empty store is at revision 1, or above what the one of
// the attempt before had, so that "after 0" always means "I know nothing". What one deletion
// removes shares a revision, or of a long one what each slice removes.
//
// Stock callers are answered as by their own service; native ones with revisions. A native caller
// must name a key; to a stock one, no key at all is a key, too.
//
// What dies by itself goes in slices, a bounded number of keys and bytes in one event; what is left
// is due at once, and is still read until then. So does what a deletion removes that is longer than
// a slice: it is answered when it has come to its end, and one that is asked for again meanwhile
// goes on instead of beginning anew.
//
// Invariants: (1) nobody waits for a key that has a value; (2) each waiter is answered once, unless
// it leaves; (3) `bytes` is the sum over all keys and values; (4) every change is in a record.
//
// Threads: thread-compatible. Bounds: keys_max, key_bytes_max, value_bytes_max, store_bytes_max,
// list_bytes_max, page_bytes_max, long_deletions_max; what goes over one is refused and changes
// nothing. Time: a key with a ttl goes when it is due, not before `ReachDeadline` is called.
class KeyValues {
 public:
  // Long deletions that are on at a time: `long_deletions_max`.
  static constexpr size_t kLongDeletionsMax = 256;

  // `first_revision`: of the empty store. Above all that another store of the job ever had, so that
  // who comes from there is known to know nothing.
  explicit KeyValues(const CoordinatorOptions& options, int64_t first_revision = 1)
      : options_(options), waits_(options), watch_(options), revision_(first_revision) {
    if (first_revision > 1) watch_.Forget(first_revision);
  }
  KeyValues(const KeyValues&) = delete;
  KeyValues& operator=(const KeyValues&) = delete;

  // `owner`: the member that asks; set when the lifetime is `with_member`.
  void Set(Time now, SetKey request, std::optional<MemberIndex> owner, Effects& out);
  void CompareAndSet(Time now, CompareAndSetKey request, std::optional<MemberIndex> owner,
                     Effects& out);
  // A number keeps the lifetime that its key has.
  void Increment(Time now, const IncrementKey& request, Effects& out);
  void Max(Time now, const MaxKey& request, Effects& out);
  // Not answered yet when it is long.
  void Delete(const DeleteKey& request, Effects& out);

  // A long deletion that is over, and what its caller is told, or would be had it not left.
  struct Deleted {
    Caller caller;
    KeysDeleted answer;
  };
  // Those that ended since this was last asked.
  std::vector<Deleted> TakeDeleted() { return std::exchange(deleted_, {}); }

  void TryGet(const TryGetKey& request, Effects& out) const;
  void List(const ListKeys& request, Effects& out) const;

  // These three may wait. False, and nothing done, or taken of the request: it would, and
  // `may_wait` is false.
  bool Get(Time now, const GetKey& request, bool may_wait, Effects& out);
  bool Get(Time now, GetKeys&& request, bool may_wait, Effects& out);
  bool Watch(const WatchKeys& request, bool may_wait, Effects& out);

  // The member left, was lost or lives anew: its keys die, the first slice of them now.
  void MemberGone(MemberIndex member, Effects& out);

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  // The caller left. False when it waits for no key.
  bool Forget(CallId call) {
    return waits_.Forget(call) || watch_.Forget(call) || ForgetDeletion(call);
  }

  // Every waiter gets the error; used when the job is over.
  void FailAll(const ErrorPtr& error, Effects& out);
  // The same when another attempt begins, but those who watch and are no members go on there.
  void Close(const ErrorPtr& error, int64_t next_revision, Effects& out);

  absl::Status Apply(Time at, const record::KeySet& record);
  absl::Status Apply(Time at, const record::KeyDeleted& record);
  void Apply(const record::OwnerGone& record);
  void Snapshot(std::vector<TimedRecord>& out) const;

  // Who waits for which key: the first so many, by key.
  std::vector<const KeyWaits::Slot*> waiters(size_t rows_max) const {
    return waits_.First(rows_max);
  }
  // The first keys below the directory and behind `after`, in order. `visit` changes nothing here.
  // Returns whether there are more.
  using KeyVisitor = absl::FunctionRef<void(absl::string_view key, const StoredKey& stored)>;
  bool ForEachBelow(absl::string_view directory, absl::string_view after, size_t keys_max,
                    KeyVisitor visit) const;

  // How many keys are waited for.
  size_t awaited() const { return waits_.keys(); }
  size_t waits() const { return waits_.waits() + watch_.waits() + deletions_.size(); }
  size_t size() const { return keys_.size(); }
  size_t bytes() const { return bytes_; }
  // What keys and remembered changes cost, and who waits for keys: nodes and headers included.
  size_t memory() const { return memory_ + watch_.change_bytes() + wait_bytes(); }
  size_t wait_bytes() const { return waits_.bytes() + watch_.bytes(); }
  int64_t revision() const { return revision_; }

 private:
  using Keys = absl::btree_map<std::string, StoredKeyPtr>;
  // Where a key is, or would be.
  struct Place {
    absl::string_view key;
    Keys::iterator it;
    bool there = false;
  };
  // A long deletion, not at its end yet.
  struct Deletion {
    Caller caller;
    std::string prefix;  // of all that it removes; empty: everything
    std::string after;   // all up to this one has gone
    int64_t deleted = 0;
    bool left = false;  // its caller waits no longer
  };
  struct Terms {
    Time expires = Time::Infinite();
    std::optional<MemberIndex> owner;
  };

  Place Find(absl::string_view key);
  StoredKeyPtr Lookup(absl::string_view key) const;

  // Null when the request is lawful.
  ErrorPtr CheckKey(const Caller& caller, absl::string_view key) const;
  ErrorPtr CheckLifetime(const KeyLifetime& lifetime) const;
  ErrorPtr CheckRoom(const Place& place, size_t value_bytes) const;
  // Null when a wait that costs so much may be parked.
  ErrorPtr CheckWait(const Caller& caller, size_t cost) const;
  static size_t CostOf(absl::string_view key, const StoredKey& stored);
  static Terms TermsOf(Time now, const KeyLifetime& lifetime, std::optional<MemberIndex> owner);
  // The number under the key, or 0.
  static ErrorPtr NumberAt(const Place& place, int64_t& number);

  // Writes the value, records it, and answers who waits for it; or says which limit forbids it.
  ErrorPtr Store(Time now, Place& place, std::string value, const Terms& terms, Effects& out);
  // Writes the number, unless it is `same` already, and answers the caller.
  void StoreNumber(Time now, Place& place, int64_t number, const Caller& caller,
                   const std::string& asked, Effects& out);
  // Removes a key by itself, at a revision of its own; returns how many bytes went.
  size_t Remove(const std::string& key, Effects& out);
  // Whether the key was a member's that is gone, and has not been removed yet.
  bool Dies(absl::string_view key, const StoredKey& stored) const;
  void Disown(MemberIndex owner, const std::string& key);
  // What one turn removes.
  struct Slice {
    size_t keys = 0;
    size_t bytes = 0;
    bool full() const { return keys >= kDyingKeysSliceMax || bytes >= kDyingBytesSliceMax; }
  };
  // Removes what is due, as far as one turn goes.
  void RemoveSlice(Time now, Effects& out);
  // Whether there is more than a slice under the prefix.
  bool IsLong(absl::string_view prefix) const;
  // Begins to remove the key, when there is one, and all under the prefix.
  void DeleteInSlices(const DeleteKey& request, std::optional<absl::string_view> key,
                      std::string prefix, Effects& out);
  // Goes on with the long deletions, oldest first; answers those that come to their end.
  void RemoveSliceOfDeletions(Slice& slice, Effects& out);
  // Whether the call asks again for a deletion that is on: then it waits for that one.
  bool JoinsDeletion(const Caller& caller);
  bool ForgetDeletion(CallId call);

  // The changes themselves, live or restored.
  void Put(Place& place, StoredKeyPtr stored);
  Keys::iterator Erase(Keys::iterator it, int64_t revision);
  // The key (with what is below it); returns how many went.
  int64_t EraseAll(absl::string_view key, bool below, int64_t revision);
  int64_t EraseEverything(int64_t revision);

  const CoordinatorOptions& options_;
  Keys keys_;
  absl::btree_set<std::pair<Time, std::string>> expiries_;
  absl::flat_hash_map<MemberIndex, absl::btree_set<std::string>> owned_;  // looked up only
  // Keys of members that are gone, or were: those that `Dies` tells of are still to be removed.
  std::deque<absl::btree_set<std::string>> dying_;
  std::deque<Deletion> deletions_;
  std::vector<Deleted> deleted_;
  KeyWaits waits_;
  KeyWatch watch_;
  size_t bytes_ = 0;
  size_t memory_ = 0;  // of keys_, expiries_ and owned_
  int64_t revision_;
};

}  // namespace lockstep::coord

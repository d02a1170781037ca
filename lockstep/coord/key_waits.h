// Those who wait for keys that are not there yet. Pure.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/long_reads.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/stored_key.h"

namespace lockstep::coord {

// Under this stock clients are told of a preemption, and each asks for it as long as it lives, on a
// thread of its own. Upstream's, unchanged since 2022.
inline constexpr absl::string_view kStockNoticeKey = "RECEIVED_PREEMPTION_NOTICE";

// Nothing in the caller's program waits by it.
inline bool AsksInBackground(const GetKey& request) {
  return request.key == kStockNoticeKey && !request.caller.native();
}

// Keeps each waiting call at one key that is missing: a call for many keys moves on to the next one
// that is missing whenever its own comes. So a write costs one look-up and the calls that it wakes,
// however many wait elsewhere. A call for more than a slice of keys is read in slices (LongReads)
// before it is answered, or waits.
//
// Invariants: (1) the key at which a call waits has no value; (2) each call is answered once,
// unless it leaves.
//
// Threads: thread-compatible. Bounds: keys_per_wait_max a call, read_keys_slice_max a turn,
// page_bytes_max an answer for many; how many wait in all, and what they cost, is bounded by
// whoever lets them in.
class KeyWaits {
 public:
  explicit KeyWaits(const CoordinatorOptions& options) : options_(options) {}

  struct Waiter {
    Incarnation incarnation;  // of the caller; 0 when not said
    Time since;
    std::string asked;              // the key as the caller spelled it
    std::vector<std::string> many;  // of a call for many: all of them; `asked` is empty
    size_t weight = 1;              // how many, or 1
    size_t at = 0;                  // which of the many it waits for now
    SessionId session = {};         // none: of a stock client
    size_t cost = 0;                // in bytes
    bool background = false;        // not shown to people
  };
  using Waiters = absl::btree_map<CallId, Waiter>;  // in the order of arrival
  using Slot = std::pair<const std::string, Waiters>;

  // What it costs to park such a request.
  static size_t CostOf(const GetKey& request);
  static size_t CostOf(const GetKeys& request);

  // `key` is the one asked for, in normal spelling, and not there.
  void Park(Time now, const GetKey& request, absl::string_view key);
  // Answers, or parks when one of the keys is missing. `revision` is the store's.
  void Get(Time now, GetKeys&& request, KeyLookup lookup, int64_t revision, Effects& out);

  // The key has this value from now on.
  void KeySet(absl::string_view key, const StoredKeyPtr& stored, KeyLookup lookup, Effects& out);
  // It has none any more.
  void KeyGone(absl::string_view key);

  // Whether keys are still to be read for a call, and the next slice of that.
  bool reads() const { return !reads_.empty(); }
  void ReadSlice(KeyLookup lookup, int64_t revision, Effects& out);

  // The caller left. False when it waits for no key.
  bool Forget(CallId call);
  void FailAll(const ErrorPtr& error, Effects& out);

  // The first so many of those that somebody waits for in earnest, by key.
  std::vector<const Slot*> First(size_t rows_max) const;
  // How many these are.
  size_t keys() const;
  // Keys waited for, those of calls for many counted each.
  size_t waits() const { return waits_; }
  // What they cost, in bytes: all, and those of a session.
  size_t bytes() const { return bytes_; }
  size_t bytes(SessionId session) const {
    const auto found = session_bytes_.find(session);
    return found == session_bytes_.end() ? 0 : found->second;
  }

 private:
  void Park(absl::string_view key, CallId call, Waiter waiter);
  void Read(CallId call, Waiter waiter);
  // Its read has come to a key that is missing.
  void ParkAgain(LongReads::Ended ended);
  void Count(const Waiter& waiter);
  // It waits no longer, or not there.
  void Uncount(const Waiter& waiter);
  ErrorPtr TooMuch(absl::string_view first, size_t keys) const;
  std::vector<const Slot*> Sorted(size_t rows_max, bool all) const;
  bool InBackground(const Slot& slot) const;
  void AnswerMany(CallId call, const std::vector<std::string>& keys, KeyLookup lookup,
                  int64_t revision, Effects& out) const;

  const CoordinatorOptions& options_;
  absl::node_hash_map<std::string, Waiters> slots_;  // these two: never iterated for effects
  absl::flat_hash_map<CallId, Slot*> calls_;
  LongReads reads_;
  // Those whose keys are being read, which are there. Looked up only.
  absl::flat_hash_map<CallId, Waiter> reading_;
  size_t waits_ = 0;
  size_t bytes_ = 0;
  absl::flat_hash_map<SessionId, size_t> session_bytes_;  // of those that wait; looked up only
  size_t background_ = 0;                                 // all at kStockNoticeKey
};

}  // namespace lockstep::coord

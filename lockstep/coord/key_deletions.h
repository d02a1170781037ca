// Deletions of more keys than one turn may remove. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/key_table.h"

namespace lockstep::coord {

// Carries out long deletions, oldest first, one slice per turn, and answers each when it is
// complete. A numbered call that repeats a deletion under way waits for that one. A deletion whose
// caller left goes on.
//
// Invariants: (1) a caller that has not left is answered once; (2) a deletion passes each key once:
// what is set before the place that it has come to stays.
//
// Threads: thread-compatible. Bounds: long_deletions_max.
class KeyDeletions {
 public:
  // Deletions that are on at a time: `long_deletions_max`.
  static constexpr size_t kLongDeletionsMax = 256;

  // A deletion that is over, and what its caller is told, or would be had it not left.
  struct Ended {
    Caller caller;
    Answer answer;
  };

  // `table` must outlive it.
  explicit KeyDeletions(KeyTable& table) : table_(table) {}

  // Begins to remove the key, when one is given and there, and all that begins with `prefix`; the
  // first slice goes now, unless others are on. Answered when it is over: with KeysDeleted, stock
  // callers with nothing. RESOURCE_EXHAUSTED (limit_exceeded) at once: too many are on.
  void Begin(const DeleteKey& request, std::optional<absl::string_view> key, std::string prefix,
             Effects& out);
  // Whether the call asks again for a deletion that is on: then it waits for that one.
  bool Join(const Caller& caller);
  // Goes on, as far as the slice goes.
  void RemoveSlice(KeySlice& slice, Effects& out);

  // Those of callers that may ask again that ended since this was last asked.
  std::vector<Ended> TakeEnded() { return std::exchange(ended_, {}); }

  // The caller left. False when it waits for no deletion.
  bool Forget(CallId call);
  // Every waiter gets the error, and what is left stays.
  void FailAll(const ErrorPtr& error, Effects& out);

  bool empty() const { return deletions_.empty(); }
  size_t size() const { return deletions_.size(); }

 private:
  struct Deletion {
    Caller caller;
    std::string prefix;  // of all that it removes; empty: everything
    std::string after;   // all up to this one has gone
    int64_t deleted = 0;
    bool left = false;  // its caller waits no longer
  };

  KeyTable& table_;
  std::deque<Deletion> deletions_;  // oldest first
  std::vector<Ended> ended_;
};

}  // namespace lockstep::coord

// Calls for so many keys that they are read a slice at a time. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/stored_key.h"

namespace lockstep::coord {

// Keys of a call that are read in one turn: `read_keys_slice_max`.
inline constexpr size_t kReadKeysSliceMax = 1024;

// Reads `kReadKeysSliceMax` keys at a time for the oldest of its calls, and notes what becomes of
// those that it has read: when it comes to the end, all were there at the same time, with these
// values, as if they had been read at once. When one is missing, or goes meanwhile, the call is
// given back with it.
//
// Threads: thread-compatible. Bounds: only the oldest holds more than its names. How many there are
// is bounded by whoever lets them in (session_wait_bytes_max, wait_bytes_max).
class LongReads {
 public:
  // Whether it would take more than a slice.
  static bool IsLong(size_t keys) { return keys > kReadKeysSliceMax; }

  struct Read {
    CallId call;
    std::vector<std::string> keys;  // as they were asked for
  };
  // A read that goes on no more.
  struct Ended {
    Read read;                      // its keys are in `listed` when all were there
    std::optional<size_t> missing;  // the key that is not there
    std::vector<KeyValue> listed;   // else: all, in the order asked
    size_t bytes = 0;               // of these keys and values
  };

  // Behind the others; `ReadSlice` reads it.
  void Add(Read read) { reads_.push_back({.read = std::move(read)}); }
  bool empty() const { return reads_.empty(); }  // no read is going on
  // Their calls, oldest first.
  std::vector<CallId> calls() const;

  // Goes on with the oldest; returns it when it has ended.
  std::optional<Ended> ReadSlice(KeyLookup lookup);

  // The key, in normal spelling, has this value from now on.
  void KeySet(absl::string_view key, const StoredKeyPtr& stored);
  // It has none any more: returns the read that had it.
  std::optional<Ended> KeyGone(absl::string_view key);

  // False: it is not read.
  bool Forget(CallId call);
  void Clear() { reads_.clear(); }  // without an answer: the owner gives it

 private:
  struct Going {
    Read read;
    std::vector<KeyValue> listed = {};  // those up to here, still without their names
    size_t bytes = 0;
    // By name, which lies in `read` or `spelled`: the last place at which it was asked for, counted
    // from 1; and for each place the one before it with the same name, or 0.
    absl::flat_hash_map<absl::string_view, uint32_t> places = {};
    std::vector<uint32_t> same = {};
    std::deque<std::string> spelled = {};
  };

  // The last place of the key in the read that is going on, or 0.
  uint32_t PlaceOf(absl::string_view key) const;
  Ended End(std::optional<size_t> missing);

  std::list<Going> reads_;  // only the first is going on; a list, since names must not move
};

}  // namespace lockstep::coord

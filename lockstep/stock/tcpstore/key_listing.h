// Lists of all keys of a store, which are made a slice at a time. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/effects.h"
#include "lockstep/stock/tcpstore/key_space.h"

namespace lockstep::tcpstore {

// Goes through the names in their order and remembers the last one, so that keys may come and go
// between slices. A key that is there from the first slice to the last is listed once; one that is
// set or deleted meanwhile is listed once or not at all.
//
// Only the oldest of the lists is going on; the others hold nothing yet.
//
// Threads: thread-compatible. Bounds: a slice, kNamesSliceMax and kBytesSliceMax; a list, what
// `ListSlice` is given; how many there are is bounded by whoever adds them: one a connection.
class KeyListings {
 public:
  // Of one slice: `listed_names_slice_max`, `listed_bytes_slice_max`. A slice ends with the first
  // name that reaches the latter.
  static constexpr size_t kNamesSliceMax = 1024;
  static constexpr size_t kBytesSliceMax = size_t{64} << 10;

  // Whether a list of these keys takes more than a slice.
  static bool IsLong(const KeySpace& keys) {
    return keys.keys() > kNamesSliceMax || keys.NameBytes() > kBytesSliceMax;
  }
  // What it holds when it has ended, in bytes.
  static size_t CostOf(const KeySpace& keys) {
    return keys.NameBytes() + keys.keys() * sizeof(uint64_t);
  }

  // Behind the others. `cost` is counted until it has ended, or what it holds, if that is more.
  void Add(ConnectionId connection, size_t cost);
  bool empty() const { return listings_.empty(); }  // none is going on
  bool Has(ConnectionId connection) const;
  void Forget(ConnectionId connection);  // does nothing where it has none

  // A list that goes on no more: it is whole, or its names are longer than they may be.
  struct Ended {
    ConnectionId connection;
    KeyNames names;
    size_t name_bytes = 0;
  };
  // Goes on with the oldest, of which there is one; returns it when it has ended.
  std::optional<Ended> ListSlice(const KeySpace& keys, size_t name_bytes_max);

  size_t bytes() const { return bytes_; }  // what they cost

 private:
  struct Listing {
    ConnectionId connection;
    size_t cost = 0;
    KeyNames names = {};
    size_t name_bytes = 0;
    std::string from = {};  // the least name that is not listed yet
  };

  std::deque<Listing> listings_;
  std::string packed_;  // of the slice that is being made: memory that is used again
  size_t bytes_ = 0;
};

}  // namespace lockstep::tcpstore

// What a store has forgotten, until its memory is free. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "lockstep/stock/tcpstore/records.h"

namespace lockstep::tcpstore {

// In order, so that a list of all keys can be made in slices while they change; and no key that is
// added moves all the others, which a table of a million that grows does.
using KeyTable = absl::btree_map<std::string, ValuePtr>;
using Queue = std::deque<ValuePtr>;
using QueueTable = absl::flat_hash_map<std::string, Queue>;

// Whole tables of keys and queues. To forget a million keys is to put their table here; to free
// them takes a tenth of a second, so that is done a little at a time.
//
// Threads: thread-compatible. Not to be moved once `FreeSome` was called. Bounds: those of the
// stores whose tables they were.
class GoneKeys {
 public:
  // Keys and queued values that are freed at a time: `freed_keys_slice_max`.
  static constexpr size_t kSliceMax = 256;

  // Takes the table over, in no time; what is in it is freed by `FreeSome`, or with this.
  void Add(KeyTable table) {
    if (!table.empty()) keys_.push_back(std::move(table));
  }
  // A queue counts each of its values towards a slice.
  void Add(QueueTable table) {
    if (!table.empty()) queues_.push_back(std::move(table));
  }
  bool empty() const { return keys_.empty() && queues_.empty(); }  // nothing is left to free

  // Frees one slice. Returns whether there is more.
  bool FreeSome();

 private:
  std::deque<KeyTable> keys_;
  std::deque<QueueTable> queues_;
  // Where the first table's freeing goes on, so that no place is looked at twice.
  std::optional<QueueTable::iterator> next_queue_;
};

}  // namespace lockstep::tcpstore

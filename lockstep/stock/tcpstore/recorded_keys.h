// The keys and queues of a store that may be durable: each change, and the record of it. Pure.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/stock/tcpstore/gone_keys.h"
#include "lockstep/stock/tcpstore/key_space.h"
#include "lockstep/stock/tcpstore/records.h"

namespace lockstep::tcpstore {

// Changes a KeySpace, and nobody else does. Where the store keeps (StoreOptions::keeps), each
// change adds one record to `out`.
//
// Owns the keys and queues. Promises: the records, applied in order to an empty one, make it again;
// what changes nothing is not recorded. Threads: thread-compatible. Bounds: the store's.
class RecordedKeys {
 public:
  explicit RecordedKeys(bool keeps) : keeps_(keeps) {}

  // As the last change left them.
  const KeySpace& now() const { return keys_; }

  // Where the key's value is, for callers that look before they set.
  KeySpace::Place Find(absl::string_view key) { return keys_.Find(key); }
  // In place of the value there is.
  void Set(absl::string_view key, ValuePtr value, std::vector<Record>& out) {
    Set(KeySpace::Place{.key = key}, std::move(value), out);
  }
  void Set(const KeySpace::Place& place, ValuePtr value, std::vector<Record>& out);
  // Behind the value there is; the record has `more` alone.
  void Append(absl::string_view key, absl::string_view more, std::vector<Record>& out);
  // False: there was no value.
  bool Delete(absl::string_view key, std::vector<Record>& out);
  // As the newest value of the key's queue.
  void Push(absl::string_view key, ValuePtr value, std::vector<Record>& out);
  // The oldest value of the queue; null: there is none.
  ValuePtr Pop(absl::string_view key, std::vector<Record>& out);
  // Forgets all, and records it also when there was nothing.
  void Clear(std::vector<Record>& out);
  // The keys of the default process group; says how many those were.
  size_t ClearGroup(std::vector<Record>& out);

  // What a record says, which is not recorded again. INVALID_ARGUMENT as KeySpace::Apply.
  absl::Status Apply(const Record& record) { return keys_.Apply(record); }
  GoneKeys TakeGone() { return keys_.TakeGone(); }  // to be freed in slices

 private:
  const bool keeps_;
  KeySpace keys_;
};

}  // namespace lockstep::tcpstore

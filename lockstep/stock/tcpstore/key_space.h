// The keys and queues of a store. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lockstep/stock/tcpstore/gone_keys.h"
#include "lockstep/stock/tcpstore/process_groups.h"
#include "lockstep/stock/tcpstore/records.h"

namespace lockstep::tcpstore {

// Keys are bytes, in order, without directories. A queue is kept beside the value under the same
// key; it is there as long as it holds something, which counts as the key's existence.
//
// Owns the tables, and those that were forgotten until somebody takes them to free them in slices.
// Values are shared with those to whom they are on their way.
//
// Invariants: (1) `bytes` is the sum over all keys, values and queued values; (2) `size` counts
// values and queued values; (3) no queue is empty; (4) the keys of the default process group
// (IsOfGroup) are in a table of their own, so that all of them are forgotten at once; (5)
// `NameBytes` is the sum over all keys with values.
//
// Threads: thread-compatible. Bounds: the store's, who asks StoreRoom first.
class KeySpace {
 public:
  // What a key with its value costs beside its bytes, about, or a queued value.
  static constexpr size_t kValueBytes = 160;

  // Null: there is none.
  ValuePtr Value(absl::string_view key) const;
  // Queued values do not count.
  bool HasValue(absl::string_view key) const { return TableOf(key).contains(key); }
  // Whether there is a value, or a queued one.
  bool Exists(absl::string_view key) const { return HasValue(key) || queues_.contains(key); }
  // 0: there is none.
  size_t QueueLength(absl::string_view key) const;

  // Where the value of a key is. Valid until the keys change.
  struct Place {
    absl::string_view key;
    ValuePtr* stored = nullptr;  // null: there is none, or nobody has looked
  };
  Place Find(absl::string_view key);
  // In place of the value there is.
  void Put(absl::string_view key, ValuePtr value) { Put(Place{.key = key}, std::move(value)); }
  void Put(const Place& place, ValuePtr value);
  // Behind the value there is; where there is none, it is the value.
  void Lengthen(absl::string_view key, absl::string_view more);
  // False: there was no value. A queue stays.
  bool Delete(absl::string_view key);
  // Behind the newest value of the queue, which begins with it when there is none.
  void Push(absl::string_view key, ValuePtr value);
  // The oldest value of the queue; null: there is none.
  ValuePtr Pop(absl::string_view key);

  // All values and queues. Takes no time: they are freed by who takes them.
  void ForgetAll();
  // The values under the keys of the default process group; says how many those were.
  size_t ForgetGroup();
  // What the two above have forgotten since this was last asked.
  GoneKeys TakeGone() { return std::exchange(gone_, {}); }
  bool has_gone() const { return !gone_.empty(); }  // whether `TakeGone` has something to give

  // What a record says. INVALID_ARGUMENT: it cannot follow those before it.
  absl::Status Apply(const Record& record);
  // Records that make an empty one hold the same; values are shared.
  std::vector<Record> Snapshot() const;

  // Those of all keys with values, from `from` on, in order, until `visit` says false. It must not
  // change the keys.
  using NameVisitor = absl::FunctionRef<bool(absl::string_view name)>;
  void VisitNames(absl::string_view from, NameVisitor visit) const;
  size_t NameBytes() const { return name_bytes_; }  // of those names

  size_t keys() const { return keys_.size() + group_keys_.size(); }  // with a value
  size_t queues() const { return queues_.size(); }                   // that hold something
  size_t size() const { return keys() + queued_; }                   // values and queued values
  size_t bytes() const { return bytes_; }  // of keys, values and queued values

  // Invariants (1) to (5), by looking at everything.
  bool InvariantsHold() const;

 private:
  KeyTable& TableOf(absl::string_view key) { return IsOfGroup(key) ? group_keys_ : keys_; }
  const KeyTable& TableOf(absl::string_view key) const {
    return IsOfGroup(key) ? group_keys_ : keys_;
  }

  absl::Status ApplyTo(const record::Opened& record);
  absl::Status ApplyTo(const record::Used& record);
  absl::Status ApplyTo(const record::KeySet& record);
  absl::Status ApplyTo(const record::ValueAppended& record);
  absl::Status ApplyTo(const record::KeyDeleted& record);
  absl::Status ApplyTo(const record::QueuePushed& record);
  absl::Status ApplyTo(const record::QueuePopped& record);
  absl::Status ApplyTo(const record::Cleared& record);
  absl::Status ApplyTo(const record::GroupCleared& record);
  // For PassedConnections, not for the keys.
  absl::Status ApplyTo(const record::CommandDone& /*record*/) { return absl::OkStatus(); }
  absl::Status ApplyTo(const record::PassedGone& /*record*/) { return absl::OkStatus(); }

  KeyTable keys_;
  KeyTable group_keys_;
  QueueTable queues_;  // never iterated for effects
  size_t queued_ = 0;
  size_t bytes_ = 0;
  size_t group_bytes_ = 0;  // of those, in group_keys_
  size_t name_bytes_ = 0;
  size_t group_name_bytes_ = 0;  // of those, in group_keys_
  GoneKeys gone_;
};

}  // namespace lockstep::tcpstore

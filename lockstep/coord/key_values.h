// The keys of one attempt: what its members tell each other. Pure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"

namespace lockstep::coord {

// `///a//b/c//` and `a/b/c` are one key: no slashes at the ends, none repeated.
std::string NormalKey(absl::string_view key);

// Holds values under ordered keys, and those who wait for a key that is not there yet. A `/` in a
// key makes directories, which exist as long as something is below them.
//
// Invariants: (1) nobody waits for a key that has a value; (2) each waiter is answered once, unless
// it leaves; (3) `bytes` is the sum over all keys and values.
//
// Threads: thread-compatible. Bounds: keys_max, key_bytes_max, value_bytes_max, store_bytes_max,
// list_bytes_max; what goes over one is refused and changes nothing.
class KeyValues {
 public:
  explicit KeyValues(const CoordinatorOptions& options) : options_(options) {}

  void Set(const SetKey& request, Effects& out);
  // `now` is for View only: a wait has no end of its own.
  void Get(Time now, const GetKey& request, Effects& out);
  void TryGet(const TryGetKey& request, Effects& out);
  void Increment(const IncrementKey& request, Effects& out);
  void List(const ListKeys& request, Effects& out) const;
  void Delete(const DeleteKey& request, Effects& out);

  // The caller left. False when it waits for no key.
  bool Forget(CallId call);

  // Every waiter gets the error; used when the attempt is over.
  void FailAll(const ErrorPtr& error, Effects& out);

  struct Waiter {
    Incarnation incarnation;  // of the caller; 0 when not said
    std::string asked;        // the key as the caller spelled it
    Time since;
  };
  using Waiters = std::map<CallId, Waiter>;  // in the order of arrival
  const std::map<std::string, Waiters>& waiters() const { return waiters_; }

  bool Holds(absl::string_view key) const { return values_.contains(NormalKey(key)); }
  size_t waits() const { return calls_.size(); }
  size_t size() const { return values_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  using Value = std::shared_ptr<const std::string>;

  ErrorPtr CheckKey(absl::string_view key) const;
  // Stores and answers the waiters, or says which limit forbids it.
  ErrorPtr Store(const std::string& key, std::string value, Effects& out);

  const CoordinatorOptions& options_;
  absl::btree_map<std::string, Value> values_;
  std::map<std::string, Waiters> waiters_;
  absl::flat_hash_map<CallId, std::string> calls_;  // looked up only
  size_t bytes_ = 0;
};

}  // namespace lockstep::coord

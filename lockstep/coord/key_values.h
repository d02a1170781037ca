// The keys of one attempt: what its members tell each other. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/key_deletions.h"
#include "lockstep/coord/key_table.h"
#include "lockstep/coord/key_waits.h"
#include "lockstep/coord/key_watch.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Answers what is asked of keys. The keys themselves are in KeyTable; who waits for them is in
// KeyWaits, who follows their changes in KeyWatch, and deletions that take long in KeyDeletions.
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
// it leaves.
//
// Errors of all requests: RESOURCE_EXHAUSTED (limit_exceeded) over a bound, INVALID_ARGUMENT
// (key_invalid) for a key that cannot be; nothing is changed then.
//
// Threads: thread-compatible. Bounds: keys_max, key_bytes_max, value_bytes_max, store_bytes_max,
// list_bytes_max, page_bytes_max, long_deletions_max, wait_bytes_max, session_wait_bytes_max.
// Time: a key with a ttl goes when it is due, not before `ReachDeadline` is called.
class KeyValues {
 public:
  // `first_revision`: of the empty store. Above all that another store of the job ever had, so that
  // who comes from there is known to know nothing.
  explicit KeyValues(const CoordinatorOptions& options, int64_t first_revision = 1)
      : options_(options),
        waits_(options),
        watch_(options),
        table_(options, first_revision, waits_, watch_),
        deletions_(table_) {}
  KeyValues(const KeyValues&) = delete;
  KeyValues& operator=(const KeyValues&) = delete;

  // `owner`: the member that asks; set when the lifetime is `with_member`.
  //
  // Answered with KeyWritten, stock callers with nothing. ALREADY_EXISTS (key_exists): it was not
  // to be overwritten. INVALID_ARGUMENT (invalid_argument): its lifetime is not above zero.
  void Set(Time now, SetKey&& request, std::optional<MemberIndex> owner, Effects& out);
  // Answered with KeySwapped, whether or not the condition held. INVALID_ARGUMENT
  // (invalid_argument): the request does not expect exactly one thing, or as for Set.
  void CompareAndSet(Time now, CompareAndSetKey&& request, std::optional<MemberIndex> owner,
                     Effects& out);
  // A number keeps the lifetime that its key has. Both are answered with KeyRead.
  // FAILED_PRECONDITION (key_not_a_number): the key holds something else. OUT_OF_RANGE
  // (number_overflow): the sum does not fit in 64 bits.
  void Increment(Time now, const IncrementKey& request, Effects& out);
  void Max(Time now, const MaxKey& request, Effects& out);
  // Answered with KeysDeleted, stock callers with nothing; not yet when it is long.
  // FAILED_PRECONDITION (condition_failed): the key is not at the revision that was expected.
  void Delete(const DeleteKey& request, Effects& out);
  // Long deletions of native callers that ended since this was last asked.
  std::vector<KeyDeletions::Ended> TakeDeleted() { return deletions_.TakeEnded(); }

  // Answered with KeyRead. NOT_FOUND (key_not_found).
  void TryGet(const TryGetKey& request, Effects& out) const;
  // Answered with KeysListed.
  void List(const ListKeys& request, Effects& out) const;

  // These three may wait: for the key, for all of the keys, for a change. False, and nothing done
  // or taken of the request: it would wait, and `may_wait` is false. Otherwise a request of many
  // keys is moved from.
  bool Get(Time now, const GetKey& request, bool may_wait, Effects& out);
  bool Get(Time now, GetKeys& request, bool may_wait, Effects& out);
  bool Watch(const WatchKeys& request, bool may_wait, Effects& out);

  // The member left, was lost or lives anew: its keys die, the first slice of them now.
  void MemberGone(MemberIndex member, Effects& out);

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  // The caller left. False when it waits for no key.
  bool Forget(CallId call) {
    return waits_.Forget(call) || watch_.Forget(call) || deletions_.Forget(call);
  }

  // Every waiter gets the error; used when the job is over.
  void FailAll(const ErrorPtr& error, Effects& out);
  // The same when another attempt begins, but those who watch and are no members go on there.
  void Close(const ErrorPtr& error, int64_t next_revision, Effects& out);

  // INVALID_ARGUMENT: no state could have written this record next.
  absl::Status Apply(Time at, const record::KeySet& record) { return table_.Apply(at, record); }
  absl::Status Apply(Time, const record::KeyDeleted& record) { return table_.Apply(record); }
  void Apply(const record::OwnerGone& record) { table_.OwnerGone(record.member); }
  void Snapshot(std::vector<TimedRecord>& out) const { table_.Snapshot(out); }

  const KeyTable& table() const { return table_; }
  // Who waits for which key.
  const KeyWaits& waiting() const { return waits_; }
  // Parked calls.
  size_t waits() const { return waits_.waits() + watch_.waits() + deletions_.size(); }
  // What keys and remembered changes cost, and who waits for keys: nodes and headers included.
  size_t memory() const { return table_.memory() + watch_.change_bytes() + wait_bytes(); }
  size_t wait_bytes() const { return waits_.bytes() + watch_.bytes(); }

 private:
  // Writes the number, and answers the caller. `asked`: the key as the caller spelled it.
  void StoreNumber(Time now, KeyTable::Place& place, int64_t number, const Caller& caller,
                   const std::string& asked, Effects& out);
  // Removes what is due, as far as one turn goes.
  void RemoveSlice(Time now, Effects& out);

  const CoordinatorOptions& options_;
  KeyWaits waits_;
  KeyWatch watch_;
  KeyTable table_;
  KeyDeletions deletions_;
};

}  // namespace lockstep::coord

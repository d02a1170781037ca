#include "lockstep/coord/key_values.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/key_checks.h"
#include "lockstep/coord/key_lists.h"
#include "lockstep/coord/key_name.h"
#include "lockstep/coord/key_rights.h"

namespace lockstep::coord {
namespace {

// Stock clients take these for answers of the service by their code alone.
ErrorPtr WithoutMark(absl::StatusCode code, Reason reason, std::string text) {
  return MakeError(
      Error{.code = code, .reason = reason, .message = std::move(text), .from_service = false});
}

KeyTable::Terms TermsOf(Time now, const KeyLifetime& lifetime, std::optional<MemberIndex> owner) {
  LOCKSTEP_DCHECK(!lifetime.with_member || owner.has_value());
  return {now + lifetime.ttl, lifetime.with_member ? owner : std::nullopt};
}

// Null: `number` is what is under the key, and as it was when there is none.
ErrorPtr ReadNumber(const KeyTable::Place& place, int64_t& number) {
  // A key that is not there counts from the caller's own start.
  if (!place.there || absl::SimpleAtoi(place.it->second->value, &number)) return nullptr;
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kKeyNotANumber,
                   absl::StrCat("the value of key ", QuotedKey(place.key),
                                " cannot be incremented: it is not an integer"));
}

bool Holds(const KeyCondition& expected, const KeyTable::Place& place) {
  if (expected.absent || !place.there) return expected.absent && !place.there;
  LOCKSTEP_DCHECK(expected.value.has_value() != expected.revision.has_value());
  const StoredKey& stored = *place.it->second;
  return expected.value ? stored.value == *expected.value : stored.revision == *expected.revision;
}

// Null when a wait that costs so much may be parked. Waits for keys and for changes share a budget.
ErrorPtr CheckWait(const CoordinatorOptions& options, const KeyWaits& waits, size_t bytes,
                   const Caller& caller, size_t cost) {
  // The session's own share first: it is the limit that the caller can do something about.
  const size_t session = caller.session.none() ? 0 : waits.bytes(caller.session);
  LOCKSTEP_DCHECK(session <= bytes);
  if (cost + session > options.session_wait_bytes_max) {
    return OverLimit(absl::StrCat("a wait for keys that takes ", cost, " bytes, beside ", session,
                                  " that this session's waits take,"),
                     "session_wait_bytes_max", options.session_wait_bytes_max);
  }
  if (cost + bytes <= options.wait_bytes_max) return nullptr;
  return OverLimit(absl::StrCat("a wait for keys that takes ", cost, " bytes, beside ", bytes,
                                " that others take,"),
                   "wait_bytes_max", options.wait_bytes_max);
}

}  // namespace

// Writing.

void KeyValues::Set(Time now, SetKey&& request, std::optional<MemberIndex> owner, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(options_, request.caller, request.key))
    return out.Fail(call, error);
  if (ErrorPtr error = CheckLifetime(request.lifetime)) return out.Fail(call, error);
  const KeyName name(request.key);
  KeyTable::Place place = table_.Find(name.view());
  if (place.there && !request.overwrite) {
    return out.Fail(call, WithoutMark(absl::StatusCode::kAlreadyExists, Reason::kKeyExists,
                                      absl::StrCat("Config key ", QuotedKey(name.view()),
                                                   " already exists; its value was kept")));
  }
  const KeyTable::Terms terms = TermsOf(now, request.lifetime, owner);
  if (ErrorPtr error = table_.Write(now, place, std::move(request.value), terms, out)) {
    return out.Fail(call, error);
  }
  // Stock callers are told of success only.
  if (!request.caller.native()) return out.Succeed(call);
  out.Succeed(call, KeyWritten{table_.revision()});
}

void KeyValues::CompareAndSet(Time now, CompareAndSetKey&& request,
                              std::optional<MemberIndex> owner, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(options_, request.caller, request.key))
    return out.Fail(call, error);
  if (ErrorPtr error = CheckLifetime(request.lifetime)) return out.Fail(call, error);
  if (ErrorPtr error = CheckCondition(request)) return out.Fail(call, error);
  const KeyName name(request.key);
  KeyTable::Place place = table_.Find(name.view());
  const bool holds = Holds(request.expected, place);
  if (holds) {
    const KeyTable::Terms terms = TermsOf(now, request.lifetime, owner);
    if (ErrorPtr error = table_.Write(now, place, std::move(request.value), terms, out)) {
      return out.Fail(call, error);
    }
  }
  // With the key as it is now, so that a caller that lost can try again at once.
  KeySwapped swapped{.swapped = holds};
  if (place.there) swapped.entry = EntryOf(std::move(request.key), place.it->second);
  out.Succeed(call, std::move(swapped));
}

void KeyValues::StoreNumber(Time now, KeyTable::Place& place, int64_t number, const Caller& caller,
                            const std::string& asked, Effects& out) {
  KeyTable::Terms terms;
  // A number keeps the lifetime that its key was given.
  if (place.there) terms = {place.it->second->expires, place.it->second->owner};
  // A number that dies stays due: nobody owns it any more.
  if (place.there && table_.Dies(place.it->first, *place.it->second)) terms = {now, std::nullopt};
  if (ErrorPtr error = table_.Write(now, place, absl::StrCat(number), terms, out)) {
    return out.Fail(caller.call, error);
  }
  out.Succeed(caller.call, KeyRead{EntryOf(asked, place.it->second)});
}

void KeyValues::Increment(Time now, const IncrementKey& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(options_, request.caller, request.key))
    return out.Fail(call, error);
  const KeyName name(request.key);
  KeyTable::Place place = table_.Find(name.view());
  int64_t number = 0;
  if (ErrorPtr error = ReadNumber(place, number)) return out.Fail(call, error);
  // Before anything is written.
  if (__builtin_add_overflow(number, request.increment, &number)) {
    return out.Fail(
        call, MakeError(absl::StatusCode::kOutOfRange, Reason::kNumberOverflow,
                        absl::StrCat("key ", QuotedKey(name.view()), " plus ", request.increment,
                                     " does not fit in 64 bits; it was kept")));
  }
  StoreNumber(now, place, number, request.caller, request.key, out);
}

void KeyValues::Max(Time now, const MaxKey& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(options_, request.caller, request.key))
    return out.Fail(call, error);
  const KeyName name(request.key);
  KeyTable::Place place = table_.Find(name.view());
  int64_t number = 0;
  if (ErrorPtr error = ReadNumber(place, number)) return out.Fail(call, error);
  // Nothing changes: no revision is used up, and no watcher wakes.
  if (place.there && number >= request.number) {
    return out.Succeed(call, KeyRead{EntryOf(request.key, place.it->second)});
  }
  StoreNumber(now, place, request.number, request.caller, request.key, out);
}

void KeyValues::Delete(const DeleteKey& request, Effects& out) {
  const CallId call = request.caller.call;
  const KeyName name(request.key);
  // As the lists of native clients: what is below no key is everything.
  const bool everything = request.caller.native() && !request.only_key && name.empty();
  if (ErrorPtr error = everything ? nullptr : CheckKey(options_, request.caller, request.key)) {
    return out.Fail(call, error);
  }
  // Before the condition: a retry of a deletion that is on has passed it already.
  if (deletions_.Join(request.caller)) return;
  if (request.revision) {
    if (!request.only_key) {
      return out.Fail(
          call, InvalidRequest(absl::StrCat("a revision is expected of ", QuotedKey(request.key),
                                            " and of all below it; a condition is for one "
                                            "key alone")));
    }
    const StoredKeyPtr stored = table_.Lookup(name.view());
    if (stored == nullptr || stored->revision != *request.revision) {
      return out.Fail(
          call,
          MakeError(absl::StatusCode::kFailedPrecondition, Reason::kConditionFailed,
                    absl::StrCat(
                        "key ", QuotedKey(request.key), " was not deleted: ",
                        stored ? absl::StrCat("it was last written at revision ", stored->revision)
                               : "there is no such key",
                        ", revision ", *request.revision, " was expected; read it again")));
    }
  }
  std::string prefix = everything ? "" : absl::StrCat(name.view(), "/");
  // A turn removes one slice at most; the rest goes in later turns.
  if (!request.only_key && table_.IsLong(prefix)) {
    deletions_.Begin(request, everything ? std::nullopt : std::optional(name.view()),
                     std::move(prefix), out);
    return watch_.Publish(out);
  }
  const int64_t deleted =
      table_.Delete(everything ? KeyTable::kEverything : name.view(), !request.only_key, out);
  // Once for the whole event, behind the last change.
  watch_.Publish(out);
  if (!request.caller.native()) return out.Succeed(call);
  out.Succeed(call, KeysDeleted{deleted, table_.revision()});
}

// Reading.

bool KeyValues::Get(Time now, const GetKey& request, bool may_wait, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(options_, request.caller, request.key)) {
    out.Fail(call, error);
    return true;
  }
  const KeyName name(request.key);
  if (const StoredKeyPtr stored = table_.Lookup(name.view())) {
    out.Succeed(call, KeyRead{EntryOf(request.key, stored)});
    return true;
  }
  // The caller asks again once the gate lets it wait; nothing was done so far.
  if (!may_wait) return false;
  if (ErrorPtr error =
          CheckWait(options_, waits_, wait_bytes(), request.caller, KeyWaits::CostOf(request))) {
    out.Fail(call, error);
  } else {
    waits_.Park(now, request, name.view());
  }
  return true;
}

bool KeyValues::Get(Time now, GetKeys& request, bool may_wait, Effects& out) {
  const CallId call = request.caller.call;
  // Before each key is looked at, which costs as much as there are keys.
  if (request.keys.size() > options_.keys_per_wait_max) {
    out.Fail(call, OverLimit(absl::StrCat("a wait for ", request.keys.size(), " keys"),
                             "keys_per_wait_max", options_.keys_per_wait_max));
    return true;
  }
  // What takes more than a slice is parked until it is read.
  bool all_there = !LongReads::IsLong(request.keys.size());
  if (!all_there && !may_wait) return false;
  for (const std::string& key : request.keys) {
    if (ErrorPtr error = CheckKey(options_, request.caller, key)) {
      out.Fail(call, error);
      return true;
    }
    all_there = all_there && table_.keys().contains(KeyName(key).view());
  }
  if (!all_there) {
    if (!may_wait) return false;
    if (ErrorPtr error =
            CheckWait(options_, waits_, wait_bytes(), request.caller, KeyWaits::CostOf(request))) {
      out.Fail(call, error);
      return true;
    }
  }
  // Parks the call only if a key is missing or the read is long, as was checked above.
  waits_.Get(
      now, std::move(request), [this](absl::string_view key) { return table_.Lookup(key); },
      table_.revision(), out);
  return true;
}

void KeyValues::TryGet(const TryGetKey& request, Effects& out) const {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(options_, request.caller, request.key))
    return out.Fail(call, error);
  const StoredKeyPtr stored = table_.Lookup(KeyName(request.key).view());
  if (stored == nullptr) {
    return out.Fail(call, MakeError(absl::StatusCode::kNotFound, Reason::kKeyNotFound,
                                    absl::StrCat(request.caller.native() ? "key " : "Config key ",
                                                 QuotedKey(request.key), " not found")));
  }
  out.Succeed(call, KeyRead{EntryOf(request.key, stored)});
}

void KeyValues::List(const ListKeys& request, Effects& out) const {
  KeysListed listed;
  if (ErrorPtr error = ReadDirectory(table_, options_, request, listed)) {
    return out.Fail(request.caller.call, error);
  }
  out.Succeed(request.caller.call, std::move(listed));
}

bool KeyValues::Watch(const WatchKeys& request, bool may_wait, Effects& out) {
  const CallId call = request.caller.call;
  const KeyName directory(request.key);
  // The empty directory is everything and needs no check.
  if (!directory.empty()) {
    if (ErrorPtr error = CheckKey(options_, request.caller, request.key)) {
      out.Fail(call, error);
      return true;
    }
  }
  LOCKSTEP_DCHECK(watch_.floor() <= table_.revision());
  // A revision above the current one is from another life of the store.
  const bool known =
      request.after > 0 && request.after >= watch_.floor() && request.after <= table_.revision();
  if (known) {
    KeysChanged changed = watch_.Since(
        directory.view(), request.after, table_.revision(),
        [this](absl::string_view key) { return table_.Lookup(key); }, SeesHidden(request.caller));
    if (!changed.changes.empty()) {
      out.Succeed(call, std::move(changed));
      return true;
    }
    // Whoever is a member belongs to the attempt, as these keys do.
    const bool moves_on = request.caller.incarnation == Incarnation();
    if (!may_wait) return false;
    if (ErrorPtr error =
            CheckWait(options_, waits_, wait_bytes(), request.caller, KeyWatch::CostOf(request))) {
      out.Fail(call, error);
    } else {
      watch_.Park(call, directory.view(), moves_on, SeesHidden(request.caller));
    }
    return true;
  }
  KeysChanged all;
  // A watcher that knows nothing, or too little, begins with all that is there.
  if (ErrorPtr error = ReadSnapshot(table_, options_, request, all)) {
    out.Fail(call, error);
  } else {
    out.Succeed(call, std::move(all));
  }
  return true;
}

// What goes by itself.

void KeyValues::MemberGone(MemberIndex member, Effects& out) {
  if (!table_.OwnerGone(member)) return;
  // Many members may go in one event, and each would take a slice of its own.
  if (out.records.size() < kDyingKeysSliceMax) RemoveSlice(Time(), out);
  // Behind the records of this slice, which a restored table applies to keys that still have
  // owners.
  if (table_.any_dying()) out.records.push_back(record::OwnerGone{member});
}

Time KeyValues::NextDeadline() const {
  // These go on at once: the beginning of time is always past.
  if (!deletions_.empty() || waits_.reads()) return Time();
  return table_.NextDeadline();
}

void KeyValues::ReachDeadline(Time now, Effects& out) {
  // Before the reads: a key that is due is not read any more.
  RemoveSlice(now, out);
  waits_.ReadSlice([this](absl::string_view key) { return table_.Lookup(key); }, table_.revision(),
                   out);
}

void KeyValues::RemoveSlice(Time now, Effects& out) {
  // One slice for both, so that a turn is bounded whatever it removes.
  KeySlice slice;
  table_.RemoveDead(now, slice, out);
  deletions_.RemoveSlice(slice, out);
  watch_.Publish(out);
}

// The end.

void KeyValues::FailAll(const ErrorPtr& error, Effects& out) {
  waits_.FailAll(error, out);
  watch_.FailAll(error, out);
  deletions_.FailAll(error, out);
  LOCKSTEP_DCHECK(waits() == 0);
}

void KeyValues::Close(const ErrorPtr& error, int64_t next_revision, Effects& out) {
  // Before FailAll, which fails every watcher that is left.
  watch_.MoveOn(next_revision, out);
  FailAll(error, out);
}

}  // namespace lockstep::coord

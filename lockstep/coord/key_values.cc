#include "lockstep/coord/key_values.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/key_name.h"

namespace lockstep::coord {
namespace {

// In a record of a deletion: no key is called so, since slashes at the ends do not count.
constexpr absl::string_view kEverything = "/";

ErrorPtr OverLimit(absl::string_view what, absl::string_view limit, size_t value) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
      absl::StrCat(what, " is over the limit ", limit, " (", value, "); nothing was changed"));
}

ErrorPtr Invalid(std::string text) {
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument, std::move(text));
}

// A key's node, its name and the value's header, and the allocator's part of each.
constexpr size_t kKeyBytes = 256;
// A place in a table beside it, the name again included.
constexpr size_t kPlaceBytes = 96;

// Stock clients take these for answers of the service by their code alone.
ErrorPtr WithoutMark(absl::StatusCode code, Reason reason, std::string text) {
  return MakeError(
      Error{.code = code, .reason = reason, .message = std::move(text), .from_service = false});
}

}  // namespace

// Finding, and what is lawful.

KeyValues::Place KeyValues::Find(absl::string_view key) {
  auto it = keys_.lower_bound(key);
  return {key, it, it != keys_.end() && it->first == key};
}

StoredKeyPtr KeyValues::Lookup(absl::string_view key) const {
  auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : found->second;
}

ErrorPtr KeyValues::CheckKey(const Caller& caller, absl::string_view key) const {
  if (key.size() > options_.key_bytes_max) {
    return OverLimit(absl::StrCat("a key of ", key.size(), " bytes"), "key_bytes_max",
                     options_.key_bytes_max);
  }
  if (key.find('\0') != absl::string_view::npos) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kKeyInvalid,
                     absl::StrCat("key ", QuotedKey(key), " has a zero byte in it"));
  }
  if (caller.native() && key.find_first_not_of('/') == absl::string_view::npos) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kKeyInvalid,
                     absl::StrCat("key ", QuotedKey(key), " names nothing; give a key"));
  }
  return nullptr;
}

ErrorPtr KeyValues::CheckLifetime(const KeyLifetime& lifetime) const {
  if (lifetime.ttl > absl::ZeroDuration()) return nullptr;
  return Invalid(absl::StrCat("a key cannot live for ", absl::FormatDuration(lifetime.ttl),
                              "; give a time above zero, or none"));
}

ErrorPtr KeyValues::CheckRoom(const Place& place, size_t value_bytes) const {
  if (value_bytes > options_.value_bytes_max) {
    return OverLimit(absl::StrCat("a value of ", value_bytes, " bytes for ", QuotedKey(place.key)),
                     "value_bytes_max", options_.value_bytes_max);
  }
  if (!place.there && keys_.size() >= options_.keys_max) {
    return OverLimit(absl::StrCat("one key more, ", QuotedKey(place.key), ","), "keys_max",
                     options_.keys_max);
  }
  const size_t old = place.there ? place.key.size() + place.it->second->value.size() : 0;
  if (bytes_ - old + place.key.size() + value_bytes > options_.store_bytes_max) {
    return OverLimit(absl::StrCat("the store with ", QuotedKey(place.key)), "store_bytes_max",
                     options_.store_bytes_max);
  }
  return nullptr;
}

size_t KeyValues::CostOf(absl::string_view key, const StoredKey& stored) {
  const size_t places = (stored.expires.is_infinite() ? 0 : 1) + (stored.owner ? 1 : 0);
  return kKeyBytes + key.size() + stored.value.size() + places * (kPlaceBytes + key.size());
}

ErrorPtr KeyValues::CheckWait(const Caller& caller, size_t cost) const {
  const size_t session = caller.session.none() ? 0 : waits_.bytes(caller.session);
  if (cost + session > options_.session_wait_bytes_max) {
    return OverLimit(absl::StrCat("a wait for keys that takes ", cost, " bytes, beside ", session,
                                  " that this session's waits take,"),
                     "session_wait_bytes_max", options_.session_wait_bytes_max);
  }
  if (cost + wait_bytes() <= options_.wait_bytes_max) return nullptr;
  return OverLimit(absl::StrCat("a wait for keys that takes ", cost, " bytes, beside ",
                                wait_bytes(), " that others take,"),
                   "wait_bytes_max", options_.wait_bytes_max);
}

KeyValues::Terms KeyValues::TermsOf(Time now, const KeyLifetime& lifetime,
                                    std::optional<MemberIndex> owner) {
  return {now + lifetime.ttl, lifetime.with_member ? owner : std::nullopt};
}

ErrorPtr KeyValues::NumberAt(const Place& place, int64_t& number) {
  if (!place.there || absl::SimpleAtoi(place.it->second->value, &number)) return nullptr;
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kKeyNotANumber,
                   absl::StrCat("the value of key ", QuotedKey(place.key),
                                " cannot be incremented: it is not an integer"));
}

// Changes.

void KeyValues::Put(Place& place, StoredKeyPtr stored) {
  const StoredKeyPtr old = place.there ? place.it->second : nullptr;
  if (old == nullptr) {
    place.it = keys_.emplace_hint(place.it, std::string(place.key), stored);
    bytes_ += place.key.size() + stored->value.size();
  } else {
    place.it->second = stored;
    bytes_ += stored->value.size() - old->value.size();
  }
  place.there = true;
  const std::string& key = place.it->first;
  memory_ += CostOf(key, *stored) - (old ? CostOf(key, *old) : 0);
  if (old && old->expires != stored->expires) expiries_.erase({old->expires, key});
  if (!stored->expires.is_infinite()) expiries_.insert({stored->expires, key});
  if (old && old->owner && old->owner != stored->owner) Disown(*old->owner, key);
  if (stored->owner) owned_[*stored->owner].insert(key);
}

KeyValues::Keys::iterator KeyValues::Erase(Keys::iterator it, int64_t revision) {
  const std::string& key = it->first;
  const StoredKey& stored = *it->second;
  bytes_ -= key.size() + stored.value.size();
  memory_ -= CostOf(key, stored);
  if (!stored.expires.is_infinite()) expiries_.erase({stored.expires, key});
  if (stored.owner) Disown(*stored.owner, key);
  watch_.Note(key, nullptr, revision);
  waits_.KeyGone(key);
  return keys_.erase(it);
}

void KeyValues::Disown(MemberIndex owner, const std::string& key) {
  const auto owned = owned_.find(owner);
  if (owned == owned_.end()) return;  // a key that dies
  owned->second.erase(key);
  if (owned->second.empty()) owned_.erase(owned);
}

int64_t KeyValues::EraseAll(absl::string_view key, bool below, int64_t revision) {
  int64_t erased = 0;
  if (const Place place = Find(key); place.there) {
    Erase(place.it, revision);
    ++erased;
  }
  if (!below) return erased;
  const std::string prefix = absl::StrCat(key, "/");
  auto it = keys_.lower_bound(prefix);
  for (; it != keys_.end() && absl::StartsWith(it->first, prefix); ++erased) {
    it = Erase(it, revision);
  }
  return erased;
}

int64_t KeyValues::EraseEverything(int64_t revision) {
  int64_t erased = 0;
  for (auto it = keys_.begin(); it != keys_.end(); ++erased) it = Erase(it, revision);
  return erased;
}

ErrorPtr KeyValues::Store(Time now, Place& place, std::string value, const Terms& terms,
                          Effects& out) {
  if (ErrorPtr error = CheckRoom(place, value.size())) return error;
  const StoredKeyPtr stored = std::make_shared<const StoredKey>(
      StoredKey{std::move(value), ++revision_, now, terms.expires, terms.owner});
  Put(place, stored);
  out.records.push_back(record::KeySet{place.it->first, ValueOf(stored), revision_,
                                       terms.expires - now, terms.owner});
  watch_.Note(place.it->first, stored, revision_);
  waits_.KeySet(
      place.it->first, stored, [this](absl::string_view key) { return Lookup(key); }, out);
  watch_.Publish(out);
  return nullptr;
}

void KeyValues::Set(Time now, SetKey request, std::optional<MemberIndex> owner, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.caller, request.key)) return out.Fail(call, error);
  if (ErrorPtr error = CheckLifetime(request.lifetime)) return out.Fail(call, error);
  const KeyName name(request.key);
  Place place = Find(name.view());
  if (place.there && !request.overwrite) {
    return out.Fail(call, WithoutMark(absl::StatusCode::kAlreadyExists, Reason::kKeyExists,
                                      absl::StrCat("Config key ", QuotedKey(name.view()),
                                                   " already exists; its value was kept")));
  }
  const Terms terms = TermsOf(now, request.lifetime, owner);
  if (ErrorPtr error = Store(now, place, std::move(request.value), terms, out)) {
    return out.Fail(call, error);
  }
  if (!request.caller.native()) return out.Succeed(call);
  out.Succeed(call, KeyWritten{revision_});
}

void KeyValues::CompareAndSet(Time now, CompareAndSetKey request, std::optional<MemberIndex> owner,
                              Effects& out) {
  const CallId call = request.caller.call;
  const KeyCondition& expected = request.expected;
  if (ErrorPtr error = CheckKey(request.caller, request.key)) return out.Fail(call, error);
  if (ErrorPtr error = CheckLifetime(request.lifetime)) return out.Fail(call, error);
  if (expected.absent + expected.value.has_value() + expected.revision.has_value() != 1) {
    return out.Fail(call,
                    Invalid(absl::StrCat("a conditional write of key ", QuotedKey(request.key),
                                         " must expect exactly one thing: that the key is "
                                         "absent, a value, or a revision")));
  }
  const KeyName name(request.key);
  Place place = Find(name.view());
  const bool holds = expected.absent  ? !place.there
                     : !place.there   ? false
                     : expected.value ? place.it->second->value == *expected.value
                                      : place.it->second->revision == *expected.revision;
  if (holds) {
    const Terms terms = TermsOf(now, request.lifetime, owner);
    if (ErrorPtr error = Store(now, place, std::move(request.value), terms, out)) {
      return out.Fail(call, error);
    }
  }
  KeySwapped swapped{.swapped = holds};
  if (place.there) swapped.entry = EntryOf(std::move(request.key), place.it->second);
  out.Succeed(call, std::move(swapped));
}

void KeyValues::StoreNumber(Time now, Place& place, int64_t number, const Caller& caller,
                            const std::string& asked, Effects& out) {
  Terms terms;
  if (place.there) terms = {place.it->second->expires, place.it->second->owner};
  // A number that dies stays due: nobody owns it any more.
  if (place.there && Dies(place.it->first, *place.it->second)) terms = {now, std::nullopt};
  if (ErrorPtr error = Store(now, place, absl::StrCat(number), terms, out)) {
    return out.Fail(caller.call, error);
  }
  out.Succeed(caller.call, KeyRead{EntryOf(asked, place.it->second)});
}

void KeyValues::Increment(Time now, const IncrementKey& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.caller, request.key)) return out.Fail(call, error);
  const KeyName name(request.key);
  Place place = Find(name.view());
  int64_t number = 0;
  if (ErrorPtr error = NumberAt(place, number)) return out.Fail(call, error);
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
  if (ErrorPtr error = CheckKey(request.caller, request.key)) return out.Fail(call, error);
  const KeyName name(request.key);
  Place place = Find(name.view());
  int64_t number = 0;
  if (ErrorPtr error = NumberAt(place, number)) return out.Fail(call, error);
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
  if (ErrorPtr error = everything ? nullptr : CheckKey(request.caller, request.key)) {
    return out.Fail(call, error);
  }
  if (JoinsDeletion(request.caller)) return;
  if (request.revision) {
    if (!request.only_key) {
      return out.Fail(call,
                      Invalid(absl::StrCat("a revision is expected of ", QuotedKey(request.key),
                                           " and of all below it; a condition is for one "
                                           "key alone")));
    }
    const StoredKeyPtr stored = Lookup(name.view());
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
  if (!request.only_key && IsLong(prefix)) {
    return DeleteInSlices(request, everything ? std::nullopt : std::optional(name.view()),
                          std::move(prefix), out);
  }
  const int64_t deleted = everything ? EraseEverything(revision_ + 1)
                                     : EraseAll(name.view(), !request.only_key, revision_ + 1);
  if (deleted > 0) {
    out.records.push_back(record::KeyDeleted{std::string(everything ? kEverything : name.view()),
                                             !request.only_key, ++revision_});
    watch_.Publish(out);
  }
  if (!request.caller.native()) return out.Succeed(call);
  out.Succeed(call, KeysDeleted{deleted, revision_});
}

// Reading.

bool KeyValues::Get(Time now, const GetKey& request, bool may_wait, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.caller, request.key)) {
    out.Fail(call, error);
    return true;
  }
  const KeyName name(request.key);
  auto found = keys_.find(name.view());
  if (found != keys_.end()) {
    out.Succeed(call, KeyRead{EntryOf(request.key, found->second)});
    return true;
  }
  if (!may_wait) return false;
  if (ErrorPtr error = CheckWait(request.caller, KeyWaits::CostOf(request))) {
    out.Fail(call, error);
  } else {
    waits_.Park(now, request, name.view());
  }
  return true;
}

bool KeyValues::Get(Time now, GetKeys&& request, bool may_wait, Effects& out) {
  const CallId call = request.caller.call;
  if (request.keys.size() > options_.keys_per_wait_max) {
    out.Fail(call, OverLimit(absl::StrCat("a wait for ", request.keys.size(), " keys"),
                             "keys_per_wait_max", options_.keys_per_wait_max));
    return true;
  }
  // What takes more than a slice is parked until it is read.
  bool all_there = !LongReads::IsLong(request.keys.size());
  if (!all_there && !may_wait) return false;
  for (const std::string& key : request.keys) {
    if (ErrorPtr error = CheckKey(request.caller, key)) {
      out.Fail(call, error);
      return true;
    }
    all_there = all_there && keys_.contains(KeyName(key).view());
  }
  if (!all_there) {
    if (!may_wait) return false;
    if (ErrorPtr error = CheckWait(request.caller, KeyWaits::CostOf(request))) {
      out.Fail(call, error);
      return true;
    }
  }
  waits_.Get(
      now, std::move(request), [this](absl::string_view key) { return Lookup(key); }, revision_,
      out);
  return true;
}

void KeyValues::TryGet(const TryGetKey& request, Effects& out) const {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckKey(request.caller, request.key)) return out.Fail(call, error);
  auto found = keys_.find(KeyName(request.key).view());
  if (found == keys_.end()) {
    return out.Fail(call, MakeError(absl::StatusCode::kNotFound, Reason::kKeyNotFound,
                                    absl::StrCat(request.caller.native() ? "key " : "Config key ",
                                                 QuotedKey(request.key), " not found")));
  }
  out.Succeed(call, KeyRead{EntryOf(request.key, found->second)});
}

void KeyValues::List(const ListKeys& request, Effects& out) const {
  const Caller& caller = request.caller;
  const KeyName directory(request.directory);
  const bool all = caller.native() && directory.empty();
  if (!all) {
    if (ErrorPtr error = CheckKey(caller, request.directory)) return out.Fail(caller.call, error);
  }
  const std::string prefix = all ? "" : absl::StrCat(directory.view(), "/");
  const KeyName after(request.after);
  // The key without a name, which only stock callers can write, is behind no page.
  auto it = after.view() < prefix ? keys_.lower_bound(prefix) : keys_.upper_bound(after.view());
  KeysListed listed{.revision = revision_};
  size_t bytes = 0;
  for (; it != keys_.end() && absl::StartsWith(it->first, prefix); ++it) {
    bytes += it->first.size() + it->second->value.size();
    const bool long_page = caller.native() && listed.entries.size() == options_.page_entries_max;
    const bool full = caller.native() ? bytes > options_.page_bytes_max && !listed.entries.empty()
                                      : bytes > options_.list_bytes_max;
    if (request.limit > 0 && (full || long_page || listed.entries.size() == request.limit)) {
      listed.more = true;
      break;
    }
    if (long_page) {
      return out.Fail(caller.call,
                      OverLimit(absl::StrCat("what is below ", QuotedKey(request.directory),
                                             " (read it in pages)"),
                                "page_entries_max", options_.page_entries_max));
    }
    if (full) {
      const std::string what = absl::StrCat("what is below ", QuotedKey(request.directory));
      return out.Fail(caller.call,
                      caller.native()
                          ? OverLimit(absl::StrCat(what, ", of which ", listed.entries.size(),
                                                   " keys fit, (read it in pages)"),
                                      "page_bytes_max", options_.page_bytes_max)
                          : OverLimit(what, "list_bytes_max", options_.list_bytes_max));
    }
    listed.entries.push_back(EntryOf(it->first, it->second));
  }
  out.Succeed(caller.call, std::move(listed));
}

bool KeyValues::ForEachBelow(absl::string_view directory, absl::string_view after, size_t keys_max,
                             KeyVisitor visit) const {
  const std::string prefix = absl::StrCat(directory, "/");
  auto it = after < prefix ? keys_.lower_bound(prefix) : keys_.upper_bound(after);
  for (; it != keys_.end() && absl::StartsWith(it->first, prefix); ++it) {
    if (keys_max-- == 0) return true;
    visit(it->first, *it->second);
  }
  return false;
}

bool KeyValues::Watch(const WatchKeys& request, bool may_wait, Effects& out) {
  const CallId call = request.caller.call;
  const KeyName directory(request.key);
  if (!directory.empty()) {
    if (ErrorPtr error = CheckKey(request.caller, request.key)) {
      out.Fail(call, error);
      return true;
    }
  }
  // Who comes from later than now comes from another life of the store.
  const bool known =
      request.after > 0 && request.after >= watch_.floor() && request.after <= revision_;
  if (known) {
    KeysChanged changed = watch_.Since(directory.view(), request.after, revision_,
                                       [this](absl::string_view key) { return Lookup(key); });
    if (!changed.changes.empty()) {
      out.Succeed(call, std::move(changed));
      return true;
    }
    // Whoever is a member belongs to the attempt, as these keys do.
    const bool moves_on = request.caller.incarnation == Incarnation();
    if (!may_wait) return false;
    if (ErrorPtr error = CheckWait(request.caller, KeyWatch::CostOf(request))) {
      out.Fail(call, error);
    } else {
      watch_.Park(call, directory.view(), moves_on);
    }
    return true;
  }
  KeysChanged all{.revision = revision_, .snapshot = true};
  size_t bytes = 0;
  auto take = [&](const Keys::value_type& entry) {
    bytes += entry.first.size() + entry.second->value.size();
    all.changes.push_back(EntryOf(entry.first, entry.second));
  };
  if (auto self = keys_.find(directory.view()); self != keys_.end()) take(*self);
  const std::string prefix = directory.empty() ? "" : absl::StrCat(directory.view(), "/");
  auto it = directory.empty() ? keys_.upper_bound("") : keys_.lower_bound(prefix);
  for (; it != keys_.end() && absl::StartsWith(it->first, prefix); ++it) {
    take(*it);
    const bool many = all.changes.size() > options_.page_entries_max;
    const bool full = bytes > options_.page_bytes_max && all.changes.size() > 1;
    if (!many && !full) continue;
    out.Fail(call, OverLimit(absl::StrCat("what is at and below ", QuotedKey(request.key),
                                          ", which a watch is told whole at first, (watch less of "
                                          "it, or read it in pages)"),
                             many ? "page_entries_max" : "page_bytes_max",
                             many ? options_.page_entries_max : options_.page_bytes_max));
    return true;
  }
  out.Succeed(call, std::move(all));
  return true;
}

// The end.

void KeyValues::FailAll(const ErrorPtr& error, Effects& out) {
  waits_.FailAll(error, out);
  watch_.FailAll(error, out);
  for (const Deletion& deletion : deletions_) {
    if (!deletion.left) out.Fail(deletion.caller.call, error);
  }
  deletions_.clear();
}

void KeyValues::Close(const ErrorPtr& error, int64_t next_revision, Effects& out) {
  watch_.MoveOn(next_revision, out);
  FailAll(error, out);
}

// Restoring.

absl::Status KeyValues::Apply(Time at, const record::KeySet& record) {
  if (record.revision < 1 || record.value == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("key ", QuotedKey(record.key), " at revision ",
                                                   record.revision, " has no value"));
  }
  const KeyName name(record.key);
  Place place = Find(name.view());
  if (place.there && place.it->second->revision >= record.revision) {
    return absl::InvalidArgumentError(absl::StrCat("key ", QuotedKey(record.key),
                                                   " is set at revision ", record.revision,
                                                   " after revision ", place.it->second->revision));
  }
  const StoredKeyPtr stored = std::make_shared<const StoredKey>(
      StoredKey{*record.value, record.revision, at, at + record.ttl, record.owner});
  Put(place, stored);
  // Those of a snapshot say what is there, in the order of keys; only later ones are changes.
  if (record.revision <= revision_) return absl::OkStatus();
  revision_ = record.revision;
  watch_.Note(name.view(), stored, revision_);
  return absl::OkStatus();
}

absl::Status KeyValues::Apply(Time, const record::KeyDeleted& record) {
  if (record.revision < revision_) {
    return absl::InvalidArgumentError(absl::StrCat("key ", QuotedKey(record.key),
                                                   " is deleted at revision ", record.revision,
                                                   ", the store is at ", revision_));
  }
  const int64_t erased = record.below && record.key == kEverything
                             ? EraseEverything(record.revision)
                             : EraseAll(KeyName(record.key).view(), record.below, record.revision);
  revision_ = record.revision;
  // A snapshot begins with the deletion of nothing, which says how far the store had come.
  if (erased == 0) watch_.Forget(revision_);
  return absl::OkStatus();
}

void KeyValues::Apply(const record::OwnerGone& record) {
  auto owned = owned_.extract(record.member);
  if (!owned.empty()) dying_.push_back(std::move(owned.mapped()));
}

void KeyValues::Snapshot(std::vector<TimedRecord>& out) const {
  if (revision_ == 1) return;
  out.reserve(out.size() + keys_.size() + 1);
  out.push_back({Time(), record::KeyDeleted{"", false, revision_}});
  for (const auto& [key, stored] : keys_) {
    const bool dies = Dies(key, *stored);
    out.push_back({stored->set_at,
                   record::KeySet{key, ValueOf(stored), stored->revision,
                                  dies ? absl::Nanoseconds(1) : stored->expires - stored->set_at,
                                  dies ? std::nullopt : stored->owner}});
  }
}

}  // namespace lockstep::coord

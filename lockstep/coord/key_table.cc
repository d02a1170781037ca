#include "lockstep/coord/key_table.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/key_checks.h"
#include "lockstep/coord/key_name.h"

namespace lockstep::coord {
namespace {

// A key's node, its name and the value's header, and the allocator's part of each.
constexpr size_t kKeyBytes = 256;
// A place in a table beside it, the name again included.
constexpr size_t kPlaceBytes = 96;

// Tables with more keys are not summed up at every step.
constexpr size_t kCheckedMax = 32;

// Else a slice would remove nothing, and the rest would be due for ever.
static_assert(kDyingKeysSliceMax > 0 && kDyingBytesSliceMax > 0);

size_t CostOf(absl::string_view key, const StoredKey& stored) {
  const size_t places = (stored.expires.is_infinite() ? 0 : 1) + (stored.owner ? 1 : 0);
  return kKeyBytes + key.size() + stored.value.size() + places * (kPlaceBytes + key.size());
}

}  // namespace

KeyTable::KeyTable(const CoordinatorOptions& options, int64_t first_revision, KeyWaits& waits,
                   KeyWatch& watch)
    : options_(options), waits_(waits), watch_(watch), revision_(first_revision) {
  LOCKSTEP_DCHECK(first_revision >= 1);  // 0 says that a watcher knows nothing
  // Earlier revisions are of another attempt's store, of which no change is known here.
  if (first_revision > 1) watch_.Forget(first_revision);
}

// Finding.

KeyTable::Place KeyTable::Find(absl::string_view key) {
  auto it = keys_.lower_bound(key);
  return {key, it, it != keys_.end() && it->first == key};
}

StoredKeyPtr KeyTable::Lookup(absl::string_view key) const {
  auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : found->second;
}

bool KeyTable::ForEachBelow(absl::string_view directory, absl::string_view after, size_t keys_max,
                            Visitor visit) const {
  const std::string prefix = absl::StrCat(directory, "/");
  // Never before the directory, wherever the last page ended.
  auto it = after < prefix ? keys_.lower_bound(prefix) : keys_.upper_bound(after);
  for (; it != keys_.end() && absl::StartsWith(it->first, prefix); ++it) {
    if (keys_max-- == 0) return true;
    visit(it->first, *it->second);
  }
  return false;
}

// Writing.

ErrorPtr KeyTable::CheckRoom(const Place& place, size_t value_bytes) const {
  if (value_bytes > options_.value_bytes_max) {
    return OverLimit(absl::StrCat("a value of ", value_bytes, " bytes for ", QuotedKey(place.key)),
                     "value_bytes_max", options_.value_bytes_max);
  }
  if (!place.there && keys_.size() >= options_.keys_max) {
    return OverLimit(absl::StrCat("one key more, ", QuotedKey(place.key), ","), "keys_max",
                     options_.keys_max);
  }
  // What the write replaces makes room for it.
  const size_t old = place.there ? place.key.size() + place.it->second->value.size() : 0;
  if (bytes_ - old + place.key.size() + value_bytes > options_.store_bytes_max) {
    return OverLimit(absl::StrCat("the store with ", QuotedKey(place.key)), "store_bytes_max",
                     options_.store_bytes_max);
  }
  return nullptr;
}

ErrorPtr KeyTable::Write(Time now, Place& place, std::string value, const Terms& terms,
                         Effects& out) {
  LOCKSTEP_DCHECK(place.there == keys_.contains(place.key));  // nothing has changed since `Find`
  if (ErrorPtr error = CheckRoom(place, value.size())) return error;
  const StoredKeyPtr stored = std::make_shared<const StoredKey>(
      StoredKey{std::move(value), ++revision_, now, terms.expires, terms.owner});
  Put(place, stored);
  // By how long it lives: a restarted server's clock has another origin.
  out.records.push_back(record::KeySet{place.it->first, ValueOf(stored), revision_,
                                       terms.expires - now, terms.owner});
  watch_.Note(place.it->first, stored, revision_);
  // After the value is in the table: a call for many keys that is woken looks up the others, and
  // may have asked for this one twice.
  waits_.KeySet(
      place.it->first, stored, [this](absl::string_view key) { return Lookup(key); }, out);
  watch_.Publish(out);
  LOCKSTEP_DCHECK(InvariantsHold());
  return nullptr;
}

void KeyTable::Put(Place& place, StoredKeyPtr stored) {
  const StoredKeyPtr old = place.there ? place.it->second : nullptr;
  LOCKSTEP_DCHECK(old == nullptr || old->revision < stored->revision);
  // A key that is there keeps its node, and its name is counted already.
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
  // Last: the name is the one that the table owns.
  leases_.Grant(key, old.get(), *stored);
}

// Removing.

KeyTable::Keys::iterator KeyTable::Erase(Keys::iterator it, int64_t revision) {
  const std::string& key = it->first;
  const StoredKey& stored = *it->second;
  LOCKSTEP_DCHECK(bytes_ >= key.size() + stored.value.size() && memory_ >= CostOf(key, stored));
  // All of this before the node goes, which owns the name and the value.
  bytes_ -= key.size() + stored.value.size();
  memory_ -= CostOf(key, stored);
  leases_.End(key, stored);
  watch_.Note(key, nullptr, revision);
  waits_.KeyGone(key);
  return keys_.erase(it);
}

int64_t KeyTable::EraseAll(absl::string_view key, bool below, int64_t revision) {
  const bool everything = below && key == kEverything;
  int64_t erased = 0;
  // The key itself is not among those that begin with `key/`.
  if (const Place place = Find(key); place.there) {
    Erase(place.it, revision);
    ++erased;
  }
  if (!below) return erased;
  const std::string prefix = everything ? "" : absl::StrCat(key, "/");
  auto it = keys_.lower_bound(prefix);
  for (; it != keys_.end() && absl::StartsWith(it->first, prefix); ++erased) {
    it = Erase(it, revision);
  }
  return erased;
}

int64_t KeyTable::Delete(absl::string_view key, bool below, Effects& out) {
  // The revision moves only if something goes: watchers must not hear of nothing.
  const int64_t deleted = EraseAll(key, below, revision_ + 1);
  if (deleted == 0) return 0;
  out.records.push_back(record::KeyDeleted{std::string(key), below, ++revision_});
  LOCKSTEP_DCHECK(InvariantsHold());
  return deleted;
}

void KeyTable::DeleteOne(Keys::iterator it, Effects& out) {
  LOCKSTEP_DCHECK(it != keys_.end());
  // Copied: `Erase` destroys the node.
  std::string key = it->first;
  Erase(it, ++revision_);
  out.records.push_back(record::KeyDeleted{std::move(key), false, revision_});
}

bool KeyTable::IsLong(absl::string_view prefix) const {
  KeySlice slice;
  for (auto it = keys_.lower_bound(prefix);
       it != keys_.end() && absl::StartsWith(it->first, prefix); ++it) {
    // Before the next key is counted: exactly one slice is not long.
    if (slice.full()) return true;
    ++slice.keys;
    slice.bytes += it->first.size() + it->second->value.size();
  }
  return false;
}

bool KeyTable::DeleteSlice(absl::string_view prefix, std::string& after, KeySlice& slice,
                           int64_t& deleted, Effects& out) {
  LOCKSTEP_DCHECK(after.empty() || absl::StartsWith(after, prefix));
  // From behind the last that went, which need not be there any more.
  auto it = after.empty() ? keys_.lower_bound(prefix) : keys_.upper_bound(after);
  // One revision for the whole slice: who follows the keys gets it whole, or not yet.
  const int64_t revision = revision_ + 1;
  const auto more = [&] { return it != keys_.end() && absl::StartsWith(it->first, prefix); };
  for (; more() && !slice.full(); ++slice.keys, ++deleted) {
    slice.bytes += it->first.size() + it->second->value.size();
    after = it->first;
    it = Erase(it, revision);
    revision_ = revision;
    // A record for each key, not for the prefix: what is set behind `after` meanwhile stays.
    out.records.push_back(record::KeyDeleted{after, false, revision});
  }
  LOCKSTEP_DCHECK(InvariantsHold());
  return more();
}

void KeyTable::RemoveDead(Time now, KeySlice& slice, Effects& out) {
  const auto remove = [&](Keys::iterator it) {
    slice.bytes += it->first.size() + it->second->value.size();
    DeleteOne(it, out);
  };
  while (!slice.full()) {
    const std::optional<std::string> key = leases_.TakeDying();
    if (!key) break;
    // Counted even if nothing is removed: a turn looks at a bounded number of names, too.
    ++slice.keys;
    const Place place = Find(*key);
    // The key may be gone by now, or be owned again by a later life of its member.
    if (place.there && Dies(*key, *place.it->second)) remove(place.it);
  }
  while (!slice.full()) {
    const std::string* const key = leases_.FindExpired(now);
    if (key == nullptr) break;
    ++slice.keys;
    const Place place = Find(*key);
    LOCKSTEP_DCHECK(place.there);  // a lease ends with its key
    remove(place.it);
  }
  LOCKSTEP_DCHECK(InvariantsHold());
}

Time KeyTable::NextDeadline() const { return any_dying() ? Time() : leases_.FirstExpiry(); }

// Restoring.

absl::Status KeyTable::Apply(Time at, const record::KeySet& record) {
  if (record.revision < 1 || record.value == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("key ", QuotedKey(record.key), " at revision ",
                                                   record.revision, " has no value"));
  }
  const KeyName name(record.key);
  Place place = Find(name.view());
  // A key's revisions only go up, in a snapshot and behind it.
  if (place.there && place.it->second->revision >= record.revision) {
    return absl::InvalidArgumentError(absl::StrCat("key ", QuotedKey(record.key),
                                                   " is set at revision ", record.revision,
                                                   " after revision ", place.it->second->revision));
  }
  const StoredKeyPtr stored = std::make_shared<const StoredKey>(
      StoredKey{*record.value, record.revision, at, at + record.ttl, record.owner});
  // Before the revision is looked at: a snapshot lists keys below it.
  Put(place, stored);
  // Those of a snapshot say what is there, in the order of keys; only later ones are changes.
  if (record.revision <= revision_) return absl::OkStatus();
  revision_ = record.revision;
  watch_.Note(name.view(), stored, revision_);
  return absl::OkStatus();
}

absl::Status KeyTable::Apply(const record::KeyDeleted& record) {
  // Equal revisions are lawful: one deletion or slice may have several records.
  if (record.revision < revision_) {
    return absl::InvalidArgumentError(absl::StrCat("key ", QuotedKey(record.key),
                                                   " is deleted at revision ", record.revision,
                                                   ", the store is at ", revision_));
  }
  // As it is: in its normal spelling, everything would be the key without a name.
  const bool everything = record.below && record.key == kEverything;
  const KeyName name(record.key);
  const int64_t erased =
      EraseAll(everything ? kEverything : name.view(), record.below, record.revision);
  revision_ = record.revision;
  // A snapshot begins with the deletion of nothing, which says how far the store had come.
  if (erased == 0) watch_.Forget(revision_);
  return absl::OkStatus();
}

void KeyTable::Snapshot(std::vector<TimedRecord>& out) const {
  // A store that never changed is made again from nothing.
  if (revision_ == 1) return;
  out.reserve(out.size() + keys_.size() + 1);
  out.push_back({Time(), record::KeyDeleted{"", false, revision_}});
  for (const auto& [key, stored] : keys_) {
    // Of a dying key the list is not in the snapshot; a time that is long past has the same effect.
    const bool dies = Dies(key, *stored);
    out.push_back({stored->set_at,
                   record::KeySet{key, ValueOf(stored), stored->revision,
                                  dies ? absl::Nanoseconds(1) : stored->expires - stored->set_at,
                                  dies ? std::nullopt : stored->owner}});
  }
}

bool KeyTable::InvariantsHold() const {
  if (keys_.size() > kCheckedMax) return true;
  size_t bytes = 0, memory = 0;
  for (const auto& [key, stored] : keys_) {
    bytes += key.size() + stored->value.size();
    memory += CostOf(key, *stored);
    LOCKSTEP_CHECK(stored->revision <= revision_);
  }
  LOCKSTEP_CHECK(bytes == bytes_);
  LOCKSTEP_CHECK(memory == memory_);
  return true;
}

}  // namespace lockstep::coord

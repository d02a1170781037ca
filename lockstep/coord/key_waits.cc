#include "lockstep/coord/key_waits.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/key_name.h"

namespace lockstep::coord {
namespace {

// A wait with its places in tables; a name in a list of many.
constexpr size_t kWaitBytes = 384;
constexpr size_t kNameBytes = 48;

// The first that has no value, looked for from `from` on and round: what was there before may have
// been deleted meanwhile.
std::optional<size_t> FirstMissing(const std::vector<std::string>& keys, size_t from,
                                   KeyLookup lookup) {
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t at = from + i < keys.size() ? from + i : from + i - keys.size();
    if (!lookup(KeyName(keys[at]).view())) return at;
  }
  return std::nullopt;
}

}  // namespace

// The name is kept here, at its slot, and where hangs are explained.
size_t KeyWaits::CostOf(const GetKey& request) { return kWaitBytes + 3 * request.key.size(); }

size_t KeyWaits::CostOf(const GetKeys& request) {
  size_t cost = kWaitBytes;
  size_t longest = 0;
  for (const std::string& key : request.keys) {
    cost += kNameBytes + key.size();
    longest = std::max(longest, key.size());
  }
  return cost + 2 * longest;
}

void KeyWaits::Uncount(const Waiter& waiter) {
  LOCKSTEP_DCHECK(waits_ >= waiter.weight && bytes_ >= waiter.cost);
  LOCKSTEP_DCHECK(!waiter.background || background_ > 0);
  waits_ -= waiter.weight;
  bytes_ -= waiter.cost;
  background_ -= waiter.background ? 1 : 0;
  if (waiter.session.none()) return;
  const auto found = session_bytes_.find(waiter.session);
  LOCKSTEP_DCHECK(found != session_bytes_.end() && found->second >= waiter.cost);
  found->second -= waiter.cost;
  // The map is bounded by the sessions that wait.
  if (found->second == 0) session_bytes_.erase(found);
}

void KeyWaits::Count(const Waiter& waiter) {
  LOCKSTEP_DCHECK(waiter.weight > 0 && waiter.cost > 0);
  waits_ += waiter.weight;
  bytes_ += waiter.cost;
  if (!waiter.session.none()) session_bytes_[waiter.session] += waiter.cost;
  background_ += waiter.background ? 1 : 0;
}

void KeyWaits::Park(absl::string_view key, CallId call, Waiter waiter) {
  LOCKSTEP_DCHECK(!calls_.contains(call));
  Count(waiter);
  // Nodes do not move, so that calls may point to them.
  Slot& slot = *slots_.try_emplace(key).first;
  slot.second.emplace(call, std::move(waiter));
  calls_[call] = &slot;
}

void KeyWaits::Park(Time now, const GetKey& request, absl::string_view key) {
  Park(key, request.caller.call,
       {.incarnation = request.caller.incarnation,
        .since = now,
        .asked = request.key,
        .session = request.caller.session,
        .cost = CostOf(request),
        .background = AsksInBackground(request)});
}

void KeyWaits::Get(Time now, GetKeys&& request, KeyLookup lookup, int64_t revision, Effects& out) {
  const CallId call = request.caller.call;
  const auto waiter = [&](size_t at) {
    Waiter is = {.incarnation = request.caller.incarnation,
                 .since = now,
                 .weight = std::max<size_t>(request.keys.size(), 1),
                 .at = at,
                 .session = request.caller.session,
                 .cost = CostOf(request)};
    is.many = std::move(request.keys);
    return is;
  };
  // A long list is not looked through in one turn.
  if (LongReads::IsLong(request.keys.size())) return Read(call, waiter(0));
  const std::optional<size_t> missing = FirstMissing(request.keys, 0, lookup);
  if (!missing) return AnswerMany(call, request.keys, lookup, revision, out);
  // Before `waiter` moves the list.
  const std::string key = NormalKey(request.keys[*missing]);
  Park(key, call, waiter(*missing));
}

void KeyWaits::Read(CallId call, Waiter waiter) {
  LOCKSTEP_DCHECK(!reading_.contains(call));
  // Counted while it is read: a read in slices takes a place as any wait does.
  Count(waiter);
  reads_.Add({call, std::move(waiter.many)});
  reading_.emplace(call, std::move(waiter));
}

void KeyWaits::ReadSlice(KeyLookup lookup, int64_t revision, Effects& out) {
  std::optional<LongReads::Ended> ended = reads_.ReadSlice(lookup);
  if (!ended) return;
  if (ended->missing) return ParkAgain(*std::move(ended));
  const CallId call = ended->read.call;
  // Before the answer: a call that is answered takes no place.
  Uncount(reading_.at(call));
  reading_.erase(call);
  // Checked at the end, when all values are known.
  if (ended->bytes > options_.page_bytes_max) {
    return out.Fail(call, TooMuch(ended->listed.front().key, ended->listed.size()));
  }
  out.Succeed(call, KeysListed{.entries = std::move(ended->listed), .revision = revision});
}

void KeyWaits::KeyGone(absl::string_view key) {
  if (std::optional<LongReads::Ended> ended = reads_.KeyGone(key)) ParkAgain(*std::move(ended));
}

void KeyWaits::ParkAgain(LongReads::Ended ended) {
  const auto found = reading_.find(ended.read.call);
  LOCKSTEP_DCHECK(found != reading_.end() && ended.missing.has_value());
  Waiter waiter = std::move(found->second);
  reading_.erase(found);
  Uncount(waiter);
  waiter.many = std::move(ended.read.keys);
  waiter.at = *ended.missing;
  const std::string key = NormalKey(waiter.many[waiter.at]);
  Park(key, ended.read.call, std::move(waiter));
}

ErrorPtr KeyWaits::TooMuch(absl::string_view first, size_t keys) const {
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                   absl::StrCat("what ", keys, " keys from ", QuotedKey(first),
                                " on hold is over the limit page_bytes_max (",
                                options_.page_bytes_max, "); ask for fewer at once"));
}

void KeyWaits::AnswerMany(CallId call, const std::vector<std::string>& keys, KeyLookup lookup,
                          int64_t revision, Effects& out) const {
  KeysListed listed{.revision = revision};
  listed.entries.reserve(keys.size());
  size_t bytes = 0;
  for (const std::string& key : keys) {
    const StoredKeyPtr stored = lookup(KeyName(key).view());
    LOCKSTEP_DCHECK(stored != nullptr);  // none was missing
    bytes += key.size() + stored->value.size();
    // One value alone is given however large it is, as in a page.
    if (bytes > options_.page_bytes_max && !listed.entries.empty()) {
      return out.Fail(call, TooMuch(keys.front(), keys.size()));
    }
    listed.entries.push_back(EntryOf(key, stored));
  }
  out.Succeed(call, std::move(listed));
}

void KeyWaits::KeySet(absl::string_view key, const StoredKeyPtr& stored, KeyLookup lookup,
                      Effects& out) {
  LOCKSTEP_DCHECK(stored != nullptr);
  // First: a long read that has passed this key follows its value.
  reads_.KeySet(key, stored);
  if (slots_.empty()) return;
  auto found = slots_.find(key);
  if (found == slots_.end()) return;
  // Taken out: a waiter that moves on may add a slot, which must not meet this one.
  Waiters waiters = std::move(found->second);
  slots_.erase(found);
  for (auto& [call, waiter] : waiters) {
    calls_.erase(call);
    Uncount(waiter);
    // In the order of the calls, which is that of their arrival.
    if (waiter.many.empty()) {
      out.Succeed(call, KeyRead{EntryOf(std::move(waiter.asked), stored)});
    } else if (LongReads::IsLong(waiter.many.size())) {
      Read(call, std::move(waiter));
    } else if (auto missing = FirstMissing(waiter.many, waiter.at, lookup)) {
      waiter.at = *missing;
      const std::string next = NormalKey(waiter.many[*missing]);
      Park(next, call, std::move(waiter));
    } else {
      AnswerMany(call, waiter.many, lookup, stored->revision, out);
    }
  }
}

bool KeyWaits::Forget(CallId call) {
  if (const auto reading = reading_.find(call); reading != reading_.end()) {
    Uncount(reading->second);
    reading_.erase(reading);
    const bool read = reads_.Forget(call);
    LOCKSTEP_DCHECK(read);
    return read;
  }
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  Slot& slot = *found->second;
  auto waiter = slot.second.find(call);
  LOCKSTEP_CHECK(waiter != slot.second.end());
  Uncount(waiter->second);
  slot.second.erase(waiter);
  calls_.erase(found);
  if (slot.second.empty()) slots_.erase(slots_.find(slot.first));
  return true;
}

bool KeyWaits::InBackground(const Slot& slot) const {
  // A caller in earnest at the same key makes it worth showing.
  return slot.first == kStockNoticeKey && slot.second.size() == background_;
}

size_t KeyWaits::keys() const {
  const auto notice = background_ > 0 ? slots_.find(kStockNoticeKey) : slots_.end();
  return slots_.size() - (notice != slots_.end() && InBackground(*notice) ? 1 : 0);
}

std::vector<const KeyWaits::Slot*> KeyWaits::First(size_t rows_max) const {
  return Sorted(rows_max, /*all=*/false);
}

std::vector<const KeyWaits::Slot*> KeyWaits::Sorted(size_t rows_max, bool all) const {
  std::vector<const Slot*> slots;
  slots.reserve(slots_.size());
  for (const Slot& slot : slots_) {
    if (all || !InBackground(slot)) slots.push_back(&slot);
  }
  const size_t rows = std::min(rows_max, slots.size());
  std::partial_sort(slots.begin(), slots.begin() + static_cast<ptrdiff_t>(rows), slots.end(),
                    [](const Slot* a, const Slot* b) { return a->first < b->first; });
  slots.resize(rows);
  return slots;
}

void KeyWaits::FailAll(const ErrorPtr& error, Effects& out) {
  // Sorted: the table has no order, and effects must not depend on how it lies.
  for (const Slot* slot : Sorted(slots_.size(), /*all=*/true)) {
    for (const auto& [call, waiter] : slot->second) out.Fail(call, error);
  }
  for (const CallId call : reads_.calls()) out.Fail(call, error);
  slots_.clear();
  calls_.clear();
  reads_.Clear();
  reading_.clear();
  session_bytes_.clear();
  waits_ = bytes_ = background_ = 0;
}

}  // namespace lockstep::coord

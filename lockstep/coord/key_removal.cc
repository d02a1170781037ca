// How keys go that are many: those that die by themselves, and those of a long deletion.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/key_name.h"
#include "lockstep/coord/key_values.h"

namespace lockstep::coord {

// Keys that die.

size_t KeyValues::Remove(const std::string& key, Effects& out) {
  const Keys::iterator it = Find(key).it;
  const size_t bytes = key.size() + it->second->value.size();
  Erase(it, ++revision_);
  out.records.push_back(record::KeyDeleted{key, false, revision_});
  return bytes;
}

bool KeyValues::Dies(absl::string_view key, const StoredKey& stored) const {
  if (!stored.owner) return false;
  const auto owned = owned_.find(*stored.owner);
  return owned == owned_.end() || !owned->second.contains(key);
}

void KeyValues::MemberGone(MemberIndex member, Effects& out) {
  auto owned = owned_.extract(member);
  if (owned.empty()) return;
  dying_.push_back(std::move(owned.mapped()));
  // Many members may go in one event.
  if (out.records.size() < kDyingKeysSliceMax) RemoveSlice(Time(), out);
  if (!dying_.empty()) out.records.push_back(record::OwnerGone{member});
}

Time KeyValues::NextDeadline() const {
  if (!dying_.empty() || !deletions_.empty() || waits_.reads()) return Time();
  return expiries_.empty() ? Time::Infinite() : expiries_.begin()->first;
}

void KeyValues::ReachDeadline(Time now, Effects& out) {
  RemoveSlice(now, out);
  waits_.ReadSlice([this](absl::string_view key) { return Lookup(key); }, revision_, out);
}

void KeyValues::RemoveSlice(Time now, Effects& out) {
  Slice slice;
  while (!dying_.empty() && !slice.full()) {
    absl::btree_set<std::string>& set = dying_.front();
    if (set.empty()) {
      dying_.pop_front();
      continue;
    }
    ++slice.keys;
    const std::string key = std::move(set.extract(set.begin()).value());
    // It may have been deleted meanwhile, or be another's.
    const Place place = Find(key);
    if (place.there && Dies(key, *place.it->second)) slice.bytes += Remove(key, out);
  }
  while (!dying_.empty() && dying_.front().empty()) dying_.pop_front();
  while (!expiries_.empty() && expiries_.begin()->first <= now && !slice.full()) {
    const std::string key = expiries_.begin()->second;
    slice.bytes += Remove(key, out);
    ++slice.keys;
  }
  RemoveSliceOfDeletions(slice, out);
  watch_.Publish(out);
}

// Long deletions.

bool KeyValues::IsLong(absl::string_view prefix) const {
  Slice slice;
  for (auto it = keys_.lower_bound(prefix);
       it != keys_.end() && absl::StartsWith(it->first, prefix); ++it) {
    if (slice.full()) return true;
    ++slice.keys;
    slice.bytes += it->first.size() + it->second->value.size();
  }
  return false;
}

void KeyValues::DeleteInSlices(const DeleteKey& request, std::optional<absl::string_view> key,
                               std::string prefix, Effects& out) {
  if (deletions_.size() >= kLongDeletionsMax) {
    return out.Fail(
        request.caller.call,
        MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                  absl::StrCat("one long deletion more, of what is below ", QuotedKey(request.key),
                               ", is over the limit long_deletions_max (", kLongDeletionsMax,
                               "); nothing was changed; ask again when others are over")));
  }
  Deletion deletion = {.caller = request.caller, .prefix = std::move(prefix)};
  if (key && Find(*key).there) {
    Remove(std::string(*key), out);
    ++deletion.deleted;
  }
  deletions_.push_back(std::move(deletion));
  // Many may be asked for in one turn.
  Slice slice;
  if (deletions_.size() == 1) RemoveSliceOfDeletions(slice, out);
  watch_.Publish(out);
}

void KeyValues::RemoveSliceOfDeletions(Slice& slice, Effects& out) {
  while (!deletions_.empty() && !slice.full()) {
    Deletion& deletion = deletions_.front();
    // What was set behind the place that it has come to was set after it; what it still comes to,
    // before.
    auto it = deletion.after.empty() ? keys_.lower_bound(deletion.prefix)
                                     : keys_.upper_bound(deletion.after);
    const int64_t revision = revision_ + 1;
    const auto more = [&] {
      return it != keys_.end() && absl::StartsWith(it->first, deletion.prefix);
    };
    for (; more() && !slice.full(); ++slice.keys, ++deletion.deleted) {
      slice.bytes += it->first.size() + it->second->value.size();
      deletion.after = it->first;
      it = Erase(it, revision);
      revision_ = revision;
      out.records.push_back(record::KeyDeleted{deletion.after, false, revision});
    }
    if (more()) return;
    const KeysDeleted answer = {deletion.deleted, revision_};
    const Caller& caller = deletion.caller;
    if (!deletion.left && caller.native()) out.Succeed(caller.call, answer);
    if (!deletion.left && !caller.native()) out.Succeed(caller.call);
    if (caller.native()) deleted_.push_back({caller, answer});
    deletions_.pop_front();
  }
}

bool KeyValues::JoinsDeletion(const Caller& caller) {
  if (!caller.native() || caller.number == 0) return false;
  for (Deletion& deletion : deletions_) {
    if (deletion.caller.session != caller.session || deletion.caller.number != caller.number) {
      continue;
    }
    deletion.caller = caller;
    deletion.left = false;
    return true;
  }
  return false;
}

bool KeyValues::ForgetDeletion(CallId call) {
  for (Deletion& deletion : deletions_) {
    if (deletion.left || deletion.caller.call != call) continue;
    deletion.left = true;
    return true;
  }
  return false;
}

}  // namespace lockstep::coord

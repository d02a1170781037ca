#include "lockstep/coord/key_watch.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/key_name.h"
#include "lockstep/coord/key_rights.h"

namespace lockstep::coord {
namespace {

std::vector<KeyValue> WithoutHidden(std::vector<KeyValue> changes) {
  std::erase_if(changes, [](const KeyValue& change) { return IsHidden(change.key); });
  return changes;
}

}  // namespace

void KeyWatch::Note(absl::string_view key, const StoredKeyPtr& stored, int64_t revision) {
  LOCKSTEP_DCHECK(changes_.empty() || changes_.back().revision <= revision);
  changes_.push_back({std::string(key), revision});
  change_bytes_ += key.size();
  // The floor moves with what is forgotten (1).
  while (changes_.size() > options_.kept_key_changes_max) {
    floor_ = changes_.front().revision;
    LOCKSTEP_DCHECK(change_bytes_ >= changes_.front().key.size());
    change_bytes_ -= changes_.front().key.size();
    changes_.pop_front();
  }
  // No watcher is parked that the change could concern.
  if (slots_.empty()) return;
  unpublished_.push_back({std::string(key), stored ? ValueOf(stored) : nullptr, revision});
}

void KeyWatch::Forget(int64_t revision) {
  LOCKSTEP_DCHECK(revision >= floor_);
  changes_.clear();
  change_bytes_ = 0;
  floor_ = revision;
}

void KeyWatch::Publish(Effects& out) {
  if (unpublished_.empty()) return;
  std::map<absl::string_view, std::vector<KeyValue>> told;  // by directory
  for (const KeyValue& change : unpublished_) {
    const absl::string_view key = change.key;
    // By the lengths of watched directories, shortest first; longer ones cannot hold the key.
    for (const auto& [length, directories] : lengths_) {
      if (length > key.size()) break;
      // A directory ends at a slash of the key, or is the key.
      if (length != 0 && length != key.size() && key[length] != '/') continue;
      auto slot = slots_.find(key.substr(0, length));
      if (slot != slots_.end()) told[slot->first].push_back(change);
    }
  }
  // Revisions only go up, so the last one covers all that is told.
  const int64_t revision = unpublished_.back().revision;
  unpublished_.clear();
  // In the order of directories, so that effects do not depend on how the table lies.
  for (const auto& [directory, changes] : told) {
    Slot& slot = *slots_.find(directory);
    // Only of all keys are some hidden: below a directory either all are, or none.
    const bool has_hidden = directory.empty();
    const std::vector<KeyValue> others =
        has_hidden ? WithoutHidden(changes) : std::vector<KeyValue>();
    Watchers stay;
    for (CallId call : slot.second) {
      const auto watcher = calls_.find(call);
      const auto& seen = has_hidden && !watcher->second.sees_hidden ? others : changes;
      if (seen.empty()) {
        stay.insert(call);
        continue;
      }
      // A watcher hears of one batch and asks again.
      calls_.erase(watcher);
      out.Succeed(call, KeysChanged{.changes = seen, .revision = revision});
    }
    slot.second = std::move(stay);
    if (slot.second.empty()) Drop(slot);
  }
}

KeysChanged KeyWatch::Since(absl::string_view directory, int64_t after, int64_t current,
                            KeyLookup lookup, bool sees_hidden) const {
  LOCKSTEP_DCHECK(after >= floor_ && after <= current);  // (1)
  KeysChanged changed{.revision = current};
  auto begin =
      std::upper_bound(changes_.begin(), changes_.end(), after,
                       [](int64_t r, const Change& change) { return r < change.revision; });
  // Newest first, so that of each key only its last change is taken.
  absl::flat_hash_set<absl::string_view> seen;
  for (auto it = changes_.end(); it != begin;) {
    --it;
    if (!IsAtOrBelow(it->key, directory) || !seen.insert(it->key).second) continue;
    if (directory.empty() && !sees_hidden && IsHidden(it->key)) continue;
    const StoredKeyPtr stored = lookup(it->key);
    changed.changes.push_back({it->key, stored ? ValueOf(stored) : nullptr, it->revision});
  }
  std::reverse(changed.changes.begin(), changed.changes.end());

  size_t bytes = 0;
  for (size_t i = 0; i < changed.changes.size(); ++i) {
    const KeyValue& change = changed.changes[i];
    bytes += change.key.size() + (change.value ? change.value->size() : 0);
    if (bytes <= options_.page_bytes_max || i == 0) continue;
    if (change.revision == changed.changes[i - 1].revision) continue;  // one revision stays whole
    changed.revision = changed.changes[i - 1].revision;
    // The watcher asks for the rest after the revision that it got.
    changed.changes.resize(i);
  }
  return changed;
}

void KeyWatch::Park(CallId call, absl::string_view directory, bool moves_on, bool sees_hidden) {
  LOCKSTEP_DCHECK(!calls_.contains(call));
  auto [slot, is_new] = slots_.try_emplace(directory);
  if (is_new) {
    ++lengths_[directory.size()];
    directory_bytes_ += directory.size();
  }
  slot->second.insert(call);
  calls_[call] = {&*slot, moves_on, sees_hidden};
}

void KeyWatch::Drop(const Slot& slot) {
  auto length = lengths_.find(slot.first.size());
  LOCKSTEP_CHECK(length != lengths_.end());
  if (--length->second == 0) lengths_.erase(length);
  LOCKSTEP_DCHECK(directory_bytes_ >= slot.first.size());
  directory_bytes_ -= slot.first.size();
  slots_.erase(slots_.find(slot.first));
}

bool KeyWatch::Forget(CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  Slot& slot = *found->second.slot;
  slot.second.erase(call);
  calls_.erase(found);
  if (slot.second.empty()) Drop(slot);
  return true;
}

void KeyWatch::MoveOn(int64_t revision, Effects& out) {
  std::vector<CallId> calls;
  for (const auto& [call, watcher] : calls_) {
    if (watcher.moves_on) calls.push_back(call);
  }
  // The table has no order, and effects must not depend on how it lies.
  std::sort(calls.begin(), calls.end());
  for (CallId call : calls) {
    out.Succeed(call, KeysChanged{.revision = revision, .snapshot = true});
    Forget(call);
  }
}

void KeyWatch::FailAll(const ErrorPtr& error, Effects& out) {
  std::vector<CallId> calls;
  calls.reserve(calls_.size());
  for (const auto& [call, watcher] : calls_) calls.push_back(call);
  std::sort(calls.begin(), calls.end());
  for (CallId call : calls) out.Fail(call, error);
  slots_.clear();
  lengths_.clear();
  calls_.clear();
  directory_bytes_ = 0;
}

}  // namespace lockstep::coord

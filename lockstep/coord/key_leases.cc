#include "lockstep/coord/key_leases.h"

#include "lockstep/base/check.h"

namespace lockstep::coord {

void KeyLeases::Grant(const std::string& key, const StoredKey* old, const StoredKey& stored) {
  // The old place first, so that the key never has two (1).
  if (old != nullptr && old->expires != stored.expires) expiries_.erase({old->expires, key});
  if (!stored.expires.is_infinite()) expiries_.insert({stored.expires, key});
  // The owner may change with each write; an owner that stays keeps its entry.
  if (old != nullptr && old->owner && old->owner != stored.owner) Disown(*old->owner, key);
  if (stored.owner) owned_[*stored.owner].insert(key);
}

void KeyLeases::End(const std::string& key, const StoredKey& stored) {
  if (!stored.expires.is_infinite()) {
    const size_t erased = expiries_.erase({stored.expires, key});
    LOCKSTEP_DCHECK(erased == 1);  // (1)
  }
  if (stored.owner) Disown(*stored.owner, key);
}

void KeyLeases::Disown(MemberIndex owner, const std::string& key) {
  const auto owned = owned_.find(owner);
  // A dying key belongs to nobody any more. Its name stays in dying_, since to look for it in all
  // of these sets would cost more than to find it gone later.
  if (owned == owned_.end()) return;
  owned->second.erase(key);
  if (owned->second.empty()) owned_.erase(owned);
}

bool KeyLeases::OwnerGone(MemberIndex owner) {
  // Taken out at once: keys that the member sets in its next life are not among these.
  auto owned = owned_.extract(owner);
  if (owned.empty()) return false;
  LOCKSTEP_CHECK(!owned.mapped().empty());
  dying_.push_back(std::move(owned.mapped()));
  return true;
}

// A member that lives anew may own keys again while its former ones die, so that the owner alone
// does not say which ones do.
bool KeyLeases::Dies(absl::string_view key, const StoredKey& stored) const {
  if (!stored.owner) return false;
  const auto owned = owned_.find(*stored.owner);
  return owned == owned_.end() || !owned->second.contains(key);
}

std::optional<std::string> KeyLeases::TakeDying() {
  if (dying_.empty()) return std::nullopt;
  absl::btree_set<std::string>& keys = dying_.front();
  LOCKSTEP_DCHECK(!keys.empty());
  std::string key = std::move(keys.extract(keys.begin()).value());
  // No set in the list is empty, so the next call finds a key without a search.
  if (keys.empty()) dying_.pop_front();
  return key;
}

const std::string* KeyLeases::FindExpired(Time now) const {
  if (expiries_.empty() || now < expiries_.begin()->first) return nullptr;
  return &expiries_.begin()->second;
}

Time KeyLeases::FirstExpiry() const {
  return expiries_.empty() ? Time::Infinite() : expiries_.begin()->first;
}

}  // namespace lockstep::coord

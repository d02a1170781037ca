#include "lockstep/rendezvous/step_outbox.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::rendezvous {

void StepOutbox::Hold(KeyView key, HeldValue held) {
  auto found = keys_.find(key);
  // Only a new key copies its name.
  if (found == keys_.end()) found = keys_.try_emplace(KeyId(key)).first;
  LOCKSTEP_CHECK(found->second.wants.empty());
  found->second.values.push_back(std::move(held));
  ++held_;
}

const HeldValue* StepOutbox::Front(KeyView key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end() || found->second.values.empty()) return nullptr;
  return &found->second.values.front();
}

std::optional<HeldValue> StepOutbox::TakeFront(KeyView key) {
  const auto found = keys_.find(key);
  if (found == keys_.end() || found->second.values.empty()) return std::nullopt;
  std::list<HeldValue>& values = found->second.values;
  LOCKSTEP_DCHECK(held_ > 0);
  HeldValue front = std::move(values.front());
  values.pop_front();
  if (values.empty()) keys_.erase(found);
  --held_;
  return front;
}

std::vector<std::pair<MemberIndex, HeldValue>> StepOutbox::TakeHeld(std::optional<MemberIndex> to) {
  std::vector<std::pair<MemberIndex, HeldValue>> taken;
  absl::erase_if(keys_, [&](auto& key_and_entry) {
    auto& [key, entry] = key_and_entry;
    if (entry.values.empty() || (to.has_value() && key.peer != *to)) return false;
    for (HeldValue& held : entry.values) taken.emplace_back(key.peer, std::move(held));
    return true;
  });
  LOCKSTEP_DCHECK(held_ >= taken.size());
  held_ -= taken.size();
  // By order of sending: what becomes of them must not depend on a hash.
  std::sort(taken.begin(), taken.end(),
            [](const auto& a, const auto& b) { return a.second.order < b.second.order; });
  return taken;
}

size_t StepOutbox::AddWants(KeyView key, WantId first, size_t count, Time since) {
  // A key with neither values nor wants would stay.
  LOCKSTEP_DCHECK(count > 0);
  Entry& entry = keys_[KeyId(key)];
  LOCKSTEP_CHECK(entry.values.empty());
  const size_t before = entry.wants.size();
  // One that is there already counts once.
  for (size_t i = 0; i < count; ++i) entry.wants.try_emplace(WantId(first.value() + i), since);
  return entry.wants.size() - before;
}

std::optional<WantId> StepOutbox::TakeWant(KeyView key) {
  const auto found = keys_.find(key);
  if (found == keys_.end() || found->second.wants.empty()) return std::nullopt;
  auto& wants = found->second.wants;
  // The oldest: its receiver takes wants to be answered in their order.
  const WantId first = wants.begin()->first;
  wants.erase(wants.begin());
  // A key that has neither values nor wants is forgotten.
  if (wants.empty()) keys_.erase(found);
  return first;
}

bool StepOutbox::ForgetWant(KeyView key, WantId want) {
  const auto found = keys_.find(key);
  if (found == keys_.end() || found->second.wants.erase(want) == 0) return false;
  if (found->second.wants.empty()) keys_.erase(found);
  return true;
}

size_t StepOutbox::ForgetWantsOf(MemberIndex peer) {
  size_t count = 0;
  absl::erase_if(keys_, [&](auto& key_and_entry) {
    auto& [key, entry] = key_and_entry;
    if (key.peer != peer || entry.wants.empty()) return false;
    count += entry.wants.size();
    return true;
  });
  return count;
}

std::vector<StepOutbox::KeyWants> StepOutbox::TakeWants() {
  std::vector<KeyWants> taken;
  absl::erase_if(keys_, [&](auto& key_and_entry) {
    auto& [key, entry] = key_and_entry;
    if (entry.wants.empty()) return false;
    taken.push_back(
        {key, entry.wants.begin()->first, entry.wants.rbegin()->first, entry.wants.size()});
    return true;
  });
  std::sort(taken.begin(), taken.end(),
            [](const KeyWants& a, const KeyWants& b) { return KeyLess()(a.key, b.key); });
  return taken;
}

}  // namespace lockstep::rendezvous

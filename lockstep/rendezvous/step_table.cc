#include "lockstep/rendezvous/step_table.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::rendezvous {

StepTable::Entry& StepTable::EntryOf(KeyView key) {
  auto found = keys_.find(key);
  // Only a new key copies its name.
  if (found == keys_.end()) found = keys_.try_emplace(KeyId(key)).first;
  return found->second;
}

std::optional<StepTable::RemovedWaiter> StepTable::TakeFirstWaiter(KeyView key, WantId answers) {
  const auto found = keys_.find(key);
  if (found == keys_.end() || found->second.waiters.empty()) return std::nullopt;
  auto& [values, waiters, wants] = found->second;
  // A key has values or receives, and no more wants than receives.
  LOCKSTEP_DCHECK(values.empty() && wants.size() <= waiters.size());
  RemovedWaiter removed = {.op = waiters.front()};
  waiters.pop_front();
  // Wants are answered in their order, so that another answer is to one that was taken back.
  if (!wants.empty() && wants.front() == answers) {
    wants.pop_front();
  } else if (!wants.empty()) {
    removed.unwanted = wants.back();
    wants.pop_back();
  }
  if (waiters.empty()) keys_.erase(found);
  return removed;
}

std::optional<StepTable::RemovedWaiter> StepTable::Arrive(KeyView key, WantId answers,
                                                          Arrived& value) {
  if (const auto removed = TakeFirstWaiter(key, answers)) return removed;
  EntryOf(key).values.push_back(std::move(value));
  return std::nullopt;
}

std::optional<StepTable::RemovedWaiter> StepTable::PutBack(KeyView key, Arrived& value) {
  // It answers no want: what it was offered for is answered already.
  if (const auto removed = TakeFirstWaiter(key, WantId())) return removed;
  EntryOf(key).values.push_front(std::move(value));
  return std::nullopt;
}

std::optional<Arrived> StepTable::Ask(KeyView key, OpId op) {
  auto found = keys_.find(key);
  if (found == keys_.end() || found->second.values.empty()) {
    // Behind those that wait: values are given in the order of asking.
    EntryOf(key).waiters.push_back(op);
    return std::nullopt;
  }
  Entry& entry = found->second;
  std::optional<Arrived> value = std::move(entry.values.front());
  entry.values.pop_front();
  if (entry.values.empty()) keys_.erase(found);
  return value;
}

void StepTable::Want(KeyView key, WantId want) {
  auto& [values, waiters, wants] = keys_.find(key)->second;
  LOCKSTEP_CHECK(wants.size() < waiters.size() && (wants.empty() || wants.back() < want));
  wants.push_back(want);
}

std::optional<StepTable::RemovedWaiter> StepTable::Forget(KeyView key, OpId op) {
  auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  auto& [values, waiters, wants] = found->second;
  size_t before = 0;
  auto waiter = waiters.begin();
  // Its place tells whether it is among those that the wants are for.
  for (; waiter != waiters.end() && *waiter != op; ++waiter) ++before;
  if (waiter == waiters.end()) return std::nullopt;
  waiters.erase(waiter);
  RemovedWaiter removed = {.op = op};
  if (before < wants.size()) {
    removed.unwanted = wants.back();
    wants.pop_back();
  }
  if (waiters.empty()) keys_.erase(found);
  return removed;
}

std::vector<OpId> StepTable::Refuse(KeyView key, WantId first, WantId last) {
  auto found = keys_.find(key);
  if (found == keys_.end()) return {};
  auto& [values, waiters, wants] = found->second;
  LOCKSTEP_DCHECK(wants.size() <= waiters.size());
  const auto end = std::next(waiters.begin(), static_cast<ptrdiff_t>(wants.size()));
  const size_t refused =
      wants.remove_if([&](WantId want) { return first <= want && want <= last; });
  const auto begin = std::prev(end, static_cast<ptrdiff_t>(refused));
  // The last of those with a want: the others may be answered by what is on its way.
  std::vector<OpId> taken(begin, end);
  waiters.erase(begin, end);
  if (found->second.values.empty() && waiters.empty()) keys_.erase(found);
  return taken;
}

template <class Choose>
std::vector<OpId> StepTable::TakeWaitersIf(const Choose& choose) {
  std::vector<OpId> taken;
  absl::erase_if(keys_, [&](const auto& key_and_entry) {
    const auto& [key, entry] = key_and_entry;
    if (entry.waiters.empty() || !choose(key)) return false;
    taken.insert(taken.end(), entry.waiters.begin(), entry.waiters.end());
    return true;
  });
  // Operations rise in the order in which they were asked for.
  std::sort(taken.begin(), taken.end());
  return taken;
}

template <class Choose>
std::vector<std::pair<KeyId, Arrived>> StepTable::TakeValuesIf(const Choose& choose) {
  std::vector<std::pair<KeyId, Arrived>> taken;
  std::vector<KeyId> emptied;
  for (auto& [key, entry] : keys_) {
    if (entry.values.empty()) continue;
    entry.values.remove_if([&, &key = key](Arrived& value) {
      if (!choose(key, value)) return false;
      taken.emplace_back(key, std::move(value));
      return true;
    });
    if (entry.values.empty()) emptied.push_back(key);
  }
  // Behind the loop, which goes through the keys.
  for (const KeyId& key : emptied) keys_.erase(key);
  // Stable, so that the values of a key stay in their order.
  std::stable_sort(taken.begin(), taken.end(),
                   [](const auto& a, const auto& b) { return KeyLess()(a.first, b.first); });
  return taken;
}

std::vector<OpId> StepTable::TakeWaitersOf(MemberIndex peer) {
  return TakeWaitersIf([&](KeyView key) { return key.peer == peer; });
}

std::vector<OpId> StepTable::TakeWaiters() {
  return TakeWaitersIf([](KeyView) { return true; });
}

std::vector<std::pair<KeyId, Arrived>> StepTable::TakeValues() {
  return TakeValuesIf([](KeyView, const Arrived&) { return true; });
}

std::vector<std::pair<KeyId, Arrived>> StepTable::TakeLostWith(MemberIndex peer,
                                                               std::span<const KeyId> fetched) {
  const KeyEqual same;
  std::optional<KeyId> gap;  // in this key, the values of which are asked for one after the other
  return TakeValuesIf([&](KeyView key, const Arrived& value) {
    if (key.peer != peer) return false;
    // What follows it in its key can never be the next.
    if (value.away) gap = KeyId(key);
    return (gap.has_value() && same(*gap, key)) ||
           std::any_of(fetched.begin(), fetched.end(),
                       [&](const KeyId& each) { return same(each, key); });
  });
}

void StepTable::Disown(MemberIndex peer) {
  for (auto& [key, entry] : keys_) {
    if (key.peer != peer) continue;
    for (Arrived& value : entry.values) value.Disown();
  }
}

size_t StepTable::waiting(KeyView key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? 0 : found->second.waiters.size();
}

}  // namespace lockstep::rendezvous

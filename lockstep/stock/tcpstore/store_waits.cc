#include "lockstep/stock/tcpstore/store_waits.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::tcpstore {
namespace {

// A wait with its places in tables; a name in a list of many.
constexpr size_t kWaitBytes = 320;
constexpr size_t kNameBytes = 48;

}  // namespace

size_t StoreWaits::CostOf(const Keys& keys) {
  size_t cost = kWaitBytes;
  size_t longest = 0;
  for (const absl::string_view key : keys) {
    if (keys.size() > 1) cost += kNameBytes + key.size();
    longest = std::max(longest, key.size());
  }
  return cost + longest;  // at its slot
}

void StoreWaits::Keep(absl::string_view key, uint64_t number, bool barrier, Waiter waiter) {
  // Nodes do not move when the table grows, so that places may point to them.
  Node& node = *slots_.try_emplace(key).first;
  // Before the waiter is moved.
  places_[waiter.connection].push_back({&node, number, barrier});
  bytes_ += waiter.cost;
  (barrier ? node.second.at_barrier : node.second.waiting).emplace(number, std::move(waiter));
  ++waits_;
}

void StoreWaits::Park(Time now, ConnectionId connection, const Keys& keys, size_t at) {
  LOCKSTEP_DCHECK(at < keys.size());
  Waiter waiter = {.connection = connection, .since = now, .at = at, .cost = CostOf(keys)};
  // One key is the slot's own; only lists are kept with the wait.
  if (keys.size() > 1) {
    waiter.keys.reserve(keys.size());
    for (const absl::string_view key : keys) waiter.keys.emplace_back(key);
  }
  Keep(keys[at], next_number_++, /*barrier=*/false, std::move(waiter));
}

void StoreWaits::ParkAtBarrier(Time now, ConnectionId connection, const Barrier& barrier) {
  LOCKSTEP_DCHECK(barrier.size > 0);
  Keep(barrier.key, next_number_++, /*barrier=*/true,
       {.connection = connection,
        .since = now,
        .barrier_size = barrier.size,
        .cost = CostOf({barrier.key})});
}

// Out of the connection's places, not out of the slot: the caller has taken it from there.
void StoreWaits::Unlink(const Waiter& waiter, uint64_t number) {
  const auto found = places_.find(waiter.connection);
  LOCKSTEP_CHECK(found != places_.end());
  auto& places = found->second;
  const auto place = std::find_if(places.begin(), places.end(),
                                  [&](const Place& p) { return p.number == number; });
  LOCKSTEP_CHECK(place != places.end());
  places.erase(place);
  if (places.empty()) places_.erase(found);
  LOCKSTEP_DCHECK(waits_ > 0 && bytes_ >= waiter.cost);
  --waits_;
  bytes_ -= waiter.cost;
}

void StoreWaits::EraseIfEmpty(Node* node) {
  if (!node->second.waiting.empty() || !node->second.at_barrier.empty()) return;
  slots_.erase(slots_.find(node->first));
}

void StoreWaits::KeySet(absl::string_view key, const KeySpace& there, Effects& out) {
  LOCKSTEP_DCHECK(there.HasValue(key));
  if (slots_.empty()) return;
  const auto found = slots_.find(key);
  if (found == slots_.end() || found->second.waiting.empty()) return;
  Waiters woken = std::move(found->second.waiting);
  found->second.waiting.clear();
  // Before any of them is kept at another key, after which `found` may not be good any more.
  EraseIfEmpty(&*found);
  // In the order of their arrival, each under its old number when it moves on: who came first at
  // one key is first at the next.
  for (auto& [number, waiter] : woken) {
    Unlink(waiter, number);
    const auto missing = FirstMissing(waiter.keys, waiter.at, there);
    if (!missing) {
      out.replies.push_back({waiter.connection, Readiness::kReady});
      continue;
    }
    waiter.at = *missing;
    const std::string next = waiter.keys[*missing];
    Keep(next, number, /*barrier=*/false, std::move(waiter));
  }
}

std::optional<ConnectionId> StoreWaits::QueuePushed(absl::string_view key, const KeySpace& there,
                                                    Effects& out) {
  LOCKSTEP_DCHECK(there.QueueLength(key) > 0);
  const auto found = slots_.find(key);
  if (found == slots_.end()) return std::nullopt;
  Node& node = *found;
  // One value is for one waiter; those before it that still miss another key move on to that.
  std::optional<ConnectionId> woken;
  while (!woken && !node.second.waiting.empty()) {
    const auto first = node.second.waiting.begin();
    const uint64_t number = first->first;
    Waiter waiter = std::move(first->second);
    node.second.waiting.erase(first);
    Unlink(waiter, number);
    if (const auto missing = FirstMissing(waiter.keys, waiter.at, there)) {
      waiter.at = *missing;
      const std::string next = waiter.keys[*missing];
      Keep(next, number, /*barrier=*/false, std::move(waiter));
    } else {
      woken = waiter.connection;
      out.replies.push_back({*woken, Readiness::kReady});
    }
  }
  // Last: waiters at its barrier may keep the slot.
  EraseIfEmpty(&node);
  return woken;
}

void StoreWaits::Counted(absl::string_view key, int64_t count, Effects& out) {
  if (slots_.empty()) return;
  const auto found = slots_.find(key);
  if (found == slots_.end()) return;
  // Those who wait for a larger count stay, in their order.
  Waiters& waiters = found->second.at_barrier;
  for (auto next = waiters.begin(); next != waiters.end();) {
    if (next->second.barrier_size > count) {
      ++next;
      continue;
    }
    // Before the entry goes, which names the connection.
    Unlink(next->second, next->first);
    out.replies.push_back({next->second.connection, Readiness::kReady});
    next = waiters.erase(next);
  }
  // After the loop, which iterates in the slot.
  EraseIfEmpty(&*found);
}

void StoreWaits::Forget(ConnectionId connection) {
  const auto found = places_.find(connection);
  if (found == places_.end()) return;
  // The waits first, then their slots: two waits may share one, which may not go between them.
  const auto places = std::move(found->second);
  places_.erase(found);
  LOCKSTEP_DCHECK(waits_ >= places.size());
  waits_ -= places.size();
  for (const Place& place : places) {
    Slot& slot = place.node->second;
    Waiters& waiters = place.barrier ? slot.at_barrier : slot.waiting;
    const auto waiter = waiters.find(place.number);
    LOCKSTEP_DCHECK(waiter != waiters.end() && bytes_ >= waiter->second.cost);
    bytes_ -= waiter->second.cost;
    waiters.erase(waiter);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    // Two waits at one key share their slot, which goes once.
    const auto same = [&](const Place& other) { return other.node == places[i].node; };
    if (std::none_of(places.begin(), places.begin() + static_cast<ptrdiff_t>(i), same)) {
      EraseIfEmpty(places[i].node);
    }
  }
}

void StoreWaits::ForEachOf(ConnectionId connection, WaitVisitor visit) const {
  const auto found = places_.find(connection);
  if (found == places_.end()) return;
  for (const Place& place : found->second) {
    const Slot& slot = place.node->second;
    const Waiters& among = place.barrier ? slot.at_barrier : slot.waiting;
    visit(place.node->first, place.barrier, among, among.at(place.number));
  }
}

// No slot is empty, nobody waits for a value that is there, every barrier has a size above 0, and
// the sums are right.
bool StoreWaits::InvariantsHold(const KeySpace& there) const {
  size_t waits = 0;
  size_t bytes = 0;
  for (const auto& [key, slot] : slots_) {
    if (slot.waiting.empty() && slot.at_barrier.empty()) return false;
    if (!slot.waiting.empty() && there.HasValue(key)) return false;
    waits += slot.waiting.size() + slot.at_barrier.size();
    for (const auto& [number, waiter] : slot.waiting) bytes += waiter.cost;
    for (const auto& [number, waiter] : slot.at_barrier) {
      if (waiter.barrier_size <= 0) return false;
      bytes += waiter.cost;
    }
  }
  return waits_ == waits && bytes_ == bytes;
}

size_t StoreWaits::Count(ConnectionId connection) const {
  const auto found = places_.find(connection);
  return found == places_.end() ? 0 : found->second.size();
}

}  // namespace lockstep::tcpstore

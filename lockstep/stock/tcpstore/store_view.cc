#include "lockstep/stock/tcpstore/store_view.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/stock/tcpstore/rank_name.h"
#include "lockstep/stock/tcpstore/stored_number.h"

namespace lockstep::tcpstore {
namespace {

// `barrier`: they wait at the barrier under the key, not for the key.
AwaitedView AwaitedOf(const std::string& key, bool barrier, const StoreWaits::Waiters& waiters,
                      const KeySpace& keys, const Clients& clients) {
  LOCKSTEP_DCHECK(!waiters.empty());  // an empty slot is dropped
  // Numbers grow with time, so the first is the oldest.
  const StoreWaits::Waiter& oldest = waiters.begin()->second;
  AwaitedView view = {.key = key, .waiters = waiters.size(), .since = oldest.since};
  for (const auto& [number, waiter] : waiters) {
    // The row still says how many there are.
    if (view.first_waiters.size() == kWaitersPerRowMax) break;
    view.first_waiters.push_back(clients.View(waiter.connection, waiter.since));
  }
  if (barrier) {
    view.barrier_size = oldest.barrier_size;
    const ValuePtr count = keys.Value(key);
    // The key counts who came; somebody may have set it to something else.
    view.arrived = count ? NumberIn(*count).value_or(0) : 0;
  } else {
    // The name may say which rank has to set the key.
    view.rank = RankOfKey(key);
  }
  return view;
}

}  // namespace

StoreView MakeView(const KeySpace& keys, const StoreWaits& waits, const Clients& clients,
                   size_t rows_max) {
  StoreView view = {.connections = clients.size(),
                    .keys = keys.keys(),
                    .queues = keys.queues(),
                    .bytes = keys.bytes(),
                    .waits = waits.size()};
  struct Row {
    const std::string* key;
    bool barrier;
    const StoreWaits::Waiters* waiters;
  };
  std::vector<Row> rows;
  for (const auto& [key, slot] : waits.slots()) {
    // A barrier under a key that others wait for is a row of its own.
    if (!slot.waiting.empty()) rows.push_back({&key, /*barrier=*/false, &slot.waiting});
    if (!slot.at_barrier.empty()) rows.push_back({&key, /*barrier=*/true, &slot.at_barrier});
  }
  view.keys_awaited = rows.size();
  const size_t shown = std::min(rows.size(), rows_max);
  std::partial_sort(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(shown), rows.end(),
                    [](const Row& a, const Row& b) {
                      // Numbers of waits grow with time: no two rows have the same one.
                      return a.waiters->begin()->first < b.waiters->begin()->first;
                    });
  for (size_t i = 0; i < shown; ++i) {
    view.awaited.push_back(
        AwaitedOf(*rows[i].key, rows[i].barrier, *rows[i].waiters, keys, clients));
  }
  return view;
}

std::vector<GivenUp> WaitsGivenUp(const KeySpace& keys, const StoreWaits& waits,
                                  const Clients& clients, ConnectionId connection) {
  std::vector<GivenUp> all;
  waits.ForEachOf(connection,
                  [&](const std::string& key, bool barrier, const StoreWaits::Waiters& among,
                      const StoreWaits::Waiter& waiter) {
                    GivenUp given_up = {.wait = AwaitedOf(key, barrier, among, keys, clients),
                                        .since = waiter.since};
                    // Whoever gives up is named first, even where others have waited for longer.
                    given_up.wait.first_waiters = {clients.View(waiter.connection, waiter.since)};
                    all.push_back(std::move(given_up));
                  });
  return all;
}

}  // namespace lockstep::tcpstore

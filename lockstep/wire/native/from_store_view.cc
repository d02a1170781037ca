#include "lockstep/wire/native/from_store_view.h"

#include <algorithm>
#include <optional>

#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

int64_t Ago(Time now, Time then) {
  return std::max<int64_t>(0, absl::ToInt64Microseconds(now - then));
}

std::optional<int32_t> Within(std::optional<int32_t> rank, int32_t size) {
  return rank && *rank < size ? rank : std::nullopt;
}

StoreWait Convert(Time now, const tcpstore::AwaitedView& awaited, int32_t size) {
  StoreWait wait = {.key = ToUtf8(awaited.key),
                    .waiters = static_cast<int64_t>(awaited.waiters),
                    .since_ago_us = Ago(now, awaited.since),
                    .rank = Within(awaited.rank, size),
                    .barrier_size = awaited.barrier_size,
                    .arrived = awaited.arrived};
  for (const tcpstore::WaiterView& waiter : awaited.first_waiters) {
    wait.first_waiters.push_back({.peer = waiter.peer,
                                  .rank = Within(waiter.rank, size),
                                  .since_ago_us = Ago(now, waiter.since)});
  }
  return wait;
}

}  // namespace

StoreStatus FromStoreView(Time now, const tcpstore::StoreView& view, int64_t attempt,
                          int32_t size) {
  StoreStatus status = {.attempt = attempt,
                        .connections = static_cast<int64_t>(view.connections),
                        .keys = static_cast<int64_t>(view.keys),
                        .queues = static_cast<int64_t>(view.queues),
                        .bytes = static_cast<int64_t>(view.bytes),
                        .waits = static_cast<int64_t>(view.waits),
                        .keys_awaited = static_cast<int64_t>(view.keys_awaited)};
  for (const tcpstore::AwaitedView& awaited : view.awaited) {
    status.awaited.push_back(Convert(now, awaited, size));
  }
  return status;
}

}  // namespace lockstep::wire::native

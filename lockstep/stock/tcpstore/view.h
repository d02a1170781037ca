// A store as people look at it: plain values, no behaviour. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/stock/tcpstore/commands.h"

namespace lockstep::tcpstore {

// Of those who wait for one key, so many are told apart: `waiters_per_row_max`.
inline constexpr size_t kWaitersPerRowMax = 64;

// Who waits: as far as it can be told without its help.
struct WaiterView {
  ConnectionId connection;
  std::string peer;             // HOST:PORT it calls from
  std::optional<int32_t> rank;  // by the keys that it set
  Time since;
};

// A key that somebody waits for.
struct AwaitedView {
  std::string key;
  size_t waiters = 0;
  Time since;  // of the oldest
  std::vector<WaiterView> first_waiters;
  std::optional<int32_t> rank;  // whose key it is, by its name
  // Of a barrier: how many there have to be, at least 1, and how many came; else 0.
  int64_t barrier_size = 0;
  int64_t arrived = 0;
};

struct StoreView {
  size_t connections = 0;
  size_t keys = 0;
  size_t queues = 0;
  size_t bytes = 0;
  size_t waits = 0;
  size_t keys_awaited = 0;
  std::vector<AwaitedView> awaited;  // the longest awaited first, `view_rows_max`
};

}  // namespace lockstep::tcpstore

// What clients of a store ask, one type for each command of torch's protocol. Pure.
//
// The texts are views of the bytes as they came: they hold while the command is handled.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"

namespace lockstep::tcpstore {

// One connection of a client; never used again by its listener.
using ConnectionId = Id<struct ConnectionIdTag, uint64_t>;

using Keys = std::vector<absl::string_view>;

struct Set {
  absl::string_view key;
  absl::string_view value;
};
// Stores `desired` where the value is `expected`, or where there is none and `expected` is empty.
struct CompareSet {
  absl::string_view key;
  absl::string_view expected;
  absl::string_view desired;
};
struct Get {
  absl::string_view key;
};
struct Add {
  absl::string_view key;
  int64_t amount = 0;
};
// Whether all of them exist: now, or as soon as they do.
struct Check {
  Keys keys;
};
struct Wait {
  Keys keys;
};
struct CountKeys {};
struct DeleteKey {
  absl::string_view key;
};
struct Append {
  absl::string_view key;
  absl::string_view value;
};
struct MultiGet {
  Keys keys;
};
struct MultiSet {
  std::vector<Set> pairs;
};
struct CancelWait {};
struct Ping {
  uint32_t number = 0;
};
struct QueuePush {
  absl::string_view key;
  absl::string_view value;
};
struct QueuePop {
  absl::string_view key;
};
struct QueueLength {
  absl::string_view key;
};
struct ListKeys {};
// Adds 1 to the number under the key, and waits until it is `size`; not at all if that is not above
// 0.
struct Barrier {
  absl::string_view key;
  int64_t size = 0;
  bool arrived = false;  // it was counted before, and only waits
};

using Command =
    std::variant<Set, CompareSet, Get, Add, Check, Wait, CountKeys, DeleteKey, Append, MultiGet,
                 MultiSet, CancelWait, Ping, QueuePush, QueuePop, QueueLength, ListKeys, Barrier>;

}  // namespace lockstep::tcpstore

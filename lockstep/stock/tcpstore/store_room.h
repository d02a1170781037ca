// Whether a store may hold more. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "lockstep/stock/tcpstore/key_space.h"
#include "lockstep/stock/tcpstore/options.h"

namespace lockstep::tcpstore {

// A key for a sentence: in quotes, escaped, and not the whole of a long one.
std::string Quoted(absl::string_view key);

// Compares what a store holds, and what it is asked to hold, with its limits and the server's.
//
// Owns nothing but the limits. Promises: a refusal names the limit, its value and what is held;
// what fits costs no text. Threads: thread-compatible.
class StoreRoom {
 public:
  // What a store holds now.
  struct Held {
    size_t entries = 0;     // keys and queued values
    size_t key_bytes = 0;   // of keys and values
    size_t wait_bytes = 0;  // of waits
    size_t total = 0;       // of everything, as it costs
  };

  explicit StoreRoom(const StoreOptions& options)
      : keys_max_(options.keys_max), store_bytes_max_(options.store_bytes_max) {}

  // What is around the store, until told otherwise: what clients' buffers hold, which counts for
  // store_bytes_max; and how much more the whole server may hold (`memory_max`).
  void SetSurroundings(size_t buffer_bytes, size_t room_bytes) {
    buffer_bytes_ = buffer_bytes;
    room_bytes_ = room_bytes;
  }

  // Why there is no room for so many bytes more, for `what`; nothing: there is.
  std::optional<std::string> Refusal(const std::string& what, size_t bytes, const Held& held) const;
  // Whether so many keys or queued values more fit, whose bytes come on top of `kValueBytes` each.
  bool HasRoomForKeys(size_t keys, size_t bytes, const Held& held) const {
    const size_t cost = CostOf(keys, bytes);
    return held.entries + keys <= keys_max_ && cost <= room_bytes_ && FitsStore(cost, held);
  }
  // Why not; only when there is no room.
  std::string RefusalOfKeys(absl::string_view key, size_t keys, size_t bytes,
                            const Held& held) const;

 private:
  static size_t CostOf(size_t keys, size_t bytes) { return bytes + keys * KeySpace::kValueBytes; }
  // Written so that no sum overflows, however much is asked for. What costs nothing always fits.
  bool FitsStore(size_t bytes, const Held& held) const {
    return bytes <= store_bytes_max_ - std::min(held.total + buffer_bytes_, store_bytes_max_);
  }

  const size_t keys_max_;
  const size_t store_bytes_max_;
  size_t buffer_bytes_ = 0;
  size_t room_bytes_ = std::numeric_limits<size_t>::max();
};

}  // namespace lockstep::tcpstore

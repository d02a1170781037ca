// What is fetched, and how much of it at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/transport/card.h"
#include "lockstep/rendezvous/transport/process_memory.h"

namespace lockstep::transport {

struct BulkFetchOptions {
  std::vector<std::string> names;  // by index, for texts
  Card card;                       // ours
  uint64_t chunk_bytes = uint64_t{1} << 20;
  // `fetch_window_bytes`
  uint64_t window_bytes = uint64_t{16} << 20;
  // Shorter ones are not read from the sender's memory: that takes no less (bench/rendezvous).
  uint64_t place_bytes_min = uint64_t{256} << 10;
  // Of one member, known at a time: `fetch_places_max`.
  size_t places_max = 16;
  ProcessMemory::ReadFunction read_memory = ProcessMemory::SystemRead;
  // Without a byte for so long, the fetches of a member fail.
  absl::Duration stalled_after = absl::Seconds(30);
  absl::Duration dial_timeout = absl::Seconds(5);
  absl::Duration retry_first = absl::Milliseconds(10);
  absl::Duration retry_last = absl::Seconds(1);
};

struct BulkFetch {
  rendezvous::OpId op;
  MemberIndex from;
  rendezvous::LeaseId lease;
  std::byte* to = nullptr;  // stays until it has finished
  uint64_t bytes = 0;       // not 0
};

}  // namespace lockstep::transport

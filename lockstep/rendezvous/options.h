// The limits of the rendezvous of one member, each with its name. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"

namespace lockstep::rendezvous {

struct Options {
  MemberIndex self;
  // "trainer/4", by index: everybody whom a key may name.
  std::vector<std::string> names;

  // Leases are numbered from here. Every incarnation of a member begins elsewhere (at a random
  // number), so that none ends a lease of its successor.
  uint64_t first_lease = 0;

  // Sent and not yet received, in all steps together: `quota_bytes`, `quota_values`.
  uint64_t quota_bytes = uint64_t{4} << 30;
  size_t quota_values = size_t{4} << 20;
  // Values of at most so many bytes come along with their offer: `inline_bytes_max`.
  uint64_t inline_bytes_max = 8192;
  // What a receiver takes unasked from one sender before its receives ask: `unasked_values_max`,
  // `unasked_bytes_max` (of bytes that come along).
  uint64_t unasked_values_max = 1024;
  uint64_t unasked_bytes_max = uint64_t{4} << 20;
  // Receives, and sends without room, that wait here, and wants that one other member may leave
  // here: `waits_max`, `peer_wants_max`.
  size_t waits_max = size_t{1} << 20;
  size_t peer_wants_max = size_t{1} << 16;
  // Steps that others began and nobody here has opened: `unopened_steps_max`, `unopened_ttl`.
  size_t unopened_steps_max = 4096;
  absl::Duration unopened_ttl = absl::Minutes(10);
  // How long values of a step that was closed here are kept for those who may yet receive them.
  absl::Duration closed_ttl = absl::Minutes(10);
  // How many closed steps are known one by one; all below the oldest of them count as closed.
  size_t closed_steps_max = size_t{1} << 16;
  // Steps that were aborted and closed, whose error is still told to who comes later.
  size_t kept_aborts_max = 1024;
  // A receive that has not got its value after so long tells the sender that it waits.
  absl::Duration want_after = absl::Milliseconds(1);
  size_t name_bytes_max = 512;
};

}  // namespace lockstep::rendezvous

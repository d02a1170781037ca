// What a job's keys tell of the rendezvous of its members (docs/rendezvous.md). Pure.
//
// A member says nothing of its values while nobody looks: the server knows who takes part, and what
// they answered to the last who looked (`lockstep rendezvous`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/time.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::server {

// The last look of an attempt: sums over those that have answered it.
struct RendezvousLookTotals {
  Time at;
  size_t answers = 0;
  int64_t waits = 0;
  int64_t held_values = 0;
  uint64_t held_bytes = 0;
  int64_t oldest_wait_us = 0;
};

struct RendezvousTotals {
  size_t members = 0;  // that take part
  std::optional<RendezvousLookTotals> look;
};

// Below it are the keys that `Add` takes.
inline constexpr std::string_view kRendezvousKeys = "lockstep/rendezvous";

// Adds up, key by key in their order, by which the look comes before the reports.
//
// Threads: thread-compatible.
class RendezvousTotalsOfKeys {
 public:
  // What is no answer to the look, or cannot be read, counts for nothing.
  void Add(std::string_view key, const std::string& value, Time set_at);
  // The next keys of a job, up to a number. Returns whether there are more.
  bool AddSomeOf(const coord::Coordinator& job);
  const RendezvousTotals& totals() const { return totals_; }

 private:
  RendezvousTotals totals_;
  std::string look_;
  std::string after_;  // the last key that `AddSomeOf` has added
};

}  // namespace lockstep::server

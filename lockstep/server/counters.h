// What a server counts while it works. Loop-confined, as everything that counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/preemption.h"
#include "lockstep/stock/tcpstore/commands.h"

namespace lockstep::server {

inline constexpr size_t kEventKinds = std::variant_size_v<coord::Event>;
inline constexpr size_t kReasonsMax = 64;
inline constexpr size_t kOutcomesMax = 16;

// Commands that a store of torch's clients has taken, by their place in tcpstore::Command.
using TorchCommandCounts = std::array<uint64_t, std::variant_size_v<tcpstore::Command>>;

// Answers that agents pass on to each other.
struct FanOutCounts {
  uint64_t answers = 0;    // to agents that were told where to have them
  uint64_t bytes = 0;      // of those answers
  uint64_t fallbacks = 0;  // agents that asked the server again
};

struct Counters {
  // By the index of the event in coord::Event.
  std::array<uint64_t, kEventKinds> events = {};
  // By reason.
  std::array<uint64_t, kReasonsMax> errors = {};
  // Of preemptions that have ended, by outcome.
  std::array<uint64_t, kOutcomesMax> preemptions = {};
  uint64_t status_requests = 0;

  void Count(const coord::Event& event) { ++events[event.index()]; }
  // A reason that has no place here is not counted.
  void Count(const coord::Error& error) {
    const auto reason = static_cast<size_t>(error.reason);
    if (reason < errors.size()) ++errors[reason];
  }
  // Only of one that has ended.
  void Count(const coord::PreemptionState& state) {
    const auto outcome = static_cast<size_t>(state.outcome);
    if (state.phase != coord::PreemptionPhase::kEnded) return;
    if (outcome < preemptions.size()) ++preemptions[outcome];
  }
};

// "set_key"; of every alternative of coord::Event.
std::string_view EventName(size_t index);
// "multi_get"; of every alternative of tcpstore::Command.
std::string_view TorchCommandName(size_t index);

}  // namespace lockstep::server

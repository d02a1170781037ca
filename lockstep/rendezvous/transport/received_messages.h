// What one end of a conversation received, and when it acknowledges that. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::transport {

// An acknowledgement goes with the next message, or alone after so many messages, so many bytes, or
// so long. Threads: thread-compatible.
class ReceivedMessages {
 public:
  struct Limits {
    absl::Duration delay;
    uint64_t messages = 0;
    uint64_t bytes = 0;
  };

  explicit ReceivedMessages(const Limits& limits) : limits_(limits) {}

  // Whether messages before it are missing.
  bool Skips(uint64_t number) const { return number > through_ + 1; }
  // True: it is the next one. False: it came before; it is acknowledged again.
  bool Take(Time now, uint64_t number, uint64_t bytes) {
    ++owed_messages_;
    owed_bytes_ += bytes;
    due_ = std::min(due_, now + limits_.delay);
    if (number != through_ + 1) return false;
    through_ = number;
    return true;
  }
  // So much is owed that the acknowledgement does not wait.
  bool OwesMuch() const {
    return owed_messages_ >= limits_.messages || owed_bytes_ >= limits_.bytes;
  }
  // The other end is told: all through this number have come.
  uint64_t Acknowledge() {
    owed_messages_ = owed_bytes_ = 0;
    due_ = Time::Infinite();
    return through_;
  }

  // The number of the newest message in order; 0 before the first.
  uint64_t through() const { return through_; }
  // When an acknowledgement goes alone.
  Time due() const { return due_; }

 private:
  const Limits limits_;
  uint64_t through_ = 0;
  // Since the last acknowledgement.
  uint64_t owed_messages_ = 0;
  uint64_t owed_bytes_ = 0;
  Time due_ = Time::Infinite();
};

}  // namespace lockstep::transport

// What one end of a conversation sent and the other end has not acknowledged. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::transport {

// Numbers messages 1, 2, 3... and keeps each until it is acknowledged, so that it can be sent again
// over the next link. Threads: thread-compatible. Bounds: those of whoever pushes.
class ResendQueue {
 public:
  using Payload = std::shared_ptr<const std::string>;

  // Returns its number.
  uint64_t Push(Payload payload) {
    LOCKSTEP_CHECK(payload != nullptr);
    bytes_ += payload->size();
    kept_.push_back(std::move(payload));
    return last();
  }
  // Of all through this one. False: it was never sent.
  bool Acknowledge(uint64_t through) {
    if (through > last()) return false;
    for (; acknowledged_ < through; ++acknowledged_) {
      bytes_ -= kept_.front()->size();
      kept_.pop_front();
    }
    return true;
  }
  // Nothing is sent again.
  void Clear() {
    kept_.clear();
    bytes_ = 0;
  }

  // Calls `see(number, payload)` for each, in order.
  template <class See>
  void ForEach(const See& see) const {
    uint64_t number = acknowledged_;
    for (const Payload& payload : kept_) see(++number, payload);
  }

  // All through this number have come to the other end.
  uint64_t acknowledged() const { return acknowledged_; }
  // The number of the newest message; 0 before the first.
  uint64_t last() const { return acknowledged_ + kept_.size(); }
  // Of those that are not acknowledged: how many, and the sum of their sizes.
  size_t messages() const { return kept_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  std::deque<Payload> kept_;  // those after `acknowledged_`
  size_t bytes_ = 0;
  uint64_t acknowledged_ = 0;
};

}  // namespace lockstep::transport

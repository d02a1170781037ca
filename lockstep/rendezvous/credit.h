// How much a member offers another one before it is asked. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/options.h"

namespace lockstep::rendezvous {

// Of a value's bytes, those that come along with its offer: they alone count.
inline uint64_t InlineBytes(const Options& options, uint64_t bytes) {
  return bytes <= options.inline_bytes_max ? bytes : 0;
}

// At the sender: what it offered one receiver unasked, and the receiver has not received. Bounds:
// `unasked_values_max`, `unasked_bytes_max`.
class UnaskedWindow {
 public:
  bool HasRoom(const Options& options, uint64_t bytes) const {
    return values_ < options.unasked_values_max &&
           bytes_ + InlineBytes(options, bytes) <= options.unasked_bytes_max;
  }
  void Take(const Options& options, uint64_t bytes) {
    ++values_;
    bytes_ += InlineBytes(options, bytes);
  }
  // A receiver that gives back more than it got gets no more than the whole window.
  void Return(const Credit& credit) {
    values_ -= std::min(values_, credit.values);
    bytes_ -= std::min(bytes_, credit.bytes);
  }

 private:
  uint64_t values_ = 0;
  uint64_t bytes_ = 0;
};

// At the receiver: what it received of a sender's unasked values and has not given back yet.
class ReceivedCredit {
 public:
  // One value more. Returns what is to be given back now: seldom, and long before the sender has
  // none left.
  std::optional<Credit> Add(const Options& options, uint64_t bytes) {
    ++received_.values;
    received_.bytes += InlineBytes(options, bytes);
    if (received_.values < options.unasked_values_max / 16 &&
        received_.bytes < options.unasked_bytes_max / 16) {
      return std::nullopt;
    }
    return std::exchange(received_, {});
  }

 private:
  Credit received_;
};

}  // namespace lockstep::rendezvous

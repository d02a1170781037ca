// The elements that a reader has handed to its program.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "lockstep/client/data_reader.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/wire/native/data_events.h"

namespace lockstep::client {

// Counts them, and remembers the last place of each lane for a program that acknowledges.
//
// Threads: thread-compatible. Bounds: one place for each lane.
class HandedElements {
 public:
  explicit HandedElements(bool keeps_places) : keeps_places_(keeps_places) {}

  // The element; nothing: the end; or the machine's error.
  absl::StatusOr<std::optional<DataElement>> Take(dispatch::HandOut out) {
    if (out.error != nullptr) return wire::native::StatusOf(*out.error);
    if (out.end) return std::nullopt;
    const ElementPlace place = {.lane = out.place.lane.value(),
                                .seq = out.place.seq,
                                .segment = out.place.segment,
                                .element = out.place.element,
                                .round = out.place.round,
                                .task = out.place.task.value()};
    ++elements_;
    bytes_ += static_cast<int64_t>(out.element.bytes);
    if (keeps_places_) last_places_[place.lane] = place;
    return DataElement(std::move(out.element.payload), out.element.bytes, place);
  }

  int64_t elements() const { return elements_; }
  int64_t bytes() const { return bytes_; }
  const std::map<int64_t, ElementPlace>& last_places() const { return last_places_; }

 private:
  const bool keeps_places_;
  int64_t elements_ = 0;
  int64_t bytes_ = 0;
  std::map<int64_t, ElementPlace> last_places_;  // by lane
};

}  // namespace lockstep::client

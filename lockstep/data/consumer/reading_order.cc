#include "lockstep/data/consumer/reading_order.h"

#include "lockstep/data/consumer/exact_order.h"
#include "lockstep/data/consumer/first_come_order.h"
#include "lockstep/data/consumer/rounds_order.h"

namespace lockstep::dispatch {

std::unique_ptr<ReadingOrder> ReadingOrder::Make(const ConsumerOptions& options, LaneSet& lanes,
                                                 PollSchedule& polls) {
  switch (options.spec.mode) {
    case Mode::kFirstCome:
      return std::make_unique<FirstComeOrder>(options, lanes, polls);
    case Mode::kExact:
      return std::make_unique<ExactOrder>(options, lanes, polls);
    case Mode::kRounds:
      break;
  }
  return std::make_unique<RoundsOrder>(options, lanes, polls);
}

std::optional<ReadingPlace> ReadingOrder::RejoinsAt() const {
  if (!start_.rejoin) return std::nullopt;
  return ReadingPlace{.elements = start_.rejoin->elements,
                      .round = start_.rejoin->round,
                      .turns = start_.rejoin->place};
}

bool ReadingOrder::PlaceFirst(const Lane& from, const Grant& /*grant*/,
                              LaneSegment& segment) const {
  if (from.first_element >= 0) segment.start = from.first_element;
  return true;
}

}  // namespace lockstep::dispatch

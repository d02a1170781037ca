// Which element a consumer's program gets next: one order for each mode. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/consumer/lane_set.h"
#include "lockstep/data/consumer/poll_schedule.h"
#include "lockstep/data/consumer/read_ahead.h"
#include "lockstep/data/consumer/reading_start.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/events.h"

namespace lockstep::dispatch {

// What the program gets next: an element; the end; an error for what it asks now; or an error for
// good. `Nothing`: it waits.
struct Nothing {};
struct ReadToEnd {};
struct Refused {
  ErrorPtr why;
};
struct Failed {
  ErrorPtr why;
};
using Delivery = std::variant<Nothing, HandOut, ReadToEnd, Refused, Failed>;

// How far a consumer has read, as polls say. First come: nothing of it.
struct Reached {
  int64_t round = -1;     // rounds: the last one that it has begun
  bool finished = false;  // it has read to the end
  // Exact: the end, once it is there. Rounds: behind what it was given last.
  ReadingPlace end;
};

// Knows the place of the program in the order, what is read ahead for it and what the dispatcher
// has to hear of it. The lanes are the consumer's; an order takes elements out of them.
class ReadingOrder {
 public:
  virtual ~ReadingOrder() = default;
  ReadingOrder(const ReadingOrder&) = delete;
  ReadingOrder& operator=(const ReadingOrder&) = delete;

  // Of the mode of the options. What it is given must outlive it.
  static std::unique_ptr<ReadingOrder> Make(const ConsumerOptions& options, LaneSet& lanes,
                                            PollSchedule& polls);

  // --- The beginning ---
  void SetStart(ReadingStart start) { start_ = std::move(start); }
  // Where the consumer goes on in an iteration in which it was before.
  std::optional<ReadingPlace> RejoinsAt() const;
  // The iteration is open, and the consumer has this index in it.
  virtual void Begin(int32_t /*index*/) {}

  // --- The dispatcher's assignment ---
  virtual void TakeAssignment(const Assignment& assignment) = 0;
  // Whether the lane's grants hold the place that the consumer goes on from.
  virtual bool HoldsPlace(const Lane& /*from*/) { return true; }
  // The first segment of a lane: sets where it starts, if that is known. False: it lies before the
  // consumer's place.
  virtual bool PlaceFirst(const Lane& from, const Grant& grant, LaneSegment& segment) const;
  // Whether the first segment of the lane is over for all.
  virtual bool IsOver(const LaneReader& lane, const Lane& from) const = 0;
  virtual void LanesTaken() {}
  virtual void ForgetLane(LaneId /*lane*/) {}

  // --- Reading ---
  // What is to be read, the most urgent first.
  virtual std::vector<LaneWish> Wishes() = 0;
  // The segment's count is known now: whether the dispatcher has to hear of it at once.
  virtual bool CountIsUrgent(const LaneSegment& segment) const { return !segment.told_count; }
  virtual Delivery Next(Time now) = 0;
  // The end of a step. `asked`: the program waits for an element.
  virtual void EndStep(bool asked) = 0;

  // --- First come: acknowledgements ---
  // All that was handed out before is acknowledged.
  virtual void AcknowledgeHanded(Time /*now*/) {}
  // The same of one lane, up to this element. False: it has no such lane, or no acknowledgements.
  virtual bool Acknowledge(Time /*now*/, const ElementPlace& /*place*/) { return false; }
  virtual std::vector<LaneAck> Acks() const { return {}; }

  // --- What it says ---
  virtual Reached reached() const { return {}; }
  virtual void FillPoll(ConsumerPoll& poll) const = 0;
  // The text of a cursor at the program's next element; none: the mode has no cursors.
  virtual std::optional<std::string> CursorText(const Assignment& /*assignment*/) const {
    return std::nullopt;
  }
  virtual void FillView(ConsumerMachine::View& /*view*/) const {}
  // For people: what the program waits for, if it is not simply the next segment; else empty.
  virtual std::string WaitsFor() const { return ""; }

 protected:
  ReadingOrder() = default;
  const ReadingStart& start() const { return start_; }

 private:
  ReadingStart start_;
};

}  // namespace lockstep::dispatch

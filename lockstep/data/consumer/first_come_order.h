// First come, first served: the elements of each lane in their order, and which of them the program
// has acknowledged. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/consumer/reading_order.h"

namespace lockstep::dispatch {

// Invariant: nothing is acknowledged that was not handed out. Bounds: without
// `acknowledge_by_itself` the program holds up to `unacknowledged_max` elements and
// `unacknowledged_bytes_max` bytes, and gets "ack_needed" for the next one.
class FirstComeOrder : public ReadingOrder {
 public:
  FirstComeOrder(const ConsumerOptions& options, LaneSet& lanes, PollSchedule& polls)
      : options_(options), lanes_(lanes), polls_(polls) {}

  void TakeAssignment(const Assignment& assignment) override;
  bool IsOver(const LaneReader& lane, const Lane& from) const override;
  void LanesTaken() override;

  std::vector<LaneWish> Wishes() override;
  bool CountIsUrgent(const LaneSegment& segment) const override { return segment.AllAcked(); }
  Delivery Next(Time now) override;
  void EndStep(bool asked) override;

  void AcknowledgeHanded(Time now) override;
  bool Acknowledge(Time now, const ElementPlace& place) override;
  std::vector<LaneAck> Acks() const override;

  void FillPoll(ConsumerPoll& poll) const override;
  void FillView(ConsumerMachine::View& view) const override;
  std::string WaitsFor() const override;

 private:
  // What the program has and has not acknowledged, when it does so itself.
  struct Held {
    int64_t elements = 0;
    uint64_t bytes = 0;
  };
  bool by_hand() const { return !options_.acknowledge_by_itself; }
  void NoteAcked(Time now, LaneSegment& segment, int64_t elements);
  std::vector<LaneAck> AcksUpTo(size_t most) const;
  // By hand: nobody holds anything but the program itself, which has all of it.
  bool HasAllThereIs() const;
  // By hand: why the program gets nothing before it acknowledges; null: it gets more.
  ErrorPtr WhyAcknowledgeFirst() const;
  // Passes over the segments at the lane's front that were handed out in full.
  void SkipHanded(LaneReader& lane);

  const ConsumerOptions& options_;
  LaneSet& lanes_;
  PollSchedule& polls_;
  Held held_;
  bool told_has_all_ = false;
  // As the assignment says.
  bool rest_is_own_ = false;
  std::string ack_needed_;
};

}  // namespace lockstep::dispatch

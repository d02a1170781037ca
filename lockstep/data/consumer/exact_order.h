// Exact: the order of a local run, of which this consumer takes every n-th element. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/consumer/lane_progress.h"
#include "lockstep/data/consumer/reading_order.h"

namespace lockstep::dispatch {

// Reads the one lane of the iteration. A consumer that goes on from a cursor first searches its
// place among the grants, and needs nothing before it.
class ExactOrder : public ReadingOrder {
 public:
  ExactOrder(const ConsumerOptions& options, LaneSet& lanes, PollSchedule& polls)
      : options_(options), lanes_(lanes), polls_(polls), needs_(polls) {}

  void Begin(int32_t index) override;
  void TakeAssignment(const Assignment& /*assignment*/) override {}
  bool HoldsPlace(const Lane& from) override;
  bool PlaceFirst(const Lane& from, const Grant& grant, LaneSegment& segment) const override;
  bool IsOver(const LaneReader& lane, const Lane& from) const override;
  void ForgetLane(LaneId lane) override { needs_.Forget(lane); }

  std::vector<LaneWish> Wishes() override;
  Delivery Next(Time now) override;
  void EndStep(bool asked) override;

  Reached reached() const override;
  void FillPoll(ConsumerPoll& poll) const override;
  std::optional<std::string> CursorText(const Assignment& assignment) const override;

 private:
  // The place that the consumer goes on from.
  struct Search {
    bool found = false;
    int64_t seq = -1;  // the grant that it is in, once that is known
  };
  bool searches() const { return start().rejoin && !search_.found; }
  // The segment in which the cursor points that this consumer goes on from.
  int64_t PlaceSegment() const;
  int64_t NeededFrom() const;  // position: nothing before it is needed
  LaneProgress Progress(const LaneReader& lane) const;

  const ConsumerOptions& options_;
  LaneSet& lanes_;
  PollSchedule& polls_;
  NeedsReport needs_;
  int32_t index_ = -1;
  int64_t position_ = 0;  // of its next element
  Search search_;
  std::optional<ReadingPlace> end_;  // it has read to there, where the reading ends
};

}  // namespace lockstep::dispatch

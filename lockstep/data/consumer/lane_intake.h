// Brings a consumer's lanes up to what the dispatcher has assigned. Pure.
#pragma once

#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/data/consumer/lane_set.h"
#include "lockstep/data/consumer/poll_schedule.h"
#include "lockstep/data/consumer/read_ahead.h"
#include "lockstep/data/consumer/reading_order.h"
#include "lockstep/data/dispatch/effects.h"

namespace lockstep::dispatch {

// Made for one assignment; owns nothing.
class LaneIntake {
 public:
  LaneIntake(LaneSet& lanes, ReadAhead& reads, ReadingOrder& order, PollSchedule& polls)
      : lanes_(lanes), reads_(reads), order_(order), polls_(polls) {}

  // Adds the grants that are new, drops the segments that are over and the lanes that are not
  // listed any more, and cancels reads whose worker is another now.
  void Take(Time now, const std::vector<Lane>& assigned, ConsumerEffects& out);

 private:
  void TakeGrant(Time now, LaneReader& lane, const Lane& from, const Grant& grant,
                 ConsumerEffects& out);

  LaneSet& lanes_;
  ReadAhead& reads_;
  ReadingOrder& order_;
  PollSchedule& polls_;
};

}  // namespace lockstep::dispatch

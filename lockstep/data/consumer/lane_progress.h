// Exact and rounds: what a reader needs of a lane, and what the dispatcher has heard of that. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <map>

#include "lockstep/data/consumer/lane_set.h"
#include "lockstep/data/consumer/poll_schedule.h"
#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/events.h"

namespace lockstep::dispatch {

// The position behind everything: nothing of the lane is needed.
inline constexpr int64_t kEverything = std::numeric_limits<int64_t>::max();

// Nothing before position `needed` is needed, and `width` elements behind it are the next turn.
LaneProgress ProgressOf(const LaneReader& lane, int64_t needed, int64_t width);

// Whether the lane's first segment is not listed any more and lies before position `needed`.
bool FrontIsRead(const LaneReader& lane, const Lane& from, int64_t needed);

// Adds to the poll how far the lane is, and the counts that the dispatcher does not know.
void AddProgress(const LaneReader& lane, const LaneProgress& progress, ConsumerPoll& poll);

// Adds to the cursor what of the lane is granted and not read before position `needed`.
void AddRests(const LaneReader& lane, int64_t needed, Cursor& cursor);
// Sorts the rests, and drops those that `next` can say: equal places give equal cursors.
void Normalize(Cursor& cursor);

// The dispatcher grants more segments when a reader needs the last one that it has: that is urgent
// once for each segment.
class NeedsReport {
 public:
  explicit NeedsReport(PollSchedule& polls) : polls_(polls) {}
  // Makes the next poll urgent if this is news.
  void Note(const LaneReader& lane, const LaneProgress& progress);
  // The lane has gone; if it comes again, all of it is news.
  void Forget(LaneId lane) { told_.erase(lane); }

 private:
  PollSchedule& polls_;
  std::map<LaneId, int64_t> told_;
};

}  // namespace lockstep::dispatch

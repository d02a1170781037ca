#include "lockstep/data/consumer/lane_progress.h"

#include <algorithm>
#include <optional>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

LaneProgress ProgressOf(const LaneReader& lane, int64_t needed, int64_t width) {
  LaneProgress progress{.lane = lane.lane, .seq = lane.next_seq, .needs = lane.next_seq};
  // From behind, so that the first segment that fits is what remains. One whose end is not known
  // may hold what is needed.
  for (auto segment = lane.segments.rbegin(); segment != lane.segments.rend(); ++segment) {
    const std::optional<int64_t> end = segment->End();
    if (!end || *end > needed) progress.seq = segment->seq;
    if (needed != kEverything && (!end || *end >= needed + width)) progress.needs = segment->seq;
  }
  return progress;
}

bool FrontIsRead(const LaneReader& lane, const Lane& from, int64_t needed) {
  LOCKSTEP_DCHECK(!lane.segments.empty());
  const LaneSegment& front = lane.segments.front();
  // While it is listed, it is not over for all.
  if (from.grants.empty() || front.seq >= from.grants.front().seq) return false;
  const std::optional<int64_t> end = front.End();
  return end && *end <= needed;
}

void AddProgress(const LaneReader& lane, const LaneProgress& progress, ConsumerPoll& poll) {
  poll.progress.push_back(progress);
  for (const LaneSegment& segment : lane.segments) {
    if (segment.count && !segment.told_count) {
      poll.counts.push_back({.lane = lane.lane, .seq = segment.seq, .elements = *segment.count});
    }
  }
}

void AddRests(const LaneReader& lane, int64_t needed, Cursor& cursor) {
  bool behind = false;
  for (const LaneSegment& segment : lane.segments) {
    const std::optional<int64_t> end = segment.End();
    // Only in front: behind the place everything is left, those without elements, too.
    if (!behind && end && *end <= needed) continue;
    int64_t from = segment.from;
    // Of the segment that holds the place, only what is behind it.
    if (!behind && segment.start) from += std::max<int64_t>(0, needed - *segment.start);
    cursor.rests.push_back({.segment = segment.segment, .from = from});
    behind = true;
  }
}

void Normalize(Cursor& cursor) {
  std::sort(cursor.rests.begin(), cursor.rests.end());
  // Whole segments at the end are what `next` means, whoever has heard of them.
  while (!cursor.rests.empty() && cursor.rests.back().from == 0 &&
         cursor.rests.back().segment == cursor.next - 1) {
    --cursor.next;
    cursor.rests.pop_back();
  }
}

void NeedsReport::Note(const LaneReader& lane, const LaneProgress& progress) {
  int64_t& told = told_[lane.lane];
  // While grants are left that it does not need, the window is not used up.
  if (progress.needs <= told || progress.needs < lane.next_seq) return;
  told = progress.needs;
  polls_.Urgent();
}

}  // namespace lockstep::dispatch

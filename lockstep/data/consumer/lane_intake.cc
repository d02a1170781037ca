#include "lockstep/data/consumer/lane_intake.h"

#include <set>
#include <utility>

#include "absl/time/time.h"

namespace lockstep::dispatch {

void LaneIntake::Take(Time now, const std::vector<Lane>& assigned, ConsumerEffects& out) {
  std::set<LaneId> listed;
  for (const Lane& from : assigned) {
    listed.insert(from.lane);
    LaneReader& lane = lanes_.Get(from.lane);
    lane.lane = from.lane;
    lane.task = from.task;
    lane.starting_round = from.starting_round;
    lane.base_round = from.base_round;
    lane.base_element = from.base_element;
    // Before any grant is taken: those before the consumer's place would be read for nothing.
    const bool found = order_.HoldsPlace(from);
    // Where the place is not found yet, the end is not known either.
    lane.closed = found && from.closed;
    if (!found) continue;
    // Where there are segments, the lane's beginning follows from them.
    if (lane.segments.empty() && from.first_element >= 0) lane.begin = from.first_element;
    for (const Grant& grant : from.grants) TakeGrant(now, lane, from, grant, out);
    // Behind the grants, whose counts say where segments end.
    while (!lane.segments.empty() && order_.IsOver(lane, from)) lanes_.ForgetFront(lane);
    lane.Number();
  }
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    if (listed.count(it->first) > 0) {
      ++it;
      continue;
    }
    // First its reads, which would come for a lane that is not there.
    reads_.Cancel(it->second, out);
    order_.ForgetLane(it->first);
    it = lanes_.Erase(it);
  }
}

void LaneIntake::TakeGrant(Time now, LaneReader& lane, const Lane& from, const Grant& grant,
                           ConsumerEffects& out) {
  LaneSegment* segment = lane.Find(grant.seq);
  if (segment == nullptr) {
    const bool first = lane.segments.empty();
    // Read and dropped here already; the dispatcher has not heard of that.
    if (!first && grant.seq < lane.segments.back().seq) return;
    LaneSegment granted{.seq = grant.seq,
                        .segment = grant.segment,
                        .from = grant.from,
                        .known = grant.from,
                        .handed = grant.from,
                        .acked = grant.from};
    if (first && !order_.PlaceFirst(from, grant, granted)) return;
    segment = &lane.segments.emplace_back(std::move(granted));
    lane.next_seq = grant.seq + 1;
    lane.last_segment = grant.segment;
    if (!first) lane.Number();
  }
  if (grant.elements >= 0) {
    // The dispatcher knows it, so no poll has to say it.
    segment->told_count = true;
    if (LaneSet::NoteCount(lane, *segment, grant.elements) && order_.CountIsUrgent(*segment)) {
      polls_.Urgent();
    }
  }
  // A read that is under way there goes on.
  if (segment->worker == grant.worker) return;
  segment->worker = grant.worker;
  segment->prepared = false;
  // The delay was the former worker's.
  segment->retry_at = now;
  segment->backoff = absl::ZeroDuration();
  reads_.Cancel(*segment, out);
}

}  // namespace lockstep::dispatch

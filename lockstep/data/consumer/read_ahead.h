// What a consumer reads from workers, ahead of what the program asks for. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/consumer/lane_set.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/events.h"

namespace lockstep::dispatch {

// What a reading order wants of a lane: elements `stride` apart.
struct LaneWish {
  LaneReader* lane = nullptr;
  // Exact and rounds: the position of the first one; first come: what was not handed out.
  std::optional<int64_t> position;
  int64_t stride = 1;
  // The first one is of use only with so many behind it.
  int64_t ahead = 0;
  // The program waits for it: it is read even if that exceeds the bounds.
  bool needed = true;
};

// Owns the reads that are in flight, and puts what they bring into the lanes.
//
// Invariant: a segment has at most one read in flight, and names it. Bounds: `reads_max` reads;
// what is buffered and asked for is within `read_bytes_max`, but for the one read of a lane that
// the program waits for.
class ReadAhead {
 public:
  // Both must outlive it.
  ReadAhead(const ConsumerOptions& options, LaneSet& lanes) : options_(options), lanes_(lanes) {}

  // What is due for another try up to now is looked at in this step.
  void BeginStep(Time now) { step_at_ = now; }
  // Asks the workers, by their addresses of the moment, for what is wanted of the lane.
  void Plan(Time now, const LaneWish& wish, const std::vector<WorkerAddress>& workers,
            ConsumerEffects& out);

  // Puts the elements into their lane. Returns the segment if its count is known by this only;
  // null: there is no such news, or nobody waits for the answer any more.
  LaneSegment* Answered(Time now, ReadAnswered& answer);
  // Tries again later. Returns what failed; none: nobody waits for the answer any more.
  std::optional<SegmentFailure> Failed(Time now, const ReadFailed& failure);

  // Nobody waits for the segment's read, the lane's, or any.
  void Cancel(LaneSegment& segment, ConsumerEffects& out);
  void Cancel(LaneReader& lane, ConsumerEffects& out);
  void CancelAll(ConsumerEffects& out);

  // Reads that are neither answered nor cancelled.
  size_t in_flight() const { return reads_.size(); }
  // When a failed read is due for another try.
  Time NextRetry() const;
  bool Holds() const;  // the invariant

 private:
  struct Read {
    LaneId lane;
    int64_t seq = 0;
    WorkerId worker;
    int64_t from = 0;
    int64_t stride = 1;
    uint64_t bytes = 0;  // that it may bring
  };
  // Takes out the read. Returns its segment; null: it is gone, or the read is not in flight.
  LaneSegment* Finish(ReadId id, Read& read);
  // Whether there is anything left to read in the segment. `wanted` is -1 where it is not known yet
  // which element that is: the worker only prepares the segment.
  bool PlanSegment(Time now, const LaneWish& wish, LaneSegment& segment, int64_t wanted,
                   bool needed, const std::vector<WorkerAddress>& workers, ConsumerEffects& out);
  // The first element from `wanted` on that is not in the buffer.
  int64_t FirstMissing(LaneSegment& segment, int64_t wanted, int64_t stride);
  bool HasRoom() const;
  void Send(const LaneWish& wish, LaneSegment& segment, std::optional<int64_t> index,
            const WorkerAddress& worker, ConsumerEffects& out);

  const ConsumerOptions& options_;
  LaneSet& lanes_;
  std::map<ReadId, Read> reads_;
  uint64_t last_read_ = 0;
  uint64_t asked_bytes_ = 0;
  Time step_at_;
};

}  // namespace lockstep::dispatch

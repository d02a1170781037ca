// The lanes of a consumer, with what was read ahead of each. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/consumer/lane_reader.h"

namespace lockstep::dispatch {

// Owns the lanes and the elements in their buffers, which come and go by its calls only.
//
// Invariant: `buffered_bytes` is what the elements in all buffers have together. Bounds: lanes and
// grants are as many as the dispatcher assigns; the bytes are its caller's to bound (ReadAhead).
class LaneSet {
 public:
  using Map = std::map<LaneId, LaneReader>;

  // In the order of their ids.
  Map::iterator begin() { return lanes_.begin(); }
  Map::iterator end() { return lanes_.end(); }
  Map::const_iterator begin() const { return lanes_.begin(); }
  Map::const_iterator end() const { return lanes_.end(); }
  bool empty() const { return lanes_.empty(); }

  // The lane of this id, which is there from now on.
  LaneReader& Get(LaneId id) { return lanes_[id]; }
  // Null: there is none.
  LaneReader* Find(LaneId id);
  // Drops the lane and its buffers; returns the one behind it. None of its reads is in flight.
  Map::iterator Erase(Map::iterator at);

  // The segment has `count` elements; false: that was known.
  static bool NoteCount(LaneReader& lane, LaneSegment& segment, int64_t count);
  // Keeps an element that was read; false: it is there already.
  bool Store(LaneSegment& segment, int64_t index, Element element);
  // Takes an element, which is there, out of the buffer; the ask is not set.
  HandOut Take(LaneReader& lane, LaneSegment& segment, int64_t index, int64_t round);
  // Drops what is not the element `wanted` or a multiple of `stride` behind it.
  void Keep(LaneSegment& segment, int64_t wanted, int64_t stride);
  // Drops the lane's first segment.
  void ForgetFront(LaneReader& lane);

  uint64_t buffered_bytes() const { return buffered_bytes_; }
  // First come: all segments that are known were handed out in full.
  bool AllPassed() const;
  // For people: the first segment that was not handed out in full.
  std::string FirstMissing() const;
  bool Holds() const;  // the invariant

 private:
  Map lanes_;
  uint64_t buffered_bytes_ = 0;
};

}  // namespace lockstep::dispatch

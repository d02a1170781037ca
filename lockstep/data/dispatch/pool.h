// The segments that nobody has been given yet: of an iteration, or of one share of it. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/data/dispatch/records.h"
#include "lockstep/data/dispatch/shape.h"

namespace lockstep::dispatch {

// Which segments a pool has.
struct Share {
  int64_t index = 0;
  int64_t count = 1;
  bool by_file = false;
};

// Gives out what came back first, then the segments in their order. Memory: what came back.
class Pool {
 public:
  // From the first segment of the share on.
  Pool(std::shared_ptr<const Shape> shape, Share share) : shape_(std::move(shape)), share_(share) {
    Skip();
  }

  // Starts elsewhere than at the beginning: only segments from `next` on, and these.
  void Begin(int64_t next, const std::vector<SegmentRest>& rests);

  // What is given out next; none: nothing is left.
  std::optional<SegmentRest> Head() const;
  bool empty() const { return !Head(); }  // nothing is left to give
  // It is given out. False: it is not in the pool.
  bool Take(SegmentRest rest);
  // Given out before all that was never given.
  void Return(SegmentRest rest) { returned_.insert(rest); }

  int64_t next() const { return next_; }  // the first segment that was never given out
  // What came back, in the order in which it is given out.
  const std::set<SegmentRest>& returned() const { return returned_; }

 private:
  bool Owns(int64_t segment) const;
  void Skip();  // to a segment of the share

  std::shared_ptr<const Shape> shape_;
  Share share_;
  int64_t next_ = 0;
  std::set<SegmentRest> returned_;
};

}  // namespace lockstep::dispatch

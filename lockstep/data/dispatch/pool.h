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
//
// By file, the next segment of the share may be far away: its owner looks for it (ShareSearch), and
// says so with `Found`. Until then only what came back is given.
class Pool {
 public:
  // From the first segment of the share on.
  Pool(std::shared_ptr<const Shape> shape, Share share) : shape_(std::move(shape)), share_(share) {
    GoTo(0);
  }

  // Starts elsewhere than at the beginning: only segments from `next` on, and these.
  void Begin(int64_t next, const std::vector<SegmentRest>& rests);

  // What is given out next; none: nothing is left, or it is sought.
  std::optional<SegmentRest> Head() const;
  bool empty() const { return !sought_ && !Head(); }  // nothing is left to give
  // It is given out. False: it is not in the pool.
  bool Take(SegmentRest rest);
  // By file: the first segment from `next` on that is of the share is to be found.
  bool sought() const { return sought_; }
  // It is this one; or the end of the dataset, if there is none.
  void Found(int64_t segment) {
    if (segment < next_) return;  // it was sought before a record said more
    at_ = segment;
    sought_ = false;
  }
  const Share& share() const { return share_; }
  // Given out before all that was never given.
  void Return(SegmentRest rest) { returned_.insert(rest); }

  // The first segment that was never given out; by file, of whichever share.
  int64_t next() const { return next_; }
  // What came back, in the order in which it is given out.
  const std::set<SegmentRest>& returned() const { return returned_; }

 private:
  bool Owns(int64_t segment) const;
  void GoTo(int64_t segment);  // or to the next of the share behind it

  std::shared_ptr<const Shape> shape_;
  Share share_;
  int64_t next_ = 0;
  int64_t at_ = 0;  // never before `next_`; of the share, unless it is sought
  bool sought_ = false;
  std::set<SegmentRest> returned_;
};

}  // namespace lockstep::dispatch

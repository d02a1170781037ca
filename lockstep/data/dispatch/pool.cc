#include "lockstep/data/dispatch/pool.h"

namespace lockstep::dispatch {

void Pool::Begin(int64_t next, const std::vector<SegmentRest>& rests) {
  // Returned ones go: `rests` names all that is left of the segments before `next`.
  returned_.clear();
  GoTo(next);
  for (const SegmentRest& rest : rests) {
    // A cursor has the rests of all shares.
    if (Owns(rest.segment)) returned_.insert(rest);
  }
}

std::optional<SegmentRest> Pool::Head() const {
  // What came back first: it has waited longest.
  if (!returned_.empty()) return *returned_.begin();
  if (sought_ || at_ >= shape_->segments()) return std::nullopt;
  return SegmentRest{.segment = at_, .from = 0};
}

bool Pool::Take(SegmentRest rest) {
  if (returned_.erase(rest) > 0) return true;
  // All others are given in their order, and whole.
  if (rest.from != 0 || rest.segment < at_ || rest.segment >= shape_->segments()) return false;
  // A record that is read back says itself what was found.
  if (sought_ ? !Owns(rest.segment) : rest.segment != at_) return false;
  GoTo(rest.segment + 1);
  return true;
}

// By file, a whole file is one share's, whatever lies in it.
bool Pool::Owns(int64_t segment) const {
  if (share_.count <= 1) return true;
  const int64_t by = share_.by_file ? shape_->FileOf(segment) : segment;
  return by % share_.count == share_.index;
}

void Pool::GoTo(int64_t segment) {
  const int64_t segments = shape_->segments();
  next_ = segment;
  sought_ = share_.by_file && share_.count > 1 && segment < segments;
  if (!share_.by_file && share_.count > 1) {
    const int64_t behind = (share_.index - next_ % share_.count + share_.count) % share_.count;
    // Compared this way round, a dataset without an end does not overflow.
    next_ = segments - behind < next_ ? segments : next_ + behind;
  }
  at_ = next_;
}

}  // namespace lockstep::dispatch

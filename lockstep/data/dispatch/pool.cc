#include "lockstep/data/dispatch/pool.h"

namespace lockstep::dispatch {

namespace {

// A share that has no file with a record in it would be looked for through an endless dataset.
constexpr int64_t kSkippedMax = 1 << 20;

}  // namespace

void Pool::Begin(int64_t next, const std::vector<SegmentRest>& rests) {
  // Returned ones go: `rests` names all that is left of the segments before `next`.
  next_ = next;
  returned_.clear();
  Skip();
  for (const SegmentRest& rest : rests) {
    // A cursor has the rests of all shares.
    if (Owns(rest.segment)) returned_.insert(rest);
  }
}

std::optional<SegmentRest> Pool::Head() const {
  // What came back first: it has waited longest.
  if (!returned_.empty()) return *returned_.begin();
  if (next_ >= shape_->segments()) return std::nullopt;
  return SegmentRest{.segment = next_, .from = 0};
}

bool Pool::Take(SegmentRest rest) {
  if (returned_.erase(rest) > 0) return true;
  // All others are given in their order, and whole.
  if (rest.from != 0 || rest.segment != next_ || next_ >= shape_->segments()) return false;
  ++next_;
  Skip();
  return true;
}

// By file, a whole file is one share's, whatever lies in it.
bool Pool::Owns(int64_t segment) const {
  if (share_.count <= 1) return true;
  const int64_t by = share_.by_file ? shape_->FileOf(segment) : segment;
  return by % share_.count == share_.index;
}

void Pool::Skip() {
  if (!share_.by_file) {
    const int64_t behind = (share_.index - next_ % share_.count + share_.count) % share_.count;
    // Compared this way round, a dataset without an end does not overflow.
    next_ = shape_->segments() - behind < next_ ? shape_->segments() : next_ + behind;
    return;
  }
  int64_t skipped = 0;
  while (next_ < shape_->segments() && !Owns(next_)) {
    ++next_;
    if (++skipped > kSkippedMax && shape_->segments() == kInfinite) next_ = shape_->segments();
  }
}

}  // namespace lockstep::dispatch

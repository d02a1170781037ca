#include "lockstep/data/dispatch/share_search.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

std::vector<ShareSearch::Found> ShareSearch::Step(const Shape& shape, int64_t shares) {
  LOCKSTEP_DCHECK(!wanted_.empty() && shares > 0);
  std::vector<Found> found;
  // The one that is furthest behind: others that it comes up to go on with it.
  auto here = wanted_.extract(wanted_.begin());
  const int64_t segment = here.key();
  Wanted& waiting = here.mapped();
  if (segment >= shape.segments()) {
    for (const auto& [share, task] : waiting) found.push_back({task, shape.segments()});
    return found;
  }
  const int64_t share = shape.FileOf(segment) % shares;
  for (auto next = waiting.lower_bound({share, TaskId()});
       next != waiting.end() && next->first == share; next = waiting.erase(next)) {
    found.push_back({next->second, segment});
  }
  if (waiting.empty()) return found;
  here.key() = std::max(segment + 1, shape.FileUntil(segment));
  if (auto moved = wanted_.insert(std::move(here)); !moved.inserted) {
    // The fewer go to the more.
    Wanted& there = moved.position->second;
    if (there.size() < moved.node.mapped().size()) there.swap(moved.node.mapped());
    there.merge(moved.node.mapped());
  }
  return found;
}

}  // namespace lockstep::dispatch

#include "lockstep/data/consumer/lane_set.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

LaneReader* LaneSet::Find(LaneId id) {
  const auto found = lanes_.find(id);
  return found == lanes_.end() ? nullptr : &found->second;
}

LaneSet::Map::iterator LaneSet::Erase(Map::iterator at) {
  for (const LaneSegment& segment : at->second.segments) {
    // Else the read would bring elements for a segment that is not here.
    LOCKSTEP_CHECK(!segment.reading.has_value());
    for (const auto& [index, element] : segment.buffer) buffered_bytes_ -= element.bytes;
  }
  return lanes_.erase(at);
}

bool LaneSet::NoteCount(LaneReader& lane, LaneSegment& segment, int64_t count) {
  // The first word counts: a segment has the same length for all.
  if (segment.count) return false;
  segment.count = count;
  segment.known = std::max(segment.known, count);
  // Starts of the segments behind it follow from its end.
  lane.Number();
  return true;
}

bool LaneSet::Store(LaneSegment& segment, int64_t index, Element element) {
  const uint64_t bytes = element.bytes;
  // Asked for twice, it counts once.
  if (!segment.buffer.emplace(index, std::move(element)).second) return false;
  buffered_bytes_ += bytes;
  return true;
}

HandOut LaneSet::Take(LaneReader& lane, LaneSegment& segment, int64_t index, int64_t round) {
  const auto found = segment.buffer.find(index);
  LOCKSTEP_CHECK(found != segment.buffer.end());
  HandOut hand{.element = std::move(found->second),
               .place = {.lane = lane.lane,
                         .seq = segment.seq,
                         .segment = segment.segment,
                         .element = index,
                         .round = round,
                         .task = lane.task}};
  LOCKSTEP_DCHECK(index >= segment.from && buffered_bytes_ >= hand.element.bytes);
  buffered_bytes_ -= hand.element.bytes;
  segment.buffer.erase(found);
  segment.handed = index + 1;
  return hand;
}

void LaneSet::Keep(LaneSegment& segment, int64_t wanted, int64_t stride) {
  for (auto it = segment.buffer.begin(); it != segment.buffer.end();) {
    if (it->first >= wanted && (it->first - wanted) % stride == 0) {
      ++it;
      continue;
    }
    LOCKSTEP_DCHECK(buffered_bytes_ >= it->second.bytes);
    buffered_bytes_ -= it->second.bytes;
    it = segment.buffer.erase(it);
  }
}

void LaneSet::ForgetFront(LaneReader& lane) {
  LOCKSTEP_CHECK(!lane.segments.empty());
  const LaneSegment& front = lane.segments.front();
  // All that is known of the lane's beginning when no segment is left.
  if (front.End()) lane.begin = *front.End();
  for (const auto& [index, element] : front.buffer) buffered_bytes_ -= element.bytes;
  lane.segments.pop_front();
  // It counts segments from the front.
  if (lane.passed > 0) --lane.passed;
}

bool LaneSet::AllPassed() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    return entry.second.passed == entry.second.segments.size();
  });
}

std::string LaneSet::FirstMissing() const {
  for (const auto& [id, lane] : lanes_) {
    for (const LaneSegment& segment : lane.segments) {
      if (segment.AllHanded()) continue;
      if (segment.worker == WorkerId()) {
        return absl::StrCat("a worker for segment ", segment.segment);
      }
      return absl::StrCat("segment ", segment.segment, " of worker ", segment.worker.value());
    }
  }
  return "a segment, or the end";
}

bool LaneSet::Holds() const {
  uint64_t bytes = 0;
  for (const auto& [id, lane] : lanes_) {
    for (const LaneSegment& segment : lane.segments) {
      for (const auto& [index, element] : segment.buffer) bytes += element.bytes;
    }
  }
  return bytes == buffered_bytes_;
}

}  // namespace lockstep::dispatch

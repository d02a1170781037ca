// One lane as its reader sees it: which elements are known, read, handed out. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/base/time.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/records.h"

namespace lockstep::dispatch {

// A segment of a lane. Elements are named by their index in the segment, or by their position in
// the lane: `start` is the position of element `from`.
struct LaneSegment {
  int64_t seq = 0;
  int64_t segment = 0;
  int64_t from = 0;
  WorkerId worker;
  std::optional<int64_t> start;
  std::optional<int64_t> count;  // of the whole segment
  int64_t known = 0;             // it has at least so many
  bool told_count = false;       // the dispatcher knows it

  std::map<int64_t, Element> buffer;  // by index
  // Of the seat for which reads were planned last: its stride, and from which index on the buffer
  // has nothing more for it. So that planning does not look at all of the buffer each time.
  int64_t planned_stride = 0;
  int64_t planned_residue = 0;
  int64_t have_to = 0;
  std::optional<ReadId> reading;
  bool prepared = false;
  Time retry_at;
  absl::Duration backoff;

  // First come.
  int64_t handed = 0;  // all before this index
  int64_t acked = 0;
  std::deque<uint64_t> held_bytes;  // acknowledged by hand: of each element from `acked` on

  // False as long as the count is not known; below too.
  bool AllHanded() const { return count && handed >= *count; }
  bool AllAcked() const { return count && acked >= std::max(from, *count); }

  // The position behind its last element, when both are known.
  std::optional<int64_t> End() const {
    if (!start || !count) return std::nullopt;
    return *start + *count - from;
  }
  // Of an element of this segment, whose start is known.
  int64_t IndexOf(int64_t position) const {
    LOCKSTEP_CHECK(start.has_value());
    return position - *start + from;
  }
};

struct LaneReader {
  LaneId lane;
  TaskId task;
  int64_t starting_round = 0;
  int64_t base_round = 0;
  int64_t base_element = 0;
  int64_t begin = 0;  // the position of the first segment that is known here
  int64_t next_seq = 0;
  int64_t last_segment = -1;  // of the last grant that was heard of
  bool closed = false;
  std::deque<LaneSegment> segments;
  size_t passed = 0;  // first come: so many of the first segments were handed out in full
  // Rounds: it takes no turn any more; decided when so many had been handed out.
  bool ended = false;
  int64_t ended_after = 0;

  // Null: it is not listed here, or not any more. Good until segments come or go.
  LaneSegment* Find(int64_t seq) {
    const auto found =
        std::lower_bound(segments.begin(), segments.end(), seq,
                         [](const LaneSegment& one, int64_t wanted) { return one.seq < wanted; });
    return found != segments.end() && found->seq == seq ? &*found : nullptr;
  }

  // Carries starts on from each segment whose end is known.
  void Number() {
    for (size_t i = 1; i < segments.size(); ++i) {
      if (const std::optional<int64_t> end = segments[i - 1].End()) segments[i].start = end;
    }
  }
  // The segment with the element at this position; null: it is not known which. A segment whose
  // count is not known may turn out to have no such element.
  LaneSegment* At(int64_t position) {
    for (LaneSegment& segment : segments) {
      if (!segment.start) return nullptr;
      const std::optional<int64_t> end = segment.End();
      if (!end || position < *end) return &segment;
    }
    return nullptr;
  }
  // So many elements of the lane are known to exist.
  int64_t KnownTotal() const {
    int64_t total = begin;
    for (const LaneSegment& segment : segments) {
      if (!segment.start) break;
      total = std::max(total, *segment.start + std::max<int64_t>(0, segment.known - segment.from));
      const std::optional<int64_t> end = segment.End();
      if (!end) break;
      total = *end;
    }
    return total;
  }
  // How many it has in all, once that is known.
  std::optional<int64_t> Total() const {
    if (!closed) return std::nullopt;
    if (segments.empty()) return begin;
    return segments.back().End();
  }
};

}  // namespace lockstep::dispatch

#include "lockstep/data/consumer/read_ahead.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

LaneSegment* ReadAhead::Finish(ReadId id, Read& read) {
  const auto found = reads_.find(id);
  if (found == reads_.end()) return nullptr;
  read = found->second;
  reads_.erase(found);
  LOCKSTEP_DCHECK(asked_bytes_ >= read.bytes);
  asked_bytes_ -= read.bytes;
  // The segment may be gone meanwhile; then nobody waits for the answer.
  LaneReader* lane = lanes_.Find(read.lane);
  LaneSegment* segment = lane == nullptr ? nullptr : lane->Find(read.seq);
  if (segment != nullptr) segment->reading.reset();
  return segment;
}

LaneSegment* ReadAhead::Answered(Time now, ReadAnswered& answer) {
  Read read;
  LaneSegment* segment = Finish(answer.read, read);
  if (segment == nullptr) return nullptr;
  segment->backoff = absl::ZeroDuration();
  const bool first_come = options_.spec.mode == Mode::kFirstCome;
  int64_t index = read.from;
  for (Element& element : answer.elements) {
    // What was handed out is not handed out again, whoever made it.
    const bool wanted = index >= (first_come ? segment->handed : segment->from);
    if (wanted) lanes_.Store(*segment, index, std::move(element));
    segment->known = std::max(segment->known, index + 1);
    index += read.stride;
  }
  segment->known = std::max(segment->known, answer.known);
  const bool counted =
      answer.ended && LaneSet::NoteCount(*lanes_.Find(read.lane), *segment, answer.known);
  if (answer.elements.empty() && !answer.ended && read.bytes > 0) {
    // It has nothing to say yet.
    segment->backoff = options_.retry_first;
    segment->retry_at = now + segment->backoff;
  }
  return counted ? segment : nullptr;
}

std::optional<SegmentFailure> ReadAhead::Failed(Time now, const ReadFailed& failure) {
  Read read;
  LaneSegment* segment = Finish(failure.read, read);
  if (segment == nullptr) return std::nullopt;
  // The next try may go to another worker, or to the same one after its restart.
  segment->prepared = false;
  segment->backoff = segment->backoff == absl::ZeroDuration()
                         ? options_.retry_first
                         : std::min(segment->backoff * 2, options_.retry_max);
  segment->retry_at = now + segment->backoff;
  return SegmentFailure{.lane = read.lane,
                        .seq = read.seq,
                        .segment = segment->segment,
                        .worker = read.worker,
                        .error = failure.error};
}

void ReadAhead::Cancel(LaneSegment& segment, ConsumerEffects& out) {
  if (!segment.reading) return;
  out.cancelled_reads.push_back(*segment.reading);
  const auto read = reads_.find(*segment.reading);
  LOCKSTEP_CHECK(read != reads_.end());
  LOCKSTEP_DCHECK(asked_bytes_ >= read->second.bytes);
  asked_bytes_ -= read->second.bytes;
  reads_.erase(read);
  segment.reading.reset();
}

void ReadAhead::Cancel(LaneReader& lane, ConsumerEffects& out) {
  for (LaneSegment& segment : lane.segments) Cancel(segment, out);
}

void ReadAhead::CancelAll(ConsumerEffects& out) {
  // By the reads, not the segments: some are for segments that are over.
  for (const auto& [id, read] : reads_) out.cancelled_reads.push_back(id);
  reads_.clear();
  asked_bytes_ = 0;
  for (auto& [id, lane] : lanes_) {
    for (LaneSegment& segment : lane.segments) segment.reading.reset();
  }
}

void ReadAhead::Plan(Time now, const LaneWish& wish, const std::vector<WorkerAddress>& workers,
                     ConsumerEffects& out) {
  LOCKSTEP_DCHECK(wish.lane != nullptr);
  LaneReader& lane = *wish.lane;
  bool needed = wish.needed;
  for (size_t i = wish.position ? 0 : lane.passed; i < lane.segments.size(); ++i) {
    LaneSegment& segment = lane.segments[i];
    int64_t index = segment.handed;
    if (wish.position) {
      if (segment.start) {
        int64_t position = *wish.position;
        if (position < *segment.start) {
          // Its first element that lies in this segment.
          position += (*segment.start - position + wish.stride - 1) / wish.stride * wish.stride;
        }
        index = segment.IndexOf(position);
      } else if (wish.stride == 1) {
        index = segment.from;
      } else {
        // Where its first element for this reader is, depends on those before.
        PlanSegment(now, wish, segment, -1, false, workers, out);
        continue;
      }
    }
    // None of its elements is this reader's.
    if (segment.count && index >= *segment.count) continue;
    const bool asked = PlanSegment(now, wish, segment, index, needed, workers, out);
    // The program waits for one element. Behind a segment of unknown length it is not known which.
    needed = needed && !asked && segment.count.has_value();
  }
}

int64_t ReadAhead::FirstMissing(LaneSegment& segment, int64_t wanted, int64_t stride) {
  LOCKSTEP_DCHECK(!segment.buffer.empty());
  if (segment.planned_stride != stride || segment.planned_residue != wanted % stride ||
      segment.buffer.begin()->first != wanted) {
    // What another seat would have needed, or was passed over.
    lanes_.Keep(segment, wanted, stride);
    segment.planned_stride = stride;
    segment.planned_residue = wanted % stride;
    segment.have_to = wanted;
  }
  int64_t index = std::max(wanted, segment.have_to);
  while (segment.buffer.count(index) > 0) index += stride;
  segment.have_to = index;
  return index;
}

bool ReadAhead::HasRoom() const {
  // As if each read brought all that it may.
  return static_cast<int32_t>(reads_.size()) < options_.reads_max &&
         lanes_.buffered_bytes() + asked_bytes_ + options_.one_read_bytes_max <=
             options_.read_bytes_max;
}

bool ReadAhead::PlanSegment(Time now, const LaneWish& wish, LaneSegment& segment, int64_t wanted,
                            bool needed, const std::vector<WorkerAddress>& workers,
                            ConsumerEffects& out) {
  // Asked, or to be asked later: the segment behind it is not what the program waits for.
  if (segment.reading || segment.worker == WorkerId() || segment.retry_at > now) return true;
  const bool prepare = wanted < 0;
  // Once for each worker.
  if (prepare && segment.prepared) return true;
  int64_t index = wanted;
  if (!prepare && !segment.buffer.empty()) {
    index = FirstMissing(segment, wanted, wish.stride);
    if (segment.count && index >= *segment.count) return false;
    const auto buffered = static_cast<int64_t>(segment.buffer.size());
    // Half of a read is here still: one long read later is better than many short ones now.
    if (index > wanted && buffered * 2 > options_.read_elements_max) return true;
  }
  // What the program waits for is read all the same: nothing else would ever make room.
  if (!needed && !HasRoom()) return true;
  // Found by the address of the moment.
  const auto worker = std::find_if(workers.begin(), workers.end(), [&](const WorkerAddress& one) {
    return one.worker == segment.worker;
  });
  // The next assignment names it, or another one.
  if (worker == workers.end()) return true;
  Send(wish, segment, prepare ? std::nullopt : std::optional<int64_t>(index), *worker, out);
  return true;
}

void ReadAhead::Send(const LaneWish& wish, LaneSegment& segment, std::optional<int64_t> index,
                     const WorkerAddress& worker, ConsumerEffects& out) {
  LOCKSTEP_DCHECK(!segment.reading.has_value());
  const ReadId id(++last_read_);
  segment.reading = id;
  if (!index) segment.prepared = true;
  // A worker that only prepares sends nothing.
  const uint64_t bytes = index ? options_.one_read_bytes_max : 0;
  const int64_t from = index.value_or(segment.from);
  asked_bytes_ += bytes;
  reads_[id] = {.lane = wish.lane->lane,
                .seq = segment.seq,
                .worker = segment.worker,
                .from = from,
                .stride = wish.stride,
                .bytes = bytes};
  out.reads.push_back({.read = id,
                       .worker = worker,
                       .dataset = options_.spec.dataset,
                       .segment = segment.segment,
                       .from = from,
                       .stride = wish.stride,
                       .ahead = wish.ahead,
                       .max_elements = index ? options_.read_elements_max : 0,
                       .max_bytes = bytes});
}

Time ReadAhead::NextRetry() const {
  Time next = Time::Infinite();
  for (const auto& [id, lane] : lanes_) {
    for (const LaneSegment& segment : lane.segments) {
      // What was due when reads were planned last waits for something else: for room, say.
      if (segment.backoff > absl::ZeroDuration() && !segment.reading &&
          segment.retry_at > step_at_) {
        next = std::min(next, segment.retry_at);
      }
    }
  }
  return next;
}

bool ReadAhead::Holds() const {
  size_t named = 0;
  for (const auto& [id, lane] : lanes_) {
    for (const LaneSegment& segment : lane.segments) {
      if (!segment.reading) continue;
      const auto read = reads_.find(*segment.reading);
      if (read == reads_.end() || read->second.lane != id || read->second.seq != segment.seq) {
        return false;
      }
      ++named;
    }
  }
  return named <= reads_.size();
}

}  // namespace lockstep::dispatch

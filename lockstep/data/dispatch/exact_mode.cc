#include "lockstep/data/dispatch/exact_mode.h"

#include <algorithm>
#include <optional>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

// Grants there are: what the cursor left of some segments, then all from its end on.
int64_t ExactMode::Segments() const {
  const int64_t segments = ledger().shape()->segments();
  // Without an end there is nothing to count.
  if (segments == kInfinite) return kInfinite;
  const Cursor& start = ledger().start();
  return static_cast<int64_t>(start.rests.size()) + std::max<int64_t>(0, segments - start.next);
}

SegmentRest ExactMode::SegmentAt(int64_t seq) const {
  LOCKSTEP_DCHECK(seq >= 0);
  const Cursor& start = ledger().start();
  const auto rests = static_cast<int64_t>(start.rests.size());
  if (seq < rests) return start.rests[static_cast<size_t>(seq)];
  return {.segment = start.next + seq - rests, .from = 0};
}

int64_t ExactMode::Slowest() const {
  std::optional<int64_t> slowest;
  for (const auto& [id, consumer] : ledger().consumers()) {
    const ReadingState& reading = sessions().At(id).reading;
    const auto progress = reading.lanes.find(LaneId());
    // One that has not said where it is holds nobody up: its grants follow from their numbers.
    if (consumer.finished || progress == reading.lanes.end()) continue;
    slowest = slowest ? std::min(*slowest, progress->second.seq) : progress->second.seq;
  }
  // While nobody says where it is, nothing moves.
  return slowest.value_or(slowest_);
}

void ExactMode::TakePoll(const ConsumerPoll& poll, ConsumerSession& session, Effects& /*out*/) {
  LOCKSTEP_DCHECK(ledger().reading());
  for (const LaneProgress& progress : poll.progress) {
    if (progress.lane != LaneId()) continue;
    // What it says is bounded: nobody makes the dispatcher list more than there is.
    const int64_t seq = std::min(progress.seq, Segments());
    const int64_t needs = std::min(progress.needs, seq + options().exact_needs_max);
    LaneProgress& known = session.reading.lanes[progress.lane];
    known.lane = progress.lane;
    // Never back: a poll may overtake another one.
    known.seq = std::max(known.seq, seq);
    LOCKSTEP_DCHECK(known.seq <= Segments());
    if (needs <= known.needs) continue;
    known.needs = needs;
    // What it needs is given to it whatever the window is.
    sessions().Touch(session);
  }
}

// Within what somebody may read: a made-up failure must not end the iteration.
bool ExactMode::IsGiven(const SegmentFailure& failure) const {
  return failure.seq >= slowest_ && failure.seq < Segments() &&
         failure.seq - slowest_ <= options().exact_needs_max &&
         SegmentAt(failure.seq).segment == failure.segment;
}

void ExactMode::TakeReopened() {
  slowest_ = 0;
  workers_.clear();
}

// Nothing is committed: which grants there are follows from their numbers.
void ExactMode::Settle(Time /*now*/, Effects& /*out*/) {
  LOCKSTEP_DCHECK(ledger().reading());
  if (choice().stale()) sessions().TouchAll();
  const int64_t slowest = Slowest();
  if (slowest == slowest_) return;
  slowest_ = slowest;
  // Nobody asks for these any more.
  workers_.erase(workers_.begin(), workers_.lower_bound(slowest));
  sessions().TouchAll();
}

bool ExactMode::IsFinished() const {
  // By index: one that has finished may be gone.
  return static_cast<int32_t>(ledger().progress().finished_indices.size()) >=
         ledger().spec().consumers;
}

WorkerId ExactMode::WorkerFor(const WorkerTurns& turns, int64_t seq, int64_t segment) {
  const auto [known, fresh] = workers_.try_emplace(seq);
  if (fresh || choice().workers().Find(known->second) == nullptr) {
    // One for all consumers, so that a segment is made once.
    known->second = turns.Nth(turn_++);
  }
  // A consumer that cannot use it goes elsewhere alone.
  return turns.ForSegment(segment, known->second, seq);
}

void ExactMode::FillAssignment(const ConsumerSession& session, Assignment& assignment) {
  Lane lane;
  const auto progress = session.reading.lanes.find(LaneId());
  const bool known = progress != session.reading.lanes.end();
  // One that goes on from a cursor learns by any grants which one it is.
  const int64_t own = known ? progress->second.seq : 0;
  const int64_t needs = std::max(own, known ? progress->second.needs : 0);
  const int64_t total = Segments();
  // One that came back from an older cursor is the slowest, and not told all up to the others.
  const int64_t end =
      std::min(total, std::max(needs + 1, std::min(own, slowest_) + options().exact_window));
  LOCKSTEP_DCHECK(own <= end && end <= total);
  // One for all grants: there may be as many workers as grants.
  const WorkerTurns turns(choice(), session.avoid);
  for (int64_t seq = own; seq < end; ++seq) {
    const SegmentRest rest = SegmentAt(seq);
    lane.grants.push_back({.seq = seq,
                           .segment = rest.segment,
                           .from = rest.from,
                           .worker = WorkerFor(turns, seq, rest.segment),
                           .elements = ledger().shape()->ElementsOf(rest.segment).value_or(-1)});
  }
  // Behind the first grant it is not known without the lengths of all before it.
  lane.first_element = own == 0 ? 0 : -1;
  lane.closed = end == total;
  assignment.next_segment = SegmentAt(end).segment;
  assignment.lanes.push_back(std::move(lane));
}

}  // namespace lockstep::dispatch

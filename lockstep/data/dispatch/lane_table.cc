#include "lockstep/data/dispatch/lane_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

namespace {

absl::Status UnfitOfLane(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("a record of an iteration does not fit: ", what));
}

}  // namespace

const LaneGrant* LaneState::Find(int64_t seq) const {
  if (seq < first_seq || seq >= next_seq()) return nullptr;
  return &grants[static_cast<size_t>(seq - first_seq)];
}

const LaneState* LaneTable::Find(LaneId id) const {
  const auto found = lanes_.find(id);
  return found == lanes_.end() ? nullptr : &found->second;
}

LaneState* LaneTable::Mutable(LaneId id) {
  const auto found = lanes_.find(id);
  return found == lanes_.end() ? nullptr : &found->second;
}

void LaneTable::AddOfTask(LaneId id, TaskId task, int64_t base_round) {
  LOCKSTEP_DCHECK(base_round >= 0);
  LaneState& lane = lanes_[id];
  lane.task = task;
  lane.base.round = base_round;
}

// The totals stay: they are of the whole iteration.
void LaneTable::Clear() {
  lanes_.clear();
  past_count_ = 0;
}

// Numbers without a gap: a grant is found by its place.
absl::Status LaneTable::Push(LaneId id, int64_t seq, LaneGrant grant) {
  LaneState* const lane = Mutable(id);
  if (lane == nullptr || lane->next_seq() != seq) {
    return UnfitOfLane("a grant that is not the next of its lane");
  }
  lane->grants.push_back(std::move(grant));
  return absl::OkStatus();
}

void LaneTable::MoveBases(int64_t round, int64_t width) {
  for (auto& [id, lane] : lanes_) {
    // A lane that begins later has no turns in those rounds.
    if (lane.base.round >= round) continue;
    // What those rounds have taken stands before the new base.
    lane.base.element += (round - lane.base.round) * width;
    lane.base.round = round;
  }
}

void LaneTable::KeepPast(LaneState& lane, const PastGrant& grant) {
  lane.past.push_back(grant);
  ++past_count_;
  if (past_count_ <= past_max_) return;
  // The oldest of this lane: its past ends just before its first grant, without holes.
  lane.past.pop_front();
  --past_count_;
}

void LaneTable::ReturnPast(int64_t round, const SeatingList& seating, bool per_task) {
  for (auto& [id, lane] : lanes_) {
    const int64_t wanted = seating.TurnAt(lane.base, round);
    // From the newest back, so that the lane never has a hole.
    while (!lane.past.empty() && lane.first_element > wanted) {
      LOCKSTEP_DCHECK(past_count_ > 0);
      const PastGrant one = lane.past.back();
      lane.past.pop_back();
      --past_count_;
      const LaneGrant grant{.task = per_task ? lane.task : TaskId(),
                            .segment = one.segment,
                            .from = one.from,
                            .acknowledged = one.from,
                            .elements = one.elements};
      lane.first_element -= grant.length();
      // What is read again is not done.
      totals_.elements_done -= grant.length();
      --totals_.segments_done;
      --lane.first_seq;
      lane.grants.push_front(grant);
    }
  }
}

absl::Status LaneTable::Apply(const record::Acknowledged& r) {
  LaneState* const lane = Mutable(r.lane);
  if (lane == nullptr || lane->Find(r.seq) == nullptr)
    return UnfitOfLane("an acknowledgement of no grant");
  LaneGrant& grant = lane->grants[static_cast<size_t>(r.seq - lane->first_seq)];
  totals_.elements_done += r.elements - grant.acknowledged;
  grant.acknowledged = r.elements;
  grant.done = r.done;
  if (r.done) ++totals_.segments_done;
  // A grant that is done stays for as long as one before it is not: the lane has no holes.
  while (!lane->grants.empty() && lane->grants.front().done) {
    lane->grants.pop_front();
    ++lane->first_seq;
  }
  return absl::OkStatus();
}

absl::Status LaneTable::Apply(const record::LaneTrimmed& r) {
  LaneState* const lane = Mutable(r.lane);
  if (lane == nullptr || r.seq > lane->next_seq()) return UnfitOfLane("the lane is not so long");
  while (lane->first_seq < r.seq) {
    const LaneGrant& grant = lane->grants.front();
    // Whoever reads has it: what is trimmed counts as done.
    totals_.elements_done += grant.length();
    ++totals_.segments_done;
    if (keeps_past_) {
      KeepPast(*lane, {.segment = grant.segment, .from = grant.from, .elements = grant.elements});
    }
    lane->grants.pop_front();
    ++lane->first_seq;
  }
  lane->first_element = r.first_element;
  return absl::OkStatus();
}

absl::Status LaneTable::Apply(const record::LaneClosed& r) {
  LaneState* const lane = Mutable(r.lane);
  if (lane == nullptr) return UnfitOfLane("the end of no lane");
  lane->closed = true;
  return absl::OkStatus();
}

absl::Status LaneTable::Apply(const record::Counted& r) {
  LaneState* const lane = Mutable(r.lane);
  if (lane == nullptr || lane->Find(r.seq) == nullptr) return UnfitOfLane("a count of no grant");
  lane->grants[static_cast<size_t>(r.seq - lane->first_seq)].elements = r.elements;
  return absl::OkStatus();
}

absl::Status LaneTable::Apply(const record::LaneKept& r) {
  LaneState& lane = lanes_[r.lane];
  lane.task = r.task;
  lane.grants.clear();
  // Its grants follow as records of their own, from this number on.
  lane.first_seq = r.next_seq;
  lane.first_element = r.first_element;
  lane.base = {.round = r.base_round, .element = r.base_element};
  lane.closed = r.closed;
  return absl::OkStatus();
}

absl::Status LaneTable::Apply(const record::GrantKept& r) {
  return Push(r.lane, r.seq,
              {.task = r.task,
               .segment = r.segment,
               .from = r.from,
               .acknowledged = r.acknowledged,
               .done = r.done,
               .elements = r.elements});
}

absl::Status LaneTable::Apply(const record::PastKept& r) {
  LaneState* const lane = Mutable(r.lane);
  if (lane == nullptr) return UnfitOfLane("a past of no lane");
  for (const PastGrant& one : r.grants) KeepPast(*lane, one);
  return absl::OkStatus();
}

absl::Status LaneTable::Apply(const record::TotalsKept& r) {
  totals_ = {.segments_done = r.segments_done,
             .elements_done = r.elements_done,
             .segments_dropped = r.segments_dropped};
  return absl::OkStatus();
}

// A lane as if it had just begun at its first grant, then the grants.
void LaneTable::SnapshotLanes(IterationId iteration, std::vector<Record>& out) const {
  for (const auto& [id, lane] : lanes_) {
    out.push_back(record::LaneKept{.iteration = iteration,
                                   .lane = id,
                                   .task = lane.task,
                                   .next_seq = lane.first_seq,
                                   .first_element = lane.first_element,
                                   .base_round = lane.base.round,
                                   .base_element = lane.base.element,
                                   .closed = lane.closed});
    int64_t seq = lane.first_seq;
    for (const LaneGrant& grant : lane.grants) {
      out.push_back(record::GrantKept{.iteration = iteration,
                                      .lane = id,
                                      .task = grant.task,
                                      .seq = seq++,
                                      .segment = grant.segment,
                                      .from = grant.from,
                                      .acknowledged = grant.acknowledged,
                                      .elements = grant.elements,
                                      .done = grant.done});
    }
  }
}

void LaneTable::SnapshotPasts(IterationId iteration, std::vector<Record>& out) const {
  for (const auto& [id, lane] : lanes_) {
    if (lane.past.empty()) continue;
    out.push_back(record::PastKept{
        .iteration = iteration, .lane = id, .grants = {lane.past.begin(), lane.past.end()}});
  }
}

void LaneTable::SnapshotTotals(IterationId iteration, std::vector<Record>& out) const {
  out.push_back(record::TotalsKept{.iteration = iteration,
                                   .segments_done = totals_.segments_done,
                                   .elements_done = totals_.elements_done,
                                   .segments_dropped = totals_.segments_dropped});
}

// Invariants (1) to (3), of which what a past holds shows in the numbers.
bool LaneTable::Holds() const {
  int64_t past = 0;
  for (const auto& [id, lane] : lanes_) {
    past += static_cast<int64_t>(lane.past.size());
    if (static_cast<int64_t>(lane.past.size()) > lane.first_seq) return false;
    if (!lane.grants.empty() && lane.grants.front().done) return false;
  }
  return past == past_count_ && past_count_ <= std::max<int64_t>(0, past_max_);
}

}  // namespace lockstep::dispatch

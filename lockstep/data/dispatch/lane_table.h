// The lanes of an iteration: which segments were given in which order, and what of them is done.
// Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/data/dispatch/seating_list.h"

namespace lockstep::dispatch {

// A segment that was given, as a part of a lane.
struct LaneGrant {
  TaskId task;  // whose segment it is; 0: the iteration's
  int64_t segment = 0;
  int64_t from = 0;          // elements before this one belong to somebody else
  int64_t acknowledged = 0;  // first come: all before this one
  bool done = false;
  int64_t elements = -1;  // of the segment, when known

  // Elements that the lane has of it; 0 while the segment's length is not known.
  int64_t length() const { return std::max<int64_t>(0, elements - from); }
};

// A run of grants that is read as one stream. First come: each consumer has one. Rounds: each task.
struct LaneState {
  TaskId task;
  int64_t first_seq = 0;  // of grants.front()
  std::deque<LaneGrant> grants;
  std::deque<PastGrant> past;  // rounds: trimmed, just before `first_seq`
  int64_t first_element = 0;   // of the lane, where grants.front() begins
  TurnBase base;
  bool closed = false;  // no grant comes behind these

  // Which the next grant gets.
  int64_t next_seq() const { return first_seq + static_cast<int64_t>(grants.size()); }
  // Null: it was trimmed, or is not given yet.
  const LaneGrant* Find(int64_t seq) const;
};

// Of all lanes that there are and were.
struct LaneTotals {
  int64_t segments_done = 0;
  int64_t elements_done = 0;
  int64_t segments_dropped = 0;  // first come, at most once
};

// Owns the lanes; part of the recorded state, so that only IterationLedger changes it.
//
// Invariants: (1) what a lane's past holds is done, and stands just before its first grant; (2) the
// lanes' pasts hold `past_count` grants, at most `past_max`; (3) first come: the first grant of a
// lane is not done. Bounds: grants by who gives them (Options.window, grants_max, rounds_window).
class LaneTable {
 public:
  // `keeps_past`: what is trimmed is kept, at most `past_max` grants of all lanes together.
  LaneTable(bool keeps_past, int64_t past_max) : keeps_past_(keeps_past), past_max_(past_max) {}

  const std::map<LaneId, LaneState>& all() const { return lanes_; }  // by id
  // Null: there is no such lane.
  const LaneState* Find(LaneId id) const;
  const LaneTotals& totals() const { return totals_; }  // since the iteration began

  // Nothing when it is there.
  void Add(LaneId id) { lanes_[id]; }
  // `base_round`: where its first element is read.
  void AddOfTask(LaneId id, TaskId task, int64_t base_round);
  void Erase(LaneId id) { lanes_.erase(id); }  // with its grants
  // All lanes go; the totals stay.
  void Clear();
  // The next grant of a lane. INVALID_ARGUMENT: `seq` is not the next one.
  absl::Status Push(LaneId id, int64_t seq, LaneGrant grant);
  void Drop() { ++totals_.segments_dropped; }  // a segment that nobody reads any more
  // Its turns count from there.
  void StartInRound(LaneId id, int64_t round) { lanes_[id].base.round = round; }
  // So many consumers read each round before `round`: turns are counted from there.
  void MoveBases(int64_t round, int64_t width);
  // What was trimmed of this round and behind it stands open again. `per_task`: segments belong to
  // the lane's task.
  void ReturnPast(int64_t round, const SeatingList& seating, bool per_task);

  // INVALID_ARGUMENT, here and below: no such lane or grant. A lane forgets what is done in front.
  absl::Status Apply(const record::Acknowledged& r);
  // Forgets the grants before `seq`, or keeps them as the lane's past.
  absl::Status Apply(const record::LaneTrimmed& r);
  // No grant comes behind its last one.
  absl::Status Apply(const record::LaneClosed& r);
  // How many elements the grant's segment has.
  absl::Status Apply(const record::Counted& r);
  // An empty lane that goes on where the kept one was.
  absl::Status Apply(const record::LaneKept& r);
  // As `Push`.
  absl::Status Apply(const record::GrantKept& r);
  // Behind `LaneKept` of the lane.
  absl::Status Apply(const record::PastKept& r);
  // In place of what was counted so far.
  absl::Status Apply(const record::TotalsKept& r);
  // Lanes and their grants; their pasts; the totals.
  void SnapshotLanes(IterationId iteration, std::vector<Record>& out) const;
  // Of those that have one; behind SnapshotLanes.
  void SnapshotPasts(IterationId iteration, std::vector<Record>& out) const;
  // One record.
  void SnapshotTotals(IterationId iteration, std::vector<Record>& out) const;

  bool Holds() const;  // the invariants

 private:
  LaneState* Mutable(LaneId id);
  void KeepPast(LaneState& lane, const PastGrant& grant);

  const bool keeps_past_;
  const int64_t past_max_;
  std::map<LaneId, LaneState> lanes_;
  int64_t past_count_ = 0;  // of all lanes
  LaneTotals totals_;
};

}  // namespace lockstep::dispatch

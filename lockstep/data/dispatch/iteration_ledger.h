// What of an iteration is recorded, and the only way to change it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/dispatch/departed_consumers.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/lane_table.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/data/dispatch/seating_list.h"
#include "lockstep/data/dispatch/task_table.h"

namespace lockstep::dispatch {

// A consumer as the records know it. What lives only as long as its connection is a
// ConsumerSession.
struct ConsumerEntry {
  ConsumerId id;
  std::string name;
  ConsumerLife life;
  int32_t index = -1;
  std::string host;
  int64_t pid = 0;
  std::string machine;
  int64_t started = 0;
  std::string job;
  bool away = false;  // rounds: lost; its place waits for its successor
  bool finished = false;
  int64_t elements = 0;  // acknowledged
};

// How far an iteration is.
struct IterationProgress {
  Phase phase = Phase::kResolving;
  ErrorPtr error;                      // in kFailed
  std::set<int32_t> finished_indices;  // exact
  ReadingPlace end;                    // exact and rounds: as who finished said
  bool awaits_lost = false;            // OnLost::kAuto: rounds that wait for who is lost
};

// Owns all of the iteration that outlives the dispatcher. Everybody reads it; it changes by records
// alone, which are applied in the same way live (`Commit`) and when they are read back (`Apply`).
// So a restored ledger cannot differ from one that lived on.
//
// Order: a record is applied before it goes out. What does not fit never reaches the journal, and
// whoever committed it sees the change at once.
//
// Invariants: those of the parts; (1) a segment that was given is in one grant, and not in its pool
// as well; (2) there is an error exactly where it has failed, and a shape where it is read.
// Bounds: Options, by who commits.
class IterationLedger {
 public:
  // Ids that records name are noted in `ids`. Empty until records say what happened.
  IterationLedger(const Options& options, IdCounter& ids, IterationId id, IterationSpec spec,
                  Cursor start);

  // --- What it is ---
  IterationId id() const { return id_; }
  const IterationSpec& spec() const { return spec_; }  // as it was opened
  const Cursor& start() const { return start_; }       // where it begins: what `spec.cursor` says
  std::string Name() const;                            // for texts: train#0
  // Rounds: what all have read is kept for who comes back from an older place.
  bool keeps_history() const {
    return spec_.mode == Mode::kRounds && spec_.on_lost != OnLost::kGoOn;
  }
  // Whether the others wait for a consumer that is lost until a successor takes its place.
  bool waits_for_lost() const {
    return spec_.mode == Mode::kRounds && (spec_.on_lost == OnLost::kWait || progress_.awaits_lost);
  }

  // --- Where it stands ---
  const IterationProgress& progress() const { return progress_; }
  Phase phase() const { return progress_.phase; }  // which requests look at before all else
  // Whether anything can be given.
  bool reading() const { return progress_.phase == Phase::kReading; }
  const std::shared_ptr<const Shape>& shape() const { return shape_; }  // null: it never began
  // Those that are away as well.
  const std::map<ConsumerId, ConsumerEntry>& consumers() const { return consumers_; }
  // Null: no consumer has this id.
  const ConsumerEntry* Find(ConsumerId id) const;
  // Null: no consumer has this name.
  const ConsumerEntry* Find(const std::string& name) const;
  bool HasConsumersThere() const;                                  // that are not away
  const DepartedConsumers& departed() const { return departed_; }  // first come
  const TaskTable& tasks() const { return tasks_; }  // with the segments that nobody was given
  const LaneTable& lanes() const { return lanes_; }  // with the grants
  const SeatingList& seating() const { return seating_; }  // rounds; else empty

  // --- How it changes ---
  // The iteration begins: its dataset is known. IterationStarted says no more than that.
  // INVALID_ARGUMENT: it has begun already.
  absl::Status Start(std::shared_ptr<const Shape> shape);
  // INVALID_ARGUMENT: it does not fit what is there, and the state is of no use then.
  absl::Status Apply(const Record& record);
  // Applies it, and then records it.
  template <class R>
  void Commit(R record, Effects& out) {
    record.iteration = id_;
    const Record kept = std::move(record);
    const absl::Status applied = Apply(kept);
    LOCKSTEP_CHECK(applied.ok());
    out.records.push_back(kept);
    // So that whoever gave a segment finds the next one.
    tasks_.SeekOn();
  }
  // As TaskTable::Seek: what is found is not recorded, so that `Apply` does not look for it.
  int64_t Seek(int64_t steps) { return tasks_.Seek(steps); }

  // The records from which `Start` and `Apply` make this state.
  void Snapshot(std::vector<Record>& out) const;
  bool Holds() const;  // the invariants of all parts

 private:
  absl::Status ApplyOne(const record::IterationEnded& r);
  absl::Status ApplyOne(const record::IterationReopened& r);
  absl::Status ApplyOne(const record::LostAwaited& r);
  absl::Status ApplyOne(const record::ConsumerJoined& r);
  absl::Status ApplyOne(const record::ConsumerReplaced& r);
  absl::Status ApplyOne(const record::ConsumerFinished& r);
  absl::Status ApplyOne(const record::ConsumerGone& r);
  absl::Status ApplyOne(const record::ConsumerAway& r);
  absl::Status ApplyOne(const record::TaskAdded& r);
  absl::Status ApplyOne(const record::TaskStarted& r);
  absl::Status ApplyOne(const record::SeatingAgreed& r);
  absl::Status ApplyOne(const record::SeatingsTrimmed& r);
  absl::Status ApplyOne(const record::Granted& r);
  absl::Status ApplyOne(const record::Acknowledged& r);
  absl::Status ApplyOne(const record::HistoryReturned& r);
  absl::Status ApplyOne(const record::PoolKept& r);
  absl::Status ApplyOne(const record::LaneKept& r);
  absl::Status ApplyOne(const record::GrantKept& r);
  absl::Status ApplyOne(const record::LeaverKept& r);
  absl::Status ApplyOne(const record::FinishersKept& r);
  // What its grants were not read of goes where the visitation says.
  absl::Status ReturnGrants(const ConsumerEntry& consumer, const LaneState& lane);

  IdCounter& ids_;
  const IterationId id_;
  const IterationSpec spec_;
  const Cursor start_;
  std::shared_ptr<const Shape> shape_;  // null until it begins
  IterationProgress progress_;
  std::map<ConsumerId, ConsumerEntry> consumers_;
  DepartedConsumers departed_;  // first come
  TaskTable tasks_;
  LaneTable lanes_;
  SeatingList seating_;  // rounds
};

}  // namespace lockstep::dispatch

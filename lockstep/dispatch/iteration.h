// One iteration: who reads it, and which of its segments are whose. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "lockstep/base/check.h"
#include "lockstep/base/time.h"
#include "lockstep/dispatch/cursor.h"
#include "lockstep/dispatch/deadlines.h"
#include "lockstep/dispatch/departed_consumers.h"
#include "lockstep/dispatch/effects.h"
#include "lockstep/dispatch/events.h"
#include "lockstep/dispatch/options.h"
#include "lockstep/dispatch/pool.h"
#include "lockstep/dispatch/records.h"
#include "lockstep/dispatch/round_agreement.h"
#include "lockstep/dispatch/seating_list.h"
#include "lockstep/dispatch/view.h"
#include "lockstep/dispatch/worker_table.h"

namespace lockstep::dispatch {

// Whose call is parked.
struct Parked {
  WorkerId worker;  // 0: a consumer's
  IterationId iteration;
  ConsumerId consumer;
};

// Who lists a dataset's files, and since when.
struct Resolving {
  WorkerId worker;
  Time since;
};

// What the parts of one dispatcher share.
struct Environment {
  Options options;
  WorkerTable workers;
  Deadlines deadlines;
  absl::flat_hash_map<CallId, Parked> parked;  // looked up only
  std::map<DatasetId, Resolving> resolving;
  int64_t last_id = 0;
  std::set<IterationId> touched;  // to be settled after the event

  int64_t NextId() { return ++last_id; }
  void NoteId(int64_t id) { last_id = std::max(last_id, id); }
};

// Every durable change is a record that is applied, live as in a restore: `Commit`.
//
// Three files: iteration.cc (its life, its consumers), iteration_lanes.cc (what is given to whom),
// iteration_rounds.cc (agreeing on rounds); iteration_records.cc applies and keeps.
class Iteration {
 public:
  Iteration(Environment& env, IterationId id, IterationSpec spec, Cursor start);

  IterationId id() const { return id_; }
  const IterationSpec& spec() const { return spec_; }
  const Cursor& start() const { return start_; }
  Phase phase() const { return phase_; }
  const ErrorPtr& error() const { return error_; }
  // Whose process is there.
  bool has_consumers() const;
  std::string Name() const;  // for texts: train#0
  bool HasConsumer(const std::string& name, ConsumerLife life) const;

  // --- Requests ---
  void Open(Time now, const OpenIteration& request, Effects& out);
  void Poll(Time now, const ConsumerPoll& request, Effects& out);
  void Close(Time now, const CloseConsumer& request, Effects& out);

  // --- Facts ---
  void Start(Time now, std::shared_ptr<const Shape> shape, Effects& out);
  void End(Time now, ErrorPtr error, Effects& out);
  // All of it is given up: who waits is told.
  void Abandon(Time now, const ErrorPtr& why, Effects& out);
  void WorkerCame(Time now, const Worker& worker, Effects& out);
  void WorkerGone(WorkerId worker, Effects& out);
  void ForgetCall(ConsumerId consumer);
  void ConsumerLinkEnded(Time now, ConsumerId consumer);
  void ConsumerEnded(Time now, ConsumerId consumer, ConsumerLife life, Effects& out);
  void ReachDue(Time now, const Due& due, Effects& out);
  void Restored(Time now);
  // After every event that touched it.
  void Settle(Time now, Effects& out);

  // Which tasks the worker has here.
  void ListTasks(WorkerId worker, std::vector<WorkerTask>& out) const;
  IterationRow Row(Time now) const;
  // Of consumers that are there.
  void ListProcesses(std::vector<ConsumerProcess>& out) const;
  std::optional<ConsumerProcess> ProcessOf(ConsumerId consumer) const;

  // --- Records: `shape` may be null while it is not started ---
  absl::Status ApplyStarted(std::shared_ptr<const Shape> shape);
  absl::Status Apply(const Record& record);
  void Snapshot(std::vector<Record>& out) const;

 private:
  // One record each, as live so in a restore: iteration_records.cc.
  absl::Status ApplyOne(const record::IterationEnded& r);
  absl::Status ApplyOne(const record::ConsumerJoined& r);
  absl::Status ApplyOne(const record::ConsumerReplaced& r);
  absl::Status ApplyOne(const record::ConsumerFinished& r);
  absl::Status ApplyOne(const record::ConsumerGone& r);
  absl::Status ApplyOne(const record::TaskAdded& r);
  absl::Status ApplyOne(const record::TaskStarted& r);
  absl::Status ApplyOne(const record::SeatingAgreed& r);
  absl::Status ApplyOne(const record::SeatingsTrimmed& r);
  absl::Status ApplyOne(const record::Granted& r);
  absl::Status ApplyOne(const record::Acknowledged& r);
  absl::Status ApplyOne(const record::LaneTrimmed& r);
  absl::Status ApplyOne(const record::LaneClosed& r);
  absl::Status ApplyOne(const record::Counted& r);
  absl::Status ApplyOne(const record::PoolKept& r);
  absl::Status ApplyOne(const record::LaneKept& r);
  absl::Status ApplyOne(const record::GrantKept& r);
  absl::Status ApplyOne(const record::TotalsKept& r);
  absl::Status ApplyOne(const record::LeaverKept& r);
  absl::Status ApplyOne(const record::FinishersKept& r);
  absl::Status ApplyOne(const record::IterationReopened& r);
  absl::Status ApplyOne(const record::LostAwaited& r);
  absl::Status ApplyOne(const record::ConsumerAway& r);
  absl::Status ApplyOne(const record::HistoryReturned& r);
  absl::Status ApplyOne(const record::PastKept& r);
  void SnapshotConsumers(std::vector<Record>& out) const;
  void SnapshotLanes(std::vector<Record>& out) const;
  void SnapshotPast(std::vector<Record>& out) const;
  struct Consumer {
    ConsumerId id;
    std::string name;
    ConsumerLife life;
    int32_t index = -1;
    std::string host;
    int64_t pid = 0;
    std::string machine;
    int64_t started = 0;
    bool away = false;  // rounds: lost; its place waits for its successor
    bool finished = false;
    int64_t elements = 0;  // acknowledged

    // Not recorded.
    Time heard;
    int64_t version = 1;
    int64_t sent_version = 0;
    bool dirty = false;
    std::optional<CallId> parked;
    int64_t poll_number = 0;
    int64_t round = -1;
    std::optional<int64_t> blocked;
    std::map<LaneId, LaneProgress> progress;
    WorkerTable::Avoid avoid;
    std::string waits_for;
    absl::Duration element_time;
    // First come, acknowledged by hand: as the consumer said.
    int64_t handed_before = 0;
    int64_t unacknowledged = 0;
    uint64_t unacknowledged_bytes = 0;
    bool has_all = false;
    // What it was told of that.
    bool rest_is_own = false;
    std::string ack_needed;
  };
  struct Given {
    TaskId task;
    int64_t segment = 0;
    int64_t from = 0;
    int64_t acknowledged = 0;
    bool done = false;
    int64_t elements = -1;
    WorkerId worker;  // first come: who was chosen; not recorded
  };
  struct LaneState {
    TaskId task;
    int64_t first_seq = 0;  // of grants.front()
    std::deque<Given> grants;
    std::deque<PastGrant> past;  // rounds: trimmed, just before `first_seq`
    int64_t first_element = 0;
    TurnBase base;
    bool closed = false;

    int64_t next_seq() const { return first_seq + static_cast<int64_t>(grants.size()); }
    Given* Find(int64_t seq);
  };
  struct Task {
    std::string home;
    int32_t share = -1;
    int64_t starting_round = 0;
    std::optional<Pool> pool;
    WorkerId owner;  // not recorded
  };

  template <class R>
  void Commit(R record, Effects& out) {
    record.iteration = id_;
    const Record kept = std::move(record);
    const absl::Status applied = Apply(kept);
    LOCKSTEP_CHECK(applied.ok());
    out.records.push_back(kept);
  }

  // iteration.cc
  Consumer* Find(ConsumerId id);
  Consumer* FindByName(const std::string& name);
  ErrorPtr CheckOpen(const OpenIteration& request, const Consumer* known) const;
  Consumer& Join(Time now, const OpenIteration& request, Effects& out);
  void Remove(Time now, ConsumerId id, bool lease_ended, Effects& out);
  void Hear(Time now, Consumer& consumer);
  void Touch(Consumer& consumer);
  void TouchAll();
  void Mark() { env_.touched.insert(id_); }
  void Unpark(Consumer& consumer);
  void AnswerParked(Time now, Consumer& consumer, Effects& out);
  void FailParked(Consumer& consumer, const ErrorPtr& error, Effects& out);
  bool IsGranted(const SegmentFailure& failure);
  void TakeFailure(Time now, const SegmentFailure& failure, Effects& out);
  void SetIdle(Time now);
  void ClearDeadlines(ConsumerId id);
  Due DueOf(DueKind kind, ConsumerId consumer = {}) const {
    return {.kind = kind, .iteration = id_, .consumer = consumer};
  }

  // iteration_lost.cc
  bool keeps_history() const {
    return spec_.mode == Mode::kRounds && spec_.on_lost != OnLost::kGoOn;
  }
  bool waits_for_lost() const {
    return spec_.mode == Mode::kRounds && (spec_.on_lost == OnLost::kWait || awaits_lost_);
  }
  Consumer* Predecessor(const OpenIteration& request);
  void AwaitLost(Effects& out);
  void Lose(Time now, Consumer& consumer, const std::string& why, bool ended, Effects& out);
  bool SetAway(Time now, Consumer& consumer, const std::string& why, bool ended, Effects& out);
  Consumer* Replace(Time now, Consumer& known, const OpenIteration& request, Effects& out);
  void TakeBack(Consumer& consumer, Effects& out);
  bool Covers(int64_t round) const;
  void ReturnHistory(int64_t round, Effects& out);
  void KeepPast(LaneState& lane, const PastGrant& grant);
  void Reopen(Effects& out);
  ReadingPlace PlaceOf(const OpenIteration& request, const Consumer* known) const;
  ErrorPtr CheckPlace(const OpenIteration& request, const Consumer* known) const;

  // iteration_lanes.cc
  bool has_pools() const;  // tasks have segments of their own
  Pool* PoolOf(TaskId task);
  bool AllGiven() const;
  void TakeAcks(const std::vector<LaneAck>& acks, Consumer& consumer, Effects& out);
  std::set<std::pair<int64_t, TaskId>> GivenByTask() const;
  void TopUpFirstCome(Effects& out);
  // Grants that count for the consumer's window.
  static int64_t Unread(const LaneState& lane, const Consumer& consumer);
  // Its program waits, and has all elements of all grants.
  static bool HasAll(const LaneState& lane, const Consumer& consumer) {
    return consumer.has_all && Unread(lane, consumer) == 0;
  }
  void TakeHeld(const ConsumerPoll& request, Consumer& consumer);
  void TellHolders();
  void ChooseWorkers();
  void SetWorker(Given& given, WorkerId worker);
  WorkerTable::Avoid AvoidFor(const Consumer& consumer, int64_t segment) const;
  WorkerId WorkerOf(const Consumer& consumer, LaneId lane, const LaneState& state, int64_t seq,
                    const Given& given) const;
  WorkerId ExactWorker(const Consumer& consumer, int64_t seq, int64_t segment);
  void AddTaskFor(const Worker& worker, Effects& out);
  void CheckFinished(Time now, Effects& out);
  void ListGrants(const Consumer& consumer, const LaneState& state, Lane& lane) const;
  Assignment AssignmentFor(Consumer& consumer);
  std::string WaitsForFiles(Time now) const;
  void FillExact(Consumer& consumer, Assignment& assignment);
  SegmentRest ExactSegment(int64_t seq) const;
  int64_t ExactSegments() const;  // how many grants the lane has in all
  int64_t Slowest() const;        // grant that a consumer still needs

  // iteration_rounds.cc
  struct Change {
    bool seats = false;
    TaskId task;
    bool operator==(const Change&) const = default;
  };
  std::optional<Change> NextChange() const;
  std::vector<const Consumer*> Required() const;  // to agree
  bool SomebodyQuiet(Time now) const;
  void Agree(Time now, Effects& out);
  void CarryOut(const Change& change, int64_t round, Effects& out);
  std::vector<ConsumerId> NewSeats() const;
  void TakeProgress(const ConsumerPoll& request, Consumer& consumer, Effects& out);
  void TakeRounds(const ConsumerPoll& request, Consumer& consumer);
  void NoteRound(Consumer& consumer, int64_t round);
  int64_t ReachableRound() const;
  void NoteUnsaid();
  int64_t GrantedUpTo(LaneId id, const LaneState& lane) const;
  void TopUpRounds(Effects& out);
  void TrimLanes(Effects& out);
  std::string AgreeingText() const;

  // iteration_records.cc
  Share PoolShare(TaskId task) const;

  Environment& env_;
  const IterationId id_;
  const IterationSpec spec_;
  const Cursor start_;

  Phase phase_ = Phase::kResolving;
  ErrorPtr error_;
  std::shared_ptr<const Shape> shape_;
  std::optional<Pool> pool_;
  std::map<ConsumerId, Consumer> consumers_;
  DepartedConsumers departed_;  // first come
  std::map<TaskId, Task> tasks_;
  std::map<LaneId, LaneState> lanes_;
  SeatingList seating_;                 // rounds
  std::set<int32_t> finished_indices_;  // exact
  ReadingPlace end_;                    // exact and rounds: as who finished said
  bool awaits_lost_ = false;            // OnLost::kAuto: rounds that wait for who is lost
  int64_t past_count_ = 0;              // of all lanes
  int64_t segments_done_ = 0;
  int64_t elements_done_ = 0;
  int64_t segments_dropped_ = 0;

  // Not recorded.
  std::map<WorkerId, TaskId>
      shares_;  // first come and exact: a task for each worker, with nothing of its own
  std::map<int64_t, WorkerId> exact_workers_;  // by grant
  int64_t exact_turn_ = 0;
  int64_t slowest_ = 0;
  std::map<int64_t, std::map<WorkerId, int32_t>> failures_;  // by segment
  bool choose_workers_ = false;
  RoundAgreement agreement_;
  std::optional<Change> change_;
  int64_t latest_round_ = -1;  // that anybody said
  // Somebody who says nothing any more may have begun them up to this one.
  int64_t unsaid_round_ = -1;
  int64_t agreed_round_ = 0;
};

}  // namespace lockstep::dispatch

// The parts of an iteration's ledger, each alone.
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/data/dispatch/departed_consumers.h"
#include "lockstep/data/dispatch/dispatch_harness.h"
#include "lockstep/data/dispatch/iteration_ledger.h"
#include "lockstep/data/dispatch/lane_table.h"
#include "lockstep/data/dispatch/seating_list.h"
#include "lockstep/data/dispatch/task_table.h"
#include "lockstep/data/dispatch/worker_choice.h"

namespace lockstep::dispatch {
namespace {

constexpr LaneId kLane(7);

// A lane with so many grants of ten elements each.
LaneTable OneLane(int64_t grants, bool keeps_past = true, int64_t past_max = 100) {
  LaneTable lanes(keeps_past, past_max);
  lanes.AddOfTask(kLane, TaskId(7), 0);
  for (int64_t seq = 0; seq < grants; ++seq) {
    EXPECT_TRUE(lanes.Push(kLane, seq, {.segment = seq, .elements = 10}).ok());
  }
  return lanes;
}

TEST(LaneTables, AGrantIsTheNextOfItsLaneOrRefused) {
  LaneTable lanes = OneLane(2);
  EXPECT_FALSE(lanes.Push(kLane, 1, {.segment = 5}).ok());
  EXPECT_FALSE(lanes.Push(kLane, 3, {.segment = 5}).ok());
  EXPECT_FALSE(lanes.Push(LaneId(8), 0, {.segment = 5}).ok());
  EXPECT_TRUE(lanes.Push(kLane, 2, {.segment = 5}).ok());
  EXPECT_EQ(lanes.Find(kLane)->next_seq(), 3);
}

TEST(LaneTables, WhatIsDoneStaysUntilAllBeforeItIsDone) {
  LaneTable lanes = OneLane(3);
  const auto acknowledge = [&](int64_t seq) {
    EXPECT_TRUE(
        lanes.Apply(record::Acknowledged{.lane = kLane, .seq = seq, .elements = 10, .done = true})
            .ok());
  };
  acknowledge(1);
  EXPECT_EQ(lanes.Find(kLane)->first_seq, 0);
  EXPECT_TRUE(lanes.Holds());
  acknowledge(0);
  EXPECT_EQ(lanes.Find(kLane)->first_seq, 2);
  EXPECT_EQ(lanes.totals().segments_done, 2);
  EXPECT_EQ(lanes.totals().elements_done, 20);
  EXPECT_FALSE(lanes.Apply(record::Acknowledged{.lane = kLane, .seq = 1, .elements = 10}).ok());
}

TEST(LaneTables, WhatWasTrimmedComesBackFromTheWantedRoundOn) {
  LaneTable lanes = OneLane(4);
  SeatingList seating;
  seating.Agree({.first_round = 0, .consumers = {ConsumerId(1), ConsumerId(2)}});
  ASSERT_TRUE(lanes.Apply(record::LaneTrimmed{.lane = kLane, .seq = 3, .first_element = 30}).ok());
  EXPECT_EQ(lanes.Find(kLane)->past.size(), 3u);
  // Round 5 begins at element 10, which is in the second grant.
  lanes.ReturnPast(5, seating, false);
  EXPECT_EQ(lanes.Find(kLane)->first_seq, 1);
  EXPECT_EQ(lanes.Find(kLane)->first_element, 10);
  EXPECT_EQ(lanes.totals().segments_done, 1);
  EXPECT_EQ(lanes.totals().elements_done, 10);
  EXPECT_TRUE(lanes.Holds());
}

TEST(LaneTables, ThePastIsBoundedAndTheOldestGoesFirst) {
  LaneTable lanes = OneLane(4, true, 2);
  ASSERT_TRUE(lanes.Apply(record::LaneTrimmed{.lane = kLane, .seq = 4, .first_element = 40}).ok());
  ASSERT_EQ(lanes.Find(kLane)->past.size(), 2u);
  EXPECT_EQ(lanes.Find(kLane)->past.front().segment, 2);
  EXPECT_TRUE(lanes.Holds());
  lanes.Clear();
  EXPECT_TRUE(lanes.Holds()) << "what is kept of no lane counts no more";
}

TEST(LaneTables, ComeBackFromTheirSnapshot) {
  LaneTable lanes = OneLane(5);
  ASSERT_TRUE(lanes.Apply(record::LaneTrimmed{.lane = kLane, .seq = 2, .first_element = 20}).ok());
  ASSERT_TRUE(lanes.Apply(record::LaneClosed{.lane = kLane}).ok());
  const auto snapshot = [](const LaneTable& table) {
    std::vector<Record> records;
    table.SnapshotLanes(IterationId(1), records);
    table.SnapshotPasts(IterationId(1), records);
    table.SnapshotTotals(IterationId(1), records);
    return records;
  };
  LaneTable restored(true, 100);
  for (const Record& any : snapshot(lanes)) {
    std::visit(
        [&](const auto& r) {
          if constexpr (requires { restored.Apply(r); }) {
            EXPECT_TRUE(restored.Apply(r).ok());
          } else {
            ADD_FAILURE() << "a record of something else";
          }
        },
        any);
  }
  EXPECT_EQ(snapshot(restored), snapshot(lanes));
}

TEST(SeatingLists, CountTurnsThroughAllSeatings) {
  SeatingList seating;
  seating.Agree({.first_round = 0, .consumers = {ConsumerId(1), ConsumerId(2)}});
  seating.Agree({.first_round = 10, .consumers = {ConsumerId(1)}});
  const TurnBase base;
  EXPECT_EQ(seating.TurnAt(base, 4), 8);
  EXPECT_EQ(seating.TurnAt(base, 13), 23);
  EXPECT_EQ(seating.RoundBehind(base, 8), 4);
  EXPECT_EQ(seating.RoundBehind(base, 23), 13);
  // A lane that began later takes no turns before.
  EXPECT_EQ(seating.TurnAt({.round = 12, .element = 0}, 13), 1);
}

TEST(SeatingLists, BehindAllTurnsThatCanBeCountedIsTheLast) {
  SeatingList seating;
  seating.Agree({.first_round = 0, .consumers = std::vector<ConsumerId>(8)});
  EXPECT_EQ(seating.TurnAt({}, kNumberMax), std::numeric_limits<int64_t>::max());
}

TEST(SeatingLists, OneThatNobodySatInIsReplaced) {
  SeatingList seating;
  seating.Agree({.first_round = 3, .consumers = {ConsumerId(1)}});
  seating.Agree({.first_round = 3, .consumers = {ConsumerId(2)}});
  EXPECT_EQ(seating.size(), 1u);
  EXPECT_FALSE(seating.IsSeated(ConsumerId(1)));
  EXPECT_TRUE(seating.IsSeated(ConsumerId(2)));
  EXPECT_TRUE(seating.Holds());
}

TEST(TaskTables, APoolThatIsRestartedForgetsWhatCameBack) {
  TaskTable tasks(IterationSpec{});
  tasks.Begin(std::make_shared<ToyShape>(10, 10, 0));
  ASSERT_TRUE(tasks.Take(TaskId(), {.segment = 0}));
  ASSERT_TRUE(tasks.Return(TaskId(), {.segment = 0, .from = 3}));
  ASSERT_TRUE(tasks.Restart(TaskId(), 5, {{.segment = 1, .from = 2}}));
  EXPECT_EQ(tasks.PoolOf(TaskId())->returned(), (std::set<SegmentRest>{{.segment = 1, .from = 2}}));
  EXPECT_EQ(tasks.PoolOf(TaskId())->next(), 5);
}

TEST(TaskTables, EachTaskHasItsSegmentsWhereTheyAreSharedOutStatically) {
  TaskTable tasks(IterationSpec{.sharding = Sharding::kStaticData, .shares = 2});
  tasks.Begin(std::make_shared<ToyShape>(4, 10, 0));
  EXPECT_EQ(tasks.shared_pool(), nullptr);
  EXPECT_FALSE(tasks.AllGiven()) << "no task is there yet";
  tasks.Add(TaskId(1), {.share = 0});
  tasks.Add(TaskId(2), {.share = 1});
  EXPECT_FALSE(tasks.Take(TaskId(2), {.segment = 0}));
  EXPECT_TRUE(tasks.Take(TaskId(2), {.segment = 1}));
  EXPECT_FALSE(tasks.Take(TaskId(3), {.segment = 0}));
  EXPECT_TRUE(tasks.Holds());
}

TEST(DepartedConsumersAlone, TheOldestOfTheNameGoesFirst) {
  DepartedConsumers departed(2);
  departed.Keep("a", {.id = ConsumerId(1), .seqs = {0}, .elements = {3}});
  departed.Keep("b", {.id = ConsumerId(2), .seqs = {0}, .elements = {4}});
  departed.Keep("b", {.id = ConsumerId(3), .seqs = {1}, .elements = {5}});
  EXPECT_TRUE(departed.Has("a"));
  ASSERT_EQ(departed.CountedOf("b").size(), 1u);
  EXPECT_EQ(departed.CountedOf("b")[0].lane, LaneId(3));
  // Nothing of its own to give up: the first name's goes.
  departed.Keep("c", {.id = ConsumerId(4), .seqs = {0}, .elements = {1}});
  EXPECT_FALSE(departed.Has("a"));
}

TEST(WorkerChoices, AWorkersLoadIsWhatItIsChosenFor) {
  WorkerTable workers;
  for (const uint64_t id : {1, 2}) workers.Add(WorkerId(id)).id = WorkerId(id);
  WorkerChoice choice(workers);
  choice.Choose(kLane, 0, WorkerId(1));
  choice.Choose(kLane, 1, WorkerId(1));
  choice.Choose(LaneId(8), 0, WorkerId(1));
  EXPECT_EQ(workers.Find(WorkerId(1))->load, 3);
  choice.Choose(kLane, 1, WorkerId(2));
  EXPECT_EQ(workers.Find(WorkerId(1))->load, 2);
  EXPECT_EQ(workers.Find(WorkerId(2))->load, 1);
  choice.ReleaseLane(kLane);
  EXPECT_EQ(workers.Find(WorkerId(1))->load, 1);
  EXPECT_EQ(workers.Find(WorkerId(2))->load, 0);
  EXPECT_EQ(choice.CountChosen(), 1);
  choice.End(false);
  EXPECT_EQ(workers.Find(WorkerId(1))->load, 0);
}

TEST(WorkerChoices, WhoFailedIsAvoidedWhileThereAreOthers) {
  WorkerTable workers;
  for (const uint64_t id : {1, 2}) workers.Add(WorkerId(id)).id = WorkerId(id);
  WorkerChoice choice(workers);
  EXPECT_EQ(choice.NoteFailure(5, WorkerId(1)), 1);
  EXPECT_EQ(choice.AvoidFor({}, 5).count(WorkerId(1)), 1u);
  EXPECT_TRUE(choice.AvoidFor({}, 6).empty());
  EXPECT_EQ(choice.NoteFailure(5, WorkerId(2)), 2);
  EXPECT_TRUE(choice.AvoidFor({}, 5).empty()) << "both failed: either may do better";
}

// As `AvoidFor` and a list of the workers that it leaves say it, grant by grant.
WorkerId ChosenOneByOne(const WorkerChoice& choice, const WorkerTable::Avoid& own, int64_t segment,
                        WorkerId worker, int64_t n) {
  const WorkerTable& workers = choice.workers();
  const WorkerTable::Avoid avoid = choice.AvoidFor(own, segment);
  if (workers.IsGood(worker, avoid)) return worker;
  std::vector<WorkerId> all, good;
  for (const auto& [id, one] : workers.all()) {
    all.push_back(id);
    if (avoid.count(id) == 0) good.push_back(id);
  }
  if (all.empty()) return WorkerId();
  if (good.empty()) good = all;
  return good[static_cast<size_t>(n) % good.size()];
}

TEST(WorkersInTurn, AreThoseThatAreChosenOneByOne) {
  for (int count = 0; count <= 5; ++count) {
    WorkerTable workers;
    for (int id = 1; id <= count; ++id) workers.Add(WorkerId(id)).id = WorkerId(id);
    WorkerChoice choice(workers);
    // Segment s failed at the workers that its bits name; 6 is a worker that has gone since.
    for (int64_t segment = 0; segment < 64; ++segment) {
      for (int id = 1; id <= 6; ++id) {
        if ((segment >> (id - 1) & 1) != 0) choice.NoteFailure(segment, WorkerId(id));
      }
    }
    for (int avoided = 0; avoided < 1 << count; ++avoided) {
      WorkerTable::Avoid own;
      for (int id = 1; id <= count; ++id) {
        if ((avoided >> (id - 1) & 1) != 0) own[WorkerId(id)] = Time::Infinite();
      }
      const WorkerTurns turns(choice, own);
      for (int64_t segment = 0; segment < 64; ++segment) {
        const WorkerId worker = turns.Nth(segment);
        EXPECT_EQ(worker, count == 0 ? WorkerId() : WorkerId(segment % count + 1));
        for (int64_t n = 0; n < 6; ++n) {
          ASSERT_EQ(turns.ForSegment(segment, worker, n),
                    ChosenOneByOne(choice, own, segment, worker, n))
              << count << " workers, avoided " << avoided << ", segment " << segment;
        }
      }
    }
  }
}

TEST(IterationLedgers, WhatDoesNotFitChangesNothing) {
  IdCounter ids(0);
  IterationLedger ledger(Options{}, ids, IterationId(1), {.name = "train"}, {});
  EXPECT_FALSE(ledger.Apply(record::TaskAdded{.task = TaskId(4)}).ok());
  EXPECT_FALSE(ledger.Apply(record::ConsumerGone{.consumer = ConsumerId(4)}).ok());
  EXPECT_FALSE(ledger.Apply(record::IterationReopened{}).ok());
  EXPECT_FALSE(ledger.Apply(record::DatasetForgotten{}).ok());
  EXPECT_EQ(ledger.phase(), Phase::kResolving);
  ASSERT_TRUE(ledger.Start(std::make_shared<ToyShape>(1, 10, 0)).ok());
  ASSERT_TRUE(ledger.Apply(record::ConsumerJoined{.consumer = ConsumerId(5), .name = "a"}).ok());
  // Of another lane: the segment stays in its pool.
  EXPECT_FALSE(ledger.Apply(record::Granted{.lane = LaneId(6), .seq = 0, .segment = 0}).ok());
  EXPECT_FALSE(ledger.Apply(record::LaneClosed{.lane = LaneId(6)}).ok());
  EXPECT_FALSE(ledger.Apply(record::LeaverKept{.name = "b", .seqs = {1, 2}, .elements = {3}}).ok());
  EXPECT_FALSE(ledger.departed().Has("b"));
  EXPECT_EQ(ledger.lanes().Find(LaneId(6)), nullptr);
  EXPECT_FALSE(ledger.tasks().AllGiven());
  EXPECT_TRUE(ledger.Apply(record::Granted{.lane = LaneId(5), .seq = 0, .segment = 0}).ok());
  EXPECT_TRUE(ledger.tasks().AllGiven());
  EXPECT_TRUE(ledger.Holds());
  EXPECT_EQ(ids.Next(), 6) << "ids that records name are used up";
}

// Else the iteration would find out when the consumer goes, and what is given back has no place.
TEST(IterationLedgers, AGrantThatIsReadBackHasAPool) {
  IdCounter ids(0);
  IterationLedger ledger(Options{}, ids, IterationId(1),
                         {.name = "train", .sharding = Sharding::kOff}, {});
  const record::GrantKept grant{.lane = LaneId(5), .task = TaskId(4), .elements = 10};
  EXPECT_FALSE(ledger.Apply(grant).ok()) << "it has not begun";
  ASSERT_TRUE(ledger.Start(std::make_shared<ToyShape>(2, 10, 0)).ok());
  ASSERT_TRUE(ledger.Apply(record::ConsumerJoined{.consumer = ConsumerId(5), .name = "a"}).ok());
  EXPECT_FALSE(ledger.Apply(grant).ok());
  ASSERT_TRUE(ledger.Apply(record::TaskAdded{.task = TaskId(4)}).ok());
  ASSERT_TRUE(ledger.Apply(record::PoolKept{.task = TaskId(4), .next = 1}).ok());
  EXPECT_TRUE(ledger.Apply(grant).ok());
  EXPECT_TRUE(ledger.Apply(record::ConsumerGone{.consumer = ConsumerId(5)}).ok());
  EXPECT_TRUE(ledger.Holds());
}

}  // namespace
}  // namespace lockstep::dispatch

// Rounds that somebody may have read, consumers that come back, and numbers that cannot be.
#include "gtest/gtest.h"
#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/dispatch/dispatch_harness.h"

namespace lockstep::dispatch {
namespace {

IterationSpec Rounds(DatasetId dataset, int32_t consumers) {
  return {.name = "train", .dataset = dataset, .mode = Mode::kRounds, .consumers = consumers};
}
IterationSpec Exact(DatasetId dataset, int32_t consumers) {
  return {.name = "train", .dataset = dataset, .mode = Mode::kExact, .consumers = consumers};
}

// Two segments of ten elements are granted, which two consumers read in rounds 0 to 9; in round 10
// they wait. Nobody has said how far it came.
TEST(UnsaidRounds, AreNotReadAgainWhenTheConsumerAndTheServiceAreGone) {
  for (const bool restarts : {false, true}) {
    Service service;
    service.PollWorker(7);
    const IterationSpec spec = Rounds(service.Register(), 2);
    const auto a = service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
    service.Get<IterationOpened>(service.Open(spec, "b", 1, 1));
    Assignment told = service.Assigned(a);
    ASSERT_EQ(told.lanes.at(0).grants.size(), 2u);
    if (restarts) service.Restart();
    for (int i = 0; i < 24; ++i) {
      service.Pass(absl::Milliseconds(500));
      service.PollWorker(7);
      told = service.Assigned(a);
    }
    ASSERT_EQ(service.Look().iterations[0].consumers.size(), 1u);
    // The only one that is left agrees to read alone, from a round on that nobody can have begun.
    ASSERT_TRUE(told.block_round);
    EXPECT_EQ(*told.block_round, 11) << restarts;
  }
}

TEST(UnsaidRounds, ALaneDoesNotGrowWithoutEndWhenOneConsumerStandsStill) {
  Service service(10'000, {.rounds_window = 5});
  service.PollWorker(7);
  const IterationSpec spec = Rounds(service.Register(), 2);
  const auto a = service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
  const auto b = service.Get<IterationOpened>(service.Open(spec, "b", 1, 1));
  const LaneId lane = service.Assigned(a).lanes.at(0).lane;
  for (int64_t seq = 1; seq < 100; ++seq) {
    service.Poll(a, {.progress = {{lane, seq, seq}}});
  }
  EXPECT_EQ(service.Look().iterations[0].granted, 5);
  // The other goes on, and so does the lane.
  service.Poll(b, {.progress = {{lane, 4, 4}}});
  EXPECT_EQ(service.Assigned(a).lanes.at(0).grants.back().seq, 6);
}

TEST(WhoComesBack, FromBeforeTheEndIsNotTakenForFinished) {
  Service service;
  service.PollWorker(7);
  const IterationSpec spec = Exact(service.Register(), 2);
  const auto a = service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
  const auto b = service.Get<IterationOpened>(service.Open(spec, "b", 1, 1));
  service.Poll(a, {.finished = true, .end = {.elements = 1000}});
  service.Send(OpenIteration{.spec = spec,
                             .consumer = "a",
                             .life = ConsumerLife(2),
                             .index = 0,
                             .from = ReadingPlace{.elements = 500}});
  EXPECT_FALSE(service.Look().iterations[0].consumers[0].finished);
  service.Poll(b, {.finished = true, .end = {.elements = 1000}});
  // One of them has not read to the end, also when all of it was restored.
  EXPECT_EQ(service.Look().iterations[0].phase, Phase::kReading);
  service.Restart(/*compacted=*/true);
  EXPECT_EQ(service.Look().iterations[0].phase, Phase::kReading);
  EXPECT_FALSE(service.Look().iterations[0].consumers[0].finished);
}

TEST(WhoComesBack, AfterAllIsOverReadsOnFromAnOlderCursor) {
  for (const bool restarts : {false, true}) {
    Service service;
    service.PollWorker(7);
    const IterationSpec spec = Exact(service.Register(), 2);
    const auto a = service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
    const auto b = service.Get<IterationOpened>(service.Open(spec, "b", 1, 1));
    service.Poll(a, {.finished = true, .end = {.elements = 1001}});
    service.Poll(b, {.finished = true, .end = {.elements = 1001}});
    ASSERT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
    if (restarts) service.Restart(/*compacted=*/true);
    const auto back = [&](const char* name, int32_t index, uint64_t life, int64_t elements) {
      return service.Get<IterationOpened>(
          service.Send(OpenIteration{.spec = spec,
                                     .consumer = name,
                                     .life = ConsumerLife(life),
                                     .index = index,
                                     .from = ReadingPlace{elements}}));
    };
    // At the end: nothing is read again.
    back("b", 1, 2, 1000);
    EXPECT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
    // The last element, which is the 1001st, is a's.
    const auto again = back("a", 0, 2, 1000);
    EXPECT_EQ(service.Look().iterations[0].phase, Phase::kReading);
    if (restarts) service.Restart();
    service.PollWorker(7);
    service.Poll(again, {.progress = {{LaneId(), 99, 99}}}, 2);
    EXPECT_EQ(service.Assigned(again, 2).lanes.at(0).grants.at(0).segment, 99);
    service.Poll(again, {.finished = true, .end = {.elements = 1001}}, 2);
    EXPECT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
  }
}

// With OnLost::kGoOn the service keeps no history.
TEST(WhoComesBack, AsksAgainAfterTheEndOfWhatIsNotKept) {
  for (const bool restarts : {false, true}) {
    Service service(10);
    service.PollWorker(7);
    IterationSpec spec = Rounds(service.Register(), 1);
    spec.on_lost = OnLost::kGoOn;
    const auto a = service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
    const LaneId lane = service.Assigned(a).lanes.at(0).lane;
    service.Poll(a, {.progress = {{lane, 10, 10}}, .round = 100});
    service.Poll(a, {.progress = {{lane, 10, 10}}, .finished = true, .end = {.round = 100}});
    ASSERT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
    if (restarts) service.Restart(/*compacted=*/true);
    service.Get<IterationOpened>(service.Send(OpenIteration{.spec = spec,
                                                            .consumer = "a",
                                                            .life = ConsumerLife(1),
                                                            .index = 0,
                                                            .from = ReadingPlace{.round = 50}}));
    EXPECT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
  }
}

TEST(WhoComesBack, TheWorkersThatWereThereGetTheirTasksAgain) {
  Service service;
  const auto tasks = [&] { return service.Get<WorkerOrders>(service.PollWorker(7)).tasks.size(); };
  service.PollWorker(7);
  const IterationSpec spec = Exact(service.Register(), 1);
  const auto a = service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
  EXPECT_EQ(tasks(), 1u);
  service.Poll(a, {.finished = true, .end = {.elements = 1000}});
  EXPECT_EQ(tasks(), 0u);
  const int64_t version = service.Get<WorkerOrders>(service.PollWorker(7)).version;
  const CallId parked =
      service.PollWorker(7, {.service = 1, .after = version, .wait = absl::Seconds(1)});
  ASSERT_FALSE(service.Answered(parked));
  service.Send(OpenIteration{.spec = spec,
                             .consumer = "a",
                             .life = ConsumerLife(2),
                             .index = 0,
                             .from = ReadingPlace{500}});
  ASSERT_EQ(service.Look().iterations[0].phase, Phase::kReading);
  // It hears of it at once.
  EXPECT_EQ(service.Get<WorkerOrders>(parked).tasks.size(), 1u);
  EXPECT_EQ(service.Look().workers[0].tasks, 1u);
}

TEST(DamagedJournals, AnIterationOfNoDatasetIsSetAsideAndForgotten) {
  Service service;
  const IterationId id(3);
  service.dispatcher().Restore(
      service.now(),
      record::IterationOpened{.iteration = id, .spec = {.name = "train", .dataset = DatasetId(9)}});
  service.dispatcher().Restore(service.now(), record::IterationStarted{.iteration = id});
  service.Feed(Restored{});
  EXPECT_EQ(service.Look().iterations.at(0).phase, Phase::kFailed);
  // Longer than the service keeps what nobody uses.
  service.Pass(absl::Hours(3));
  EXPECT_TRUE(service.Look().iterations.empty());
  EXPECT_NE(service.Register(), DatasetId(9)) << "no id is given twice";
}

TEST(NumbersFromOutside, WhatCannotBeCountedIsRefused) {
  Service service;
  service.PollWorker(7);
  const auto a =
      service.Get<IterationOpened>(service.Open(Rounds(service.Register(), 1), "a", 1, 0));
  const LaneId lane = service.Assigned(a).lanes.at(0).lane;
  for (const ConsumerPoll& poll :
       {ConsumerPoll{.progress = {{lane, -1, 0}}},
        ConsumerPoll{.progress = {{lane, 0, kNumberMax}}}, ConsumerPoll{.counts = {{lane, 0, -1}}},
        ConsumerPoll{.round = kNumberMax}, ConsumerPoll{.acks = {{lane, 0, kNumberMax, false}}}}) {
    const ErrorPtr error = service.ErrorOf(service.Poll(a, poll));
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->reason, "invalid_argument");
  }
}

TEST(NumbersFromOutside, WhatWasNotGrantedIsNotBelieved) {
  Service service(1'000'000);
  service.PollWorker(7);
  const auto a =
      service.Get<IterationOpened>(service.Open(Rounds(service.Register(), 1), "a", 1, 0));
  const LaneId lane = service.Assigned(a).lanes.at(0).lane;
  service.Poll(a, {.progress = {{lane, kNumberMax - 1, kNumberMax - 1}}, .round = kNumberMax - 1});
  EXPECT_EQ(service.Look().iterations[0].round, 20);
  EXPECT_LE(service.Assigned(a).lanes.at(0).grants.back().seq, 4);

  IterationSpec spec{.name = "other", .dataset = DatasetId(1)};
  const auto b = service.Get<IterationOpened>(service.Open(spec, "b"));
  const LaneId own(b.consumer.value());
  service.Poll(b, {.acks = {{own, 0, kNumberMax - 1, true}}});
  EXPECT_EQ(service.Look().iterations[1].elements, 10);
}

TEST(NumbersFromOutside, OneAnswerDoesNotListAWholeDataset) {
  Service service(1'000'000'000, {.exact_needs_max = 100});
  service.PollWorker(7);
  const auto a = service.Get<IterationOpened>(service.Open(Exact(service.Register(), 1), "a", 1));
  service.Poll(a, {.progress = {{LaneId(), 0, kNumberMax - 1}}});
  EXPECT_EQ(service.Assigned(a).lanes.at(0).grants.size(), 101u);
}

// Looking through all workers for each grant would take minutes here.
TEST(NumbersFromOutside, AnAnswerOfManyGrantsIsChosenAmongManyWorkers) {
  constexpr uint64_t kWorkers = 2000;
  Service service(1'000'000'000);
  for (uint64_t id = 1; id <= kWorkers; ++id) service.PollWorker(id);
  const auto a = service.Get<IterationOpened>(service.Open(Exact(service.Register(), 1), "a", 1));
  service.Poll(
      a, {.progress = {{LaneId(), 0, kNumberMax - 1}}, .unreachable = {WorkerId(2), WorkerId(3)}});
  const Assignment told = service.Assigned(a);
  const std::vector<Grant>& grants = told.lanes.at(0).grants;
  ASSERT_EQ(grants.size(), 65'537u);
  for (const Grant& grant : grants) {
    // Round and round, unless the consumer cannot reach the one whose turn it is.
    const uint64_t turn = static_cast<uint64_t>(grant.seq) % kWorkers + 1;
    if (turn == 2 || turn == 3) {
      ASSERT_TRUE(grant.worker != WorkerId(2) && grant.worker != WorkerId(3));
    } else {
      ASSERT_EQ(grant.worker, WorkerId(turn));
    }
  }
}

// Looking through all seats for each consumer would take minutes here.
TEST(NumbersFromOutside, ThousandsOfConsumersReadInRounds) {
  constexpr int32_t kConsumers = 3000;
  Service service(1'000'000'000);
  service.PollWorker(7);
  const IterationSpec spec = Rounds(service.Register(), kConsumers);
  std::vector<IterationOpened> opened;
  for (int32_t i = 0; i < kConsumers; ++i) {
    opened.push_back(
        service.Get<IterationOpened>(service.Open(spec, "c" + std::to_string(i), 1, i)));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(service.Assigned(opened[0]).seatings.at(0).consumers, kConsumers);
  }
  for (int i = 1; i <= 100; ++i) {
    service.Send(CloseConsumer{.iteration = opened.at(kConsumers - i).iteration,
                               .consumer = opened.at(kConsumers - i).consumer,
                               .life = ConsumerLife(1)});
  }
  EXPECT_EQ(service.Look().iterations.at(0).consumers.size(), kConsumers - 100u);
}

TEST(NumbersFromOutside, ACursorBehindTheEndOfTheDatasetEndsTheIteration) {
  Service service(5);
  service.PollWorker(7);
  IterationSpec spec = Exact(service.Register(), 1);
  spec.cursor = EncodeCursor({.definition = "d0", .next = 6});
  service.Open(spec, "a", 1, 0);
  ASSERT_EQ(service.Look().iterations.size(), 1u);
  ASSERT_NE(service.Look().iterations[0].error, nullptr);
  EXPECT_EQ(service.Look().iterations[0].error->reason, "cursor_mismatch");
}

TEST(WhoMakesASegment, IsReachedEvenWhenItFailedBefore) {
  Service service;
  service.PollWorker(7);
  service.PollWorker(8);
  const auto a = service.Get<IterationOpened>(service.Open(Exact(service.Register(), 1), "a", 1));
  service.Poll(a, {.failures = {{.segment = 0,
                                 .worker = WorkerId(7),
                                 .error = MakeError(absl::StatusCode::kInternal, "oops", "")}}});
  for (const uint64_t gone : {8, 7}) {
    const WorkerId other(15 - gone);
    service.Pass(absl::Seconds(6));
    service.PollWorker(7);
    service.PollWorker(8);
    service.Poll(a, {.unreachable = {WorkerId(gone)}});
    EXPECT_EQ(service.Assigned(a).lanes.at(0).grants.at(0).worker, other);
  }
}

TEST(StaticShares, AreGivenFromTheOneOfWhichFewestAreOut) {
  Service service(12, {.window = 6});
  service.PollWorker(7);
  IterationSpec spec{.name = "train",
                     .dataset = service.Register(),
                     .sharding = Sharding::kStaticData,
                     .shares = 3};
  const auto a = service.Get<IterationOpened>(service.Open(spec, "a"));
  std::map<int64_t, int> by_share;
  const Assignment told = service.Assigned(a);
  for (const Grant& grant : told.lanes.at(0).grants) ++by_share[grant.segment % 3];
  EXPECT_EQ(by_share, (std::map<int64_t, int>{{0, 2}, {1, 2}, {2, 2}}));
}

}  // namespace
}  // namespace lockstep::dispatch

// What upstream's tests ask of a dispatcher, row by row, and what it gets wrong there.
#include <set>

#include "gtest/gtest.h"
#include "lockstep/data/dispatch/dispatch_harness.h"
#include "lockstep/data/dispatch/workers_wanted.h"

namespace lockstep::dispatch {
namespace {

IterationSpec FirstCome(DatasetId dataset, const std::string& name = "train") {
  return {.name = name, .dataset = dataset};
}

IterationSpec Rounds(DatasetId dataset, int32_t consumers) {
  return {.name = "train", .dataset = dataset, .mode = Mode::kRounds, .consumers = consumers};
}

// Acknowledges all that the consumer is given, until nothing is left; the segments.
std::vector<int64_t> ReadAll(Service& service, const IterationOpened& opened) {
  std::vector<int64_t> segments;
  for (int i = 0; i < 10'000; ++i) {
    const Assignment assignment = service.Assigned(opened);
    if (assignment.phase != Phase::kReading) break;
    ConsumerPoll poll;
    for (const Lane& lane : assignment.lanes) {
      for (const Grant& grant : lane.grants) {
        poll.acks.push_back(
            {.lane = lane.lane, .seq = grant.seq, .elements = grant.elements, .done = true});
        segments.push_back(grant.segment);
      }
    }
    if (poll.acks.empty()) break;
    service.Poll(opened, poll);
  }
  return segments;
}

TEST(DispatchRows, DispatchRow001_ARegisteredDatasetIsFound) {
  Service service;
  const DatasetId id = service.Register("d0");
  EXPECT_EQ(service.Get<DatasetGiven>(service.Send(GetDataset{.dataset = id})).identity, "d0");
  EXPECT_GT(service.Register("d1").value(), id.value());
}

TEST(DispatchRows, DispatchRow002_AChosenNameIsKept) {
  Service service;
  const DatasetId id = service.Register("d0", "digits");
  EXPECT_EQ(service.Get<DatasetGiven>(service.Send(GetDataset{.name = "digits"})).dataset, id);
}

TEST(DispatchRows, DispatchRow003_TwoChosenNamesAreTwoDatasets) {
  Service service;
  EXPECT_NE(service.Register("d0", "a"), service.Register("d0", "b"));
}

TEST(DispatchRows, DispatchRow005_TheElementSpecIsGivenBack) {
  Service service;
  const CallId call = service.Send(
      RegisterDataset{.identity = "d0", .definition = "graph", .element_spec = "two leaves"});
  const DatasetId id = service.Get<DatasetRegistered>(call).dataset;
  EXPECT_EQ(service.Get<DatasetGiven>(service.Send(GetDataset{.dataset = id})).element_spec,
            "two leaves");
}

TEST(DispatchRows, DispatchRow006_AnUnknownDatasetIsNotFound) {
  Service service;
  const ErrorPtr error = service.ErrorOf(service.Send(GetDataset{.dataset = DatasetId(17)}));
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, absl::StatusCode::kNotFound);
  EXPECT_EQ(error->reason, "dataset_unknown");
}

TEST(DispatchRows, DispatchRow008_AWorkerIsFoundByItsAddress) {
  Service service;
  service.PollWorker(7);
  ASSERT_EQ(service.Look().workers.size(), 1u);
  EXPECT_EQ(service.Look().workers[0].address, "host:7");
}

TEST(DispatchRows, DispatchRow011_TheListOfWorkersGrows) {
  Service service;
  EXPECT_EQ(service.Look().workers.size(), 0u);
  service.PollWorker(7);
  EXPECT_EQ(service.Look().workers.size(), 1u);
  service.PollWorker(8);
  EXPECT_EQ(service.Look().workers.size(), 2u);
}

TEST(DispatchRows, DispatchRow014_AnIterationIsFoundByItsName) {
  Service service;
  const IterationSpec spec = FirstCome(service.Register());
  const auto first = service.Get<IterationOpened>(service.Open(spec, "a"));
  EXPECT_EQ(service.Get<IterationOpened>(service.Open(spec, "b")).iteration, first.iteration);
  EXPECT_NE(service.Get<IterationOpened>(service.Open(FirstCome(spec.dataset, "x"), "b")).iteration,
            first.iteration);
}

TEST(DispatchRows, DispatchRow015_TheNumberOfConsumersIsKept) {
  Service service;
  service.Get<IterationOpened>(service.Open(Rounds(service.Register(), 3), "a"));
  EXPECT_EQ(service.Look().iterations[0].spec.consumers, 3);
}

TEST(DispatchRows, DispatchRow017_TasksAreListedByIterationAndByWorker) {
  Service service;
  const CallId poll = service.PollWorker(7, {.wait = absl::Seconds(1)});
  service.Get<WorkerOrders>(poll);
  service.Get<IterationOpened>(service.Open(FirstCome(service.Register()), "a"));
  const auto orders = service.Get<WorkerOrders>(service.PollWorker(7));
  ASSERT_EQ(orders.tasks.size(), 1u);
  ASSERT_EQ(service.Look().iterations[0].tasks.size(), 1u);
  EXPECT_EQ(service.Look().iterations[0].tasks[0].task, orders.tasks[0].task);
}

TEST(DispatchRows, DispatchRow019_TasksOfTwoIterationsAreKeptApart) {
  Service service;
  service.PollWorker(7);
  const DatasetId dataset = service.Register();
  service.Open(FirstCome(dataset, "x"), "a");
  service.Open(FirstCome(dataset, "y"), "a");
  const auto orders = service.Get<WorkerOrders>(service.PollWorker(7));
  ASSERT_EQ(orders.tasks.size(), 2u);
  EXPECT_NE(orders.tasks[0].iteration, orders.tasks[1].iteration);
  EXPECT_NE(orders.tasks[0].task, orders.tasks[1].task);
}

TEST(DispatchRows, DispatchRow020_TwoWorkersHaveATaskEach) {
  Service service;
  service.PollWorker(7);
  service.PollWorker(8);
  service.Open(FirstCome(service.Register()), "a");
  EXPECT_EQ(service.Look().iterations[0].tasks.size(), 2u);
  EXPECT_EQ(service.Get<WorkerOrders>(service.PollWorker(8)).tasks.size(), 1u);
}

TEST(DispatchRows, DispatchRow021_AWorkerWithoutTasksHasAnEmptyList) {
  Service service;
  EXPECT_TRUE(service.Get<WorkerOrders>(service.PollWorker(7)).tasks.empty());
}

TEST(DispatchRows, DispatchRow022_AnIterationIsFinishedWhenAllIsAcknowledged) {
  Service service(3);
  service.PollWorker(7);
  const auto opened =
      service.Get<IterationOpened>(service.Open(FirstCome(service.Register()), "a"));
  EXPECT_EQ(ReadAll(service, opened), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(service.Assigned(opened).phase, Phase::kFinished);
}

TEST(DispatchRows, DispatchRow023_WithoutShardingItIsFinishedWhenAllPassesAre) {
  Service service(3);
  service.PollWorker(7);
  service.PollWorker(8);
  IterationSpec spec = FirstCome(service.Register());
  spec.sharding = Sharding::kOff;
  const auto opened = service.Get<IterationOpened>(service.Open(spec, "a"));
  EXPECT_EQ(ReadAll(service, opened).size(), 6u);
  EXPECT_EQ(service.Assigned(opened).phase, Phase::kFinished);
}

TEST(DispatchRows, DispatchRow024_ConsumersAreCounted) {
  Service service;
  const IterationSpec spec = FirstCome(service.Register());
  service.Open(spec, "a");
  service.Open(spec, "b");
  EXPECT_EQ(service.Look().iterations[0].consumers.size(), 2u);
}

TEST(DispatchRows, DispatchRow025_OneThatLeavesIsNotKnownAnyMore) {
  Service service;
  const auto opened =
      service.Get<IterationOpened>(service.Open(FirstCome(service.Register()), "a"));
  service.Send(CloseConsumer{
      .iteration = opened.iteration, .consumer = opened.consumer, .life = ConsumerLife(1)});
  EXPECT_TRUE(service.Look().iterations[0].consumers.empty());
  EXPECT_EQ(service.ErrorOf(service.Poll(opened))->reason, "unknown_consumer");
}

TEST(DispatchRows, DispatchRow038_TheSameDefinitionTwiceHasOneId) {
  Service service;
  EXPECT_EQ(service.Register("d0"), service.Register("d0"));
  EXPECT_EQ(service.Register("d0", "n"), service.Register("d0", "n"));
}

TEST(DispatchRows, DispatchRow039_TheSameNameForAnotherDefinitionIsRefused) {
  Service service;
  service.Register("d0", "n");
  const ErrorPtr error =
      service.ErrorOf(service.Send(RegisterDataset{.name = "n", .identity = "d1"}));
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error->reason, "dataset_differs");
}

TEST(DispatchRows, DispatchRow042_AllDifferencesAreNamed) {
  Service service;
  IterationSpec spec = FirstCome(service.Register());
  service.Open(spec, "a");
  spec.sharding = Sharding::kOff;
  spec.visitation = Visitation::kAtMostOnce;
  const ErrorPtr error = service.ErrorOf(service.Open(spec, "b"));
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->reason, "iteration_differs");
  EXPECT_NE(error->message.find("sharding is dynamic there and off here"), std::string::npos);
  EXPECT_NE(error->message.find("visitation is exactly_once there and at_most_once here"),
            std::string::npos);
}

TEST(DispatchRows, DispatchRow048_TheUnionOfAllWorkersIsEachSegmentOnce) {
  Service service(20);
  for (uint64_t worker = 1; worker <= 5; ++worker) service.PollWorker(worker);
  const auto opened =
      service.Get<IterationOpened>(service.Open(FirstCome(service.Register()), "a"));
  const std::vector<int64_t> segments = ReadAll(service, opened);
  EXPECT_EQ(segments.size(), 20u);
  EXPECT_EQ(std::set<int64_t>(segments.begin(), segments.end()).size(), 20u);
}

TEST(DispatchRows, DispatchRow075_WithoutReportsOfBothSidesThereIsNoEstimate) {
  WorkersWanted wanted;
  EXPECT_FALSE(wanted.Estimate());
  wanted.ReportWorker(WorkerId(1), absl::Seconds(1));
  EXPECT_FALSE(wanted.Estimate());
}

TEST(DispatchRows, DispatchRow076_EstimatesAreThoseOfUpstream) {
  const auto estimate = [](std::vector<double> workers, std::vector<double> consumers) {
    WorkersWanted wanted;
    for (size_t i = 0; i < workers.size(); ++i) {
      wanted.ReportWorker(WorkerId(i + 1), absl::Seconds(workers[i]));
    }
    for (size_t i = 0; i < consumers.size(); ++i) {
      wanted.ReportConsumer(ConsumerId(static_cast<int64_t>(i)), absl::Seconds(consumers[i]));
    }
    return wanted.Estimate();
  };
  EXPECT_EQ(estimate({0.2}, {0.025}), 8);
  EXPECT_EQ(estimate({0.2, 0.15}, {0.025, 0.05}), 11);
  EXPECT_EQ(estimate({0.1, 0.2}, {0.01, 0.02}), 20);
}

TEST(DispatchRows, DispatchRow078_TimesThatNothingCanTakeAreRefused) {
  WorkersWanted wanted;
  EXPECT_FALSE(wanted.ReportWorker(WorkerId(1), absl::ZeroDuration()));
  EXPECT_FALSE(wanted.ReportConsumer(ConsumerId(1), absl::Seconds(-1)));
}

TEST(DispatchRows, DispatchRow079_WhoIsForgottenCountsNoMore) {
  WorkersWanted wanted;
  EXPECT_FALSE(wanted.ForgetWorker(WorkerId(1)));
  wanted.ReportWorker(WorkerId(1), absl::Seconds(1));
  wanted.ReportConsumer(ConsumerId(1), absl::Seconds(1));
  EXPECT_TRUE(wanted.ForgetWorker(WorkerId(1)));
  EXPECT_FALSE(wanted.Estimate());
}

TEST(DispatchRows, DispatchRow080_WhatIsToldHasBounds) {
  EXPECT_EQ(BoundWorkersWanted(100, 10), 40);
  EXPECT_EQ(BoundWorkersWanted(10'000, 1000), 1500);
  EXPECT_EQ(BoundWorkersWanted(1'000'000, 200'000), 100'000);
}

TEST(DispatchRows, DispatchRow102_TwoReadersOfOneNameShareAll) {
  Service service(20);
  service.PollWorker(7);
  const IterationSpec spec = FirstCome(service.Register());
  const auto a = service.Get<IterationOpened>(service.Open(spec, "a"));
  const auto b = service.Get<IterationOpened>(service.Open(spec, "b"));
  std::vector<int64_t> all = ReadAll(service, a);
  for (const int64_t segment : ReadAll(service, b)) all.push_back(segment);
  EXPECT_EQ(all.size(), 20u);
}

TEST(DispatchRows, DispatchRow103_WhatIsFinishedIsEmptyForWhoComesLater) {
  Service service(3);
  service.PollWorker(7);
  IterationSpec spec = FirstCome(service.Register());
  ReadAll(service, service.Get<IterationOpened>(service.Open(spec, "a")));
  const auto late = service.Get<IterationOpened>(service.Open(spec, "b"));
  EXPECT_EQ(service.Assigned(late).phase, Phase::kFinished);
  spec.repetition = 1;
  EXPECT_EQ(ReadAll(service, service.Get<IterationOpened>(service.Open(spec, "b"))).size(), 3u);
}

TEST(DispatchRows, DispatchRow108_WhatWasCollectedIsMadeAgainUnderItsName) {
  Service service;
  service.PollWorker(7);
  const IterationSpec spec = FirstCome(service.Register());
  std::set<IterationId> ids;
  for (int i = 0; i < 3; ++i) {
    const auto opened = service.Get<IterationOpened>(service.Open(spec, "a"));
    ids.insert(opened.iteration);
    service.Pass(absl::Minutes(6));
    EXPECT_TRUE(service.Look().iterations.empty());
  }
  EXPECT_EQ(ids.size(), 3u);
}

TEST(DispatchRows, DispatchRow109_ALeaseEndsWithoutPolls) {
  Service service;
  const auto opened =
      service.Get<IterationOpened>(service.Open(FirstCome(service.Register()), "a"));
  service.Pass(absl::Seconds(9));
  EXPECT_EQ(service.Assigned(opened).phase, Phase::kReading);
  service.Pass(absl::Seconds(11));
  EXPECT_EQ(service.ErrorOf(service.Poll(opened))->reason, "unknown_consumer");
}

TEST(DispatchRows, DispatchRow112_AnotherModeUnderTheSameNameIsRefused) {
  Service service;
  const DatasetId dataset = service.Register();
  service.Open(FirstCome(dataset), "a");
  EXPECT_EQ(service.ErrorOf(service.Open(Rounds(dataset, 1), "b"))->code,
            absl::StatusCode::kInvalidArgument);
}

TEST(DispatchRows, DispatchRow122_AWorkerAddedMidwayMakesAnotherPass) {
  Service service(5);
  service.PollWorker(7);
  IterationSpec spec = FirstCome(service.Register());
  spec.sharding = Sharding::kOff;
  const auto opened = service.Get<IterationOpened>(service.Open(spec, "a"));
  service.PollWorker(8);
  EXPECT_EQ(ReadAll(service, opened).size(), 10u);
}

TEST(DispatchRows, DispatchRow125_ARestartRemembersTheMode) {
  for (const bool compacted : {false, true}) {
    Service service;
    const DatasetId dataset = service.Register();
    service.Open(FirstCome(dataset), "a");
    service.Restart(compacted);
    EXPECT_EQ(service.ErrorOf(service.Open(Rounds(dataset, 1), "b"))->reason, "iteration_differs");
  }
}

// Rounds that go on without who is lost.
IterationSpec GoesOn(DatasetId dataset, int32_t consumers) {
  IterationSpec spec = Rounds(dataset, consumers);
  spec.on_lost = OnLost::kGoOn;
  return spec;
}

TEST(DispatchRows, DispatchRow128_AConsumerCannotGoBack) {
  Service service;
  service.PollWorker(7);
  const auto opened =
      service.Get<IterationOpened>(service.Open(GoesOn(service.Register(), 1), "a", 1, 0));
  service.Poll(opened, {.round = 17});
  const CallId again = service.Send(OpenIteration{.spec = GoesOn(DatasetId(1), 1),
                                                  .consumer = "a",
                                                  .life = ConsumerLife(2),
                                                  .index = 0,
                                                  .from = ReadingPlace{.round = 3}});
  ASSERT_NE(service.ErrorOf(again), nullptr);
  EXPECT_EQ(service.ErrorOf(again)->reason, "cursor_mismatch");
  EXPECT_NE(service.ErrorOf(again)->message.find("current round has already reached 17"),
            std::string::npos);
}

// It came back behind the last element, began the round from which on it was seated, and found
// nothing there: its cursor stays where it was, and is the end.
TEST(DispatchRows, DispatchRow128_AConsumerThatWasAtTheEndComesBackToIt) {
  Service service;
  service.PollWorker(7);
  const auto opened =
      service.Get<IterationOpened>(service.Open(GoesOn(service.Register(), 2), "a", 1, 0));
  service.Get<IterationOpened>(service.Open(GoesOn(DatasetId(1), 2), "b", 5, 1));
  service.Poll(opened, {.round = 17, .finished = true, .end = {.round = 9, .turns = 1}});
  const auto back = [&](uint64_t life, int64_t round) {
    return service.Send(OpenIteration{.spec = GoesOn(DatasetId(1), 2),
                                      .consumer = "a",
                                      .life = ConsumerLife(life),
                                      .index = 0,
                                      .from = ReadingPlace{.round = round, .turns = 1}});
  };
  const CallId early = back(2, 8);
  ASSERT_NE(service.ErrorOf(early), nullptr);
  EXPECT_EQ(service.ErrorOf(early)->reason, "cursor_mismatch");
  EXPECT_NE(service.ErrorOf(early)->message.find("its end is at round 9"), std::string::npos);
  EXPECT_EQ(service.ErrorOf(back(3, 9)), nullptr);
}

// --- What upstream gets wrong ---

TEST(DispatchDefects, DispatchDefect01_ALostWorkersSegmentsAreMadeByAnother) {
  Service service(4);
  service.PollWorker(7);
  const auto opened =
      service.Get<IterationOpened>(service.Open(FirstCome(service.Register()), "a"));
  EXPECT_EQ(service.Assigned(opened).lanes[0].grants[0].worker, WorkerId(7));
  service.Feed(WorkerLinkEnded{.worker = WorkerId(7)});
  service.PollWorker(8);
  service.Pass(absl::Milliseconds(1500));
  EXPECT_EQ(service.Assigned(opened).lanes[0].grants[0].worker, WorkerId(8));
  EXPECT_EQ(ReadAll(service, opened).size(), 4u);
  EXPECT_EQ(service.Assigned(opened).phase, Phase::kFinished);
}

TEST(DispatchDefects, DispatchDefect02_IdsAreNotUsedTwice) {
  Service first(10, {.first_id = 1000}), second(10, {.first_id = 2000});
  EXPECT_NE(first.Register(), second.Register());
}

TEST(DispatchDefects, DispatchDefect04_AnotherDatasetUnderTheNameIsRefused) {
  Service service;
  service.Open(FirstCome(service.Register("d0")), "a");
  const ErrorPtr error = service.ErrorOf(service.Open(FirstCome(service.Register("d1")), "a"));
  ASSERT_NE(error, nullptr);
  EXPECT_NE(error->message.find("the dataset is d0 there and d1 here"), std::string::npos);
}

TEST(DispatchDefects, DispatchDefect05_WhatWasCollectedStaysAwayAfterARestart) {
  Service service;
  service.Open(FirstCome(service.Register()), "a");
  service.Pass(absl::Minutes(6));
  EXPECT_TRUE(service.Look().iterations.empty());
  service.Restart();
  EXPECT_TRUE(service.Look().iterations.empty());
}

TEST(DispatchDefects, DispatchDefect07_ARestartDoesNotGrowWithWhatWasServed) {
  Service service(1000);
  service.PollWorker(7);
  const auto opened =
      service.Get<IterationOpened>(service.Open(FirstCome(service.Register()), "a"));
  ReadAll(service, opened);
  EXPECT_LT(service.dispatcher().Snapshot().size(), 10u);
}

TEST(DispatchDefects, DispatchDefect13_ADeadConsumerStallsNobody) {
  Service service;
  service.PollWorker(7);
  const IterationSpec spec = Rounds(service.Register(), 2);
  const auto a = service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
  service.Get<IterationOpened>(service.Open(spec, "b", 1, 1));
  service.Poll(a, {.round = 3});
  service.Pass(absl::Seconds(2));
  // A task is to begin; nobody is made to wait for the one that says nothing.
  service.PollWorker(8);
  EXPECT_FALSE(service.Assigned(a).block_round);
  for (int i = 0; i < 10; ++i) {
    service.Pass(absl::Seconds(1));
    service.Assigned(a);
  }
  ASSERT_EQ(service.Look().iterations[0].consumers.size(), 1u);
  EXPECT_TRUE(service.Assigned(a).block_round);
}

TEST(DispatchDefects, DispatchDefect15_NothingIsLeftOfWhatIsOver) {
  Service service(3);
  service.PollWorker(7);
  ReadAll(service, service.Get<IterationOpened>(service.Open(FirstCome(service.Register()), "a")));
  service.Pass(absl::Hours(3));
  EXPECT_EQ(service.dispatcher().Snapshot().size(), 1u);
  EXPECT_TRUE(service.Look().datasets.empty());
}

TEST(DispatchDefects, DispatchDefect17_AWorkerThatComesAgainBringsWhatIsNew) {
  Service service;
  service.PollWorker(7, {.address = "host:1", .tags = {"old"}});
  service.PollWorker(8, {.address = "host:1", .tags = {"new"}});
  ASSERT_EQ(service.Look().workers.size(), 1u);
  EXPECT_EQ(service.Look().workers[0].tags, std::vector<std::string>{"new"});
}

}  // namespace
}  // namespace lockstep::dispatch

// What upstream's tests ask of a dispatcher when it is told little: who never polls, who looks, and
// what a restart leaves. Row by row.
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/data/dispatch/dispatch_harness.h"
#include "lockstep/data/dispatch/workers_wanted.h"

namespace lockstep::dispatch {
namespace {

IterationSpec FirstCome(DatasetId dataset, const std::string& name = "train") {
  return {.name = name, .dataset = dataset};
}

IterationOpened MustOpen(Service& service, const IterationSpec& spec, const std::string& consumer) {
  return service.Get<IterationOpened>(service.Open(spec, consumer));
}

// Acknowledges what the consumer holds now; how many segments those were.
size_t AcknowledgeAll(Service& service, const IterationOpened& opened) {
  ConsumerPoll poll;
  for (const Lane& lane : service.Assigned(opened).lanes) {
    for (const Grant& grant : lane.grants) {
      poll.acks.push_back(
          {.lane = lane.lane, .seq = grant.seq, .elements = grant.elements, .done = true});
    }
  }
  const size_t count = poll.acks.size();
  if (count > 0) service.Poll(opened, std::move(poll));
  return count;
}

// Upstream such a client keeps its iteration for ever: only heartbeats start its time-out. Here the
// lease begins when it opens.
TEST(DispatchLifeRows, DispatchRow052_WhoNeverPollsKeepsItsIterationForItsLeaseOnly) {
  Service service(10, {.consumer_timeout = absl::Milliseconds(10),
                       .iteration_timeout = absl::Milliseconds(100)});
  MustOpen(service, FirstCome(service.Register()), "a");
  service.Pass(absl::Milliseconds(9));
  ASSERT_EQ(service.Look().iterations.size(), 1u);
  EXPECT_EQ(service.Look().iterations[0].consumers.size(), 1u);
  service.Pass(absl::Milliseconds(50));
  EXPECT_TRUE(service.Look().iterations[0].consumers.empty());
  service.Pass(absl::Milliseconds(100));
  EXPECT_TRUE(service.Look().iterations.empty());
}

TEST(DispatchLifeRows, DispatchRow053_WithAHugeTimeoutItStays) {
  Service service(10, {.consumer_timeout = absl::Hours(10'000)});
  MustOpen(service, FirstCome(service.Register()), "a");
  service.Pass(absl::Hours(1'000));
  ASSERT_EQ(service.Look().iterations.size(), 1u);
  EXPECT_EQ(service.Look().iterations[0].consumers.size(), 1u);
}

TEST(DispatchLifeRows, DispatchRow055_TheViewShowsWhoReadsWhat) {
  Service service;
  service.PollWorker(7, {.address = "host:7070"});
  const DatasetId dataset = service.Register("d0", "mnist");
  const auto opened = MustOpen(service, FirstCome(dataset, ""), "a");
  service.Assigned(opened);
  const View view = service.Look();
  ASSERT_EQ(view.workers.size(), 1u);
  EXPECT_EQ(view.workers[0].address, "host:7070");
  ASSERT_EQ(view.datasets.size(), 1u);
  EXPECT_EQ(view.datasets[0].name, "mnist");
  EXPECT_EQ(view.datasets[0].iterations, 1u);
  ASSERT_EQ(view.iterations.size(), 1u);
  EXPECT_EQ(view.iterations[0].spec.name, opened.name);
  EXPECT_EQ(opened.name.rfind("anonymous-", 0), 0u) << opened.name;
  EXPECT_EQ(view.iterations[0].phase, Phase::kReading);
  ASSERT_EQ(view.iterations[0].consumers.size(), 1u);
  EXPECT_EQ(view.iterations[0].consumers[0].name, "a");
  EXPECT_FALSE(view.iterations[0].consumers[0].finished);
}

TEST(DispatchLifeRows, DispatchRow056_AWorkersTasksAreShownUntilTheyAreFinished) {
  Service service(1);
  const auto poll = [&] { return service.Get<WorkerOrders>(service.PollWorker(7)); };
  poll();
  const DatasetId dataset = service.Register();
  const auto opened = MustOpen(service, FirstCome(dataset), "a");
  service.Assigned(opened);
  const WorkerOrders orders = poll();
  ASSERT_EQ(orders.tasks.size(), 1u);
  EXPECT_EQ(orders.tasks[0].iteration, opened.iteration);
  EXPECT_EQ(orders.tasks[0].dataset, dataset);
  ASSERT_EQ(service.Look().iterations[0].tasks.size(), 1u);
  EXPECT_EQ(service.Look().iterations[0].tasks[0].worker, WorkerId(7));
  EXPECT_EQ(AcknowledgeAll(service, opened), 1u);
  EXPECT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
  EXPECT_TRUE(poll().tasks.empty());
  EXPECT_EQ(service.Look().workers[0].tasks, 0u);
}

// Upstream's own figures belong to its two ways of meaning; the rule is the same.
TEST(DispatchLifeRows, DispatchRow077_OneThatIsFarOffCountsAsTheOthersDo) {
  const auto estimate = [](double worker, std::vector<double> consumers, double odd_worker) {
    WorkersWanted wanted;
    for (uint64_t i = 1; i <= 4; ++i) wanted.ReportWorker(WorkerId(i), absl::Seconds(worker));
    if (odd_worker > 0) wanted.ReportWorker(WorkerId(5), absl::Seconds(odd_worker));
    for (size_t i = 0; i < consumers.size(); ++i) {
      wanted.ReportConsumer(ConsumerId(static_cast<int64_t>(i)), absl::Seconds(consumers[i]));
    }
    return wanted.Estimate();
  };
  // Five that take ten a second; a worker makes five.
  const std::vector<double> consumers(5, 0.1);
  EXPECT_EQ(estimate(0.2, consumers, 0), 10);
  // One of them says 500 ns.
  std::vector<double> with_one_off = consumers;
  with_one_off.back() = 500e-9;
  EXPECT_EQ(estimate(0.2, with_one_off, 0), 10);
  // A worker says 1 us.
  EXPECT_EQ(estimate(0.2, consumers, 1e-6), 10);
}

TEST(DispatchLifeRows, DispatchRow107_WhatIsUsedIsNotCollected) {
  for (const Mode mode : {Mode::kFirstCome, Mode::kExact, Mode::kRounds}) {
    Service service;
    service.PollWorker(7);
    IterationSpec spec = FirstCome(service.Register());
    spec.mode = mode;
    spec.consumers = mode == Mode::kFirstCome ? 0 : 1;
    const auto opened = MustOpen(service, spec, "a");
    for (int i = 0; i < 200; ++i) {
      service.Pass(absl::Seconds(5));
      service.PollWorker(7);
      EXPECT_EQ(service.Assigned(opened).phase, Phase::kReading) << ModeName(mode);
    }
    // And is, once it is not used any more.
    service.Pass(absl::Minutes(6));
    EXPECT_TRUE(service.Look().iterations.empty()) << ModeName(mode);
  }
}

TEST(DispatchLifeRows, DispatchRow119_TenDatasetsAndARestartAfterEach) {
  for (const bool compacted : {false, true}) {
    Service service;
    std::set<DatasetId> ids;
    for (int i = 0; i < 10; ++i) {
      ids.insert(service.Register("d" + std::to_string(i)));
      service.Restart(compacted);
    }
    EXPECT_EQ(ids.size(), 10u);
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(ids.contains(service.Register("d" + std::to_string(i)))) << i;
    }
    EXPECT_EQ(service.Look().datasets.size(), 10u);
  }
}

TEST(DispatchLifeRows, DispatchRow119_DatasetsOfAnyLengthOutliveARestart) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{1'000}, size_t{1} << 20, size_t{4} << 20}) {
    Service service;
    const auto id = service
                        .Get<DatasetRegistered>(service.Send(RegisterDataset{
                            .identity = "d0", .definition = std::string(bytes, 'x')}))
                        .dataset;
    service.Restart();
    service.Restart(/*compacted=*/true);
    const auto given = service.Get<DatasetGiven>(service.Send(GetDataset{.dataset = id}));
    EXPECT_EQ(given.definition.size(), bytes);
  }
}

// What a worker fails with may be its own: others try it. What is of the data is told at once.
TEST(DispatchLifeRows, ASegmentThatNobodyCanMakeFailsItsIteration) {
  const auto fail = [](Service& service, const IterationOpened& opened, const char* reason) {
    const Assignment assignment = service.Assigned(opened);
    const Lane& lane = assignment.lanes.at(0);
    const Grant& grant = lane.grants.at(0);
    service.Poll(opened,
                 {.failures = {{.lane = lane.lane,
                                .seq = grant.seq,
                                .segment = grant.segment,
                                .worker = grant.worker,
                                .error = MakeError(absl::StatusCode::kInternal, reason, "why")}}});
  };
  const auto open = [](Service& service) {
    for (uint64_t worker = 1; worker <= 3; ++worker) service.PollWorker(worker);
    return MustOpen(service, FirstCome(service.Register()), "a");
  };
  Service tried;
  const auto a = open(tried);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tried.Assigned(a).phase, Phase::kReading) << i;
    fail(tried, a, "worker_broken");
  }
  const Assignment given_up = tried.Assigned(a);
  ASSERT_EQ(given_up.phase, Phase::kFailed);
  EXPECT_EQ(given_up.error->reason, "segment_failed");
  EXPECT_NE(given_up.error->message.find("worker_broken: why"), std::string::npos);

  Service poisoned;
  const auto b = open(poisoned);
  fail(poisoned, b, "record_poisoned");
  ASSERT_EQ(poisoned.Assigned(b).phase, Phase::kFailed);
  EXPECT_EQ(poisoned.Assigned(b).error->reason, "record_poisoned");
}

// --- What upstream gets wrong ---

TEST(DispatchLifeDefects, DispatchDefect19_ConsumersDoNotAllBeginAtTheSameWorker) {
  Service service;
  for (uint64_t worker = 1; worker <= 4; ++worker) service.PollWorker(worker);
  const IterationSpec spec = FirstCome(service.Register());
  std::multiset<WorkerId> first;
  for (const char* const name : {"a", "b", "c", "d"}) {
    const auto opened = MustOpen(service, spec, name);
    const Assignment assignment = service.Assigned(opened);
    ASSERT_FALSE(assignment.lanes.empty());
    ASSERT_FALSE(assignment.lanes[0].grants.empty());
    first.insert(assignment.lanes[0].grants[0].worker);
  }
  for (const WorkerId worker : first) EXPECT_LT(first.count(worker), 4u);
  EXPECT_GE(std::set<WorkerId>(first.begin(), first.end()).size(), 2u);
}

TEST(DispatchLifeDefects, DispatchDefect22_AnIndexOutsideIsRefused) {
  Service service;
  IterationSpec spec = FirstCome(service.Register());
  spec.mode = Mode::kExact;
  spec.consumers = 2;
  for (const int32_t index : {2, 1'000'000, INT32_MAX}) {
    EXPECT_NE(service.ErrorOf(service.Open(spec, "a", 1, index)), nullptr) << index;
  }
  const auto opened = MustOpen(service, spec, "a");
  // A lane and a grant that nobody was given say nothing, and harm nothing.
  service.Poll(opened, {.progress = {{.lane = LaneId(1 << 30), .seq = INT64_MAX}},
                        .counts = {{.lane = LaneId(-1), .seq = -7, .elements = -1}}});
  EXPECT_EQ(service.Assigned(opened).phase, Phase::kReading);
}

TEST(DispatchLifeDefects, DispatchDefect24_IdsAreNotCutTo32Bits) {
  constexpr int64_t kFirst = int64_t{1} << 40;
  Service service(2, {.first_id = kFirst});
  service.PollWorker(7);
  const DatasetId dataset = service.Register();
  EXPECT_GE(dataset.value(), kFirst);
  const auto opened = MustOpen(service, FirstCome(dataset), "a");
  EXPECT_GE(opened.iteration.value(), kFirst);
  service.Assigned(opened);
  service.Restart();
  service.PollWorker(7);
  while (AcknowledgeAll(service, opened) > 0) {
  }
  EXPECT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
}

TEST(DispatchViews, WhoClosesBeginsNoRoundWhereThereAreNone) {
  for (const Mode mode : {Mode::kFirstCome, Mode::kExact}) {
    Service service(10);
    const IterationSpec spec{
        .name = "train", .dataset = service.Register(), .mode = mode, .consumers = 2};
    service.PollWorker(1);
    const IterationOpened opened = MustOpen(service, spec, "a");
    service.Send(CloseConsumer{
        .iteration = opened.iteration, .consumer = opened.consumer, .life = ConsumerLife(1)});
    ASSERT_EQ(service.Look().iterations.size(), 1u);
    EXPECT_EQ(service.Look().iterations[0].round, -1) << ModeName(mode);
  }
}

// A place within the iteration means nothing there, so that a client that brings one changes
// nothing.
TEST(DispatchLifeRows, AFinishedIterationOfFirstComeIsNotReadAgain) {
  Service service(1);
  const IterationSpec spec = FirstCome(service.Register());
  service.PollWorker(1);
  const IterationOpened opened = MustOpen(service, spec, "a");
  ASSERT_EQ(service.Assigned(opened).lanes.size(), 1u);
  service.Send(CloseConsumer{
      .iteration = opened.iteration,
      .consumer = opened.consumer,
      .life = ConsumerLife(1),
      .acks = {{.lane = LaneId(opened.consumer.value()), .seq = 0, .elements = 10, .done = true}},
      .finished = true,
      .end = {.elements = 10}});
  ASSERT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
  service.Send(OpenIteration{
      .spec = spec, .consumer = "b", .life = ConsumerLife(2), .from = ReadingPlace{}});
  EXPECT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
  service.Restart();
  EXPECT_EQ(service.Look().iterations[0].phase, Phase::kFinished);
}

}  // namespace
}  // namespace lockstep::dispatch

// What the dispatcher refuses, and what it says of it: each reason once, where it comes from.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "gtest/gtest.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/dispatch/dispatch_harness.h"

namespace lockstep::dispatch {
namespace {

IterationSpec Exact(DatasetId dataset, int32_t consumers) {
  return {.name = "train", .dataset = dataset, .mode = Mode::kExact, .consumers = consumers};
}

// The reason, and that the message names what it is about.
void ExpectRefused(const ErrorPtr& error, std::string_view reason, const std::string& names) {
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->reason, reason);
  EXPECT_NE(error->message.find(names), std::string::npos) << error->message;
}

TEST(Refusals, AWorkerOfAnotherVersion) {
  Service service;
  const ErrorPtr error = service.ErrorOf(service.PollWorker(7, {.version = 2}));
  ExpectRefused(error, "worker_version", "the worker at host:7 speaks version 2");
  EXPECT_TRUE(service.Look().workers.empty());
}

TEST(Refusals, AWorkerWhoseAddressAnotherOneHas) {
  Service service;
  service.PollWorker(7, {.address = "host:1"});
  const uint64_t life =
      service.Get<WorkerOrders>(service.PollWorker(7, {.address = "host:1"})).service;
  const int64_t version =
      service.Get<WorkerOrders>(service.PollWorker(7, {.address = "host:1"})).version;
  const CallId parked = service.PollWorker(
      7, {.address = "host:1", .service = life, .after = version, .wait = absl::Seconds(3)});
  EXPECT_FALSE(service.Answered(parked));
  service.PollWorker(8, {.address = "host:1"});
  ExpectRefused(service.ErrorOf(parked), "worker_replaced", "host:1");
  ASSERT_EQ(service.Look().workers.size(), 1u);
}

TEST(Refusals, MoreWorkersThanTheLimit) {
  Service service(100, {.workers_max = 1});
  service.PollWorker(7);
  ExpectRefused(service.ErrorOf(service.PollWorker(8)), "limit_reached", "workers_max");
}

TEST(Refusals, OneMoreThanReadsInExactOrder) {
  Service service;
  const IterationSpec spec = Exact(service.Register(), 2);
  service.Get<IterationOpened>(service.Open(spec, "a", 1));
  service.Get<IterationOpened>(service.Open(spec, "b", 2));
  ExpectRefused(service.ErrorOf(service.Open(spec, "c", 3)), "consumer_index_taken", "no place");
}

TEST(Refusals, ShardingThatDoesNotFitTheOrder) {
  Service service;
  const DatasetId dataset = service.Register();
  IterationSpec spec = Exact(dataset, 1);
  spec.sharding = Sharding::kOff;
  ExpectRefused(service.ErrorOf(service.Open(spec, "a")), "sharding_unsupported", "first_come");
  spec.sharding = Sharding::kStaticData;
  spec.shares = 2;
  ExpectRefused(service.ErrorOf(service.Open(spec, "a")), "sharding_unsupported", "exact order");
  spec.mode = Mode::kFirstCome;
  spec.sharding = Sharding::kHint;
  ExpectRefused(service.ErrorOf(service.Open(spec, "a")), "sharding_unsupported", "by hint");
  EXPECT_TRUE(service.Look().iterations.empty());
}

TEST(Refusals, FewerFilesThanShares) {
  Service service(100, {}, /*files=*/2);
  IterationSpec spec = {.name = "train",
                        .dataset = service.Register(),
                        .sharding = Sharding::kStaticFile,
                        .shares = 3};
  service.Open(spec, "a");
  ASSERT_EQ(service.Look().iterations.size(), 1u);
  ExpectRefused(service.Look().iterations[0].error, "too_few_files", "there are 2 files");
}

// Two files, of which all segments begin in the first; `calls` counts how often that is asked.
class OneFile final : public ToyShape {
 public:
  OneFile(int64_t segments, bool second_has_records, std::shared_ptr<int64_t> calls)
      : ToyShape(segments, 10, 2),
        second_has_records_(second_has_records),
        calls_(std::move(calls)) {}
  int64_t FileOf(int64_t /*segment*/) const override {
    ++*calls_;
    return 0;
  }
  bool HasRecords(int64_t file) const override { return file == 0 || second_has_records_; }

 private:
  const bool second_has_records_;
  const std::shared_ptr<int64_t> calls_;
};

// `definition` of the harness: the first dataset has all its segments in one file, others do not.
Options OfOneFile(int64_t segments, bool second_has_records, std::shared_ptr<int64_t> calls) {
  const auto make = [=](const std::string& definition, const std::string&) {
    if (definition != "graph d0") return ShapeOrError{.shape = std::make_shared<ToyShape>(9, 1, 2)};
    return ShapeOrError{.shape = std::make_shared<OneFile>(segments, second_has_records, calls)};
  };
  return {.make_shape = make, .file_skips_max = 100, .file_skips_slice_max = 10};
}

IterationSpec ByFile(const std::string& name, DatasetId dataset) {
  return {.name = name, .dataset = dataset, .sharding = Sharding::kStaticFile, .shares = 2};
}

int64_t CountGrants(const Service& service) {
  return std::count_if(service.journal().begin(), service.journal().end(),
                       [](const TimedRecord& record) {
                         return std::holds_alternative<record::Granted>(record.record);
                       });
}

TEST(Refusals, AShareWhoseFilesHoldNoRecord) {
  const auto calls = std::make_shared<int64_t>(0);
  for (const int64_t segments : {int64_t{1} << 60, kInfinite}) {
    Service service(0, OfOneFile(segments, false, calls));
    service.Open(ByFile("train", service.Register()), "a");
    ExpectRefused(service.Look().iterations.at(0).error, "too_few_files", "those of share 1 hold");
    EXPECT_EQ(*calls, 0) << "nothing is looked for";
  }
  // Of an empty dataset all is read at once.
  Service service(0, OfOneFile(0, false, calls));
  service.Open(ByFile("train", service.Register()), "a");
  EXPECT_EQ(service.Look().iterations.at(0).phase, Phase::kFinished);
  // Where the end is near, one share has all there is.
  Service near(0, OfOneFile(50, false, calls));
  near.Open(ByFile("train", near.Register()), "a");
  EXPECT_EQ(near.Look().iterations.at(0).error, nullptr);
  EXPECT_EQ(near.Look().iterations.at(0).phase, Phase::kReading);
}

TEST(Refusals, AShareOfWhichNoSegmentIsFound) {
  for (const int64_t segments : {int64_t{1} << 60, kInfinite}) {
    const auto calls = std::make_shared<int64_t>(0);
    Service service(0, OfOneFile(segments, true, calls));
    const DatasetId dataset = service.Register();
    service.Open(ByFile("train", dataset), "a");
    EXPECT_LE(*calls, 10) << "one event looks for no more";
    EXPECT_EQ(service.Look().iterations.at(0).error, nullptr);
    // A new life goes on by itself, and looks at a record of a segment once.
    for (const bool compacted : {false, true}) {
      const int64_t given = CountGrants(service);
      *calls = 0;
      service.Restart(compacted);
      EXPECT_LE(*calls, 10 + given);
    }
    const auto other = service.Get<IterationOpened>(
        service.Open(ByFile("other", service.Register("d1", "d1")), "b", 2));
    service.Pass(absl::ZeroDuration());
    ExpectRefused(service.Look().iterations.at(0).error, "limit_reached",
                  "100 steps (file_skips_max)");
    EXPECT_LE(*calls, 200);
    // That one alone.
    EXPECT_FALSE(service.Assigned(other, 2).lanes.at(0).grants.empty());
    EXPECT_EQ(service.Look().iterations.at(1).error, nullptr);
  }
}

TEST(Refusals, IterationsThatLookForSegmentsShareOneSliceOfAnEvent) {
  const auto calls = std::make_shared<int64_t>(0);
  Service service(0, OfOneFile(kInfinite, true, calls));
  const DatasetId dataset = service.Register();
  for (int i = 0; i < 50; ++i) service.Open(ByFile("train" + std::to_string(i), dataset), "a");
  const int64_t given = CountGrants(service);
  *calls = 0;
  service.Restart();
  EXPECT_LE(*calls, 10 + given);
  service.Pass(absl::ZeroDuration());
  for (const IterationRow& row : service.Look().iterations) {
    ExpectRefused(row.error, "limit_reached", "file_skips_max");
  }
}

TEST(Refusals, AnIterationThatIsNotThere) {
  Service service;
  const IterationOpened nowhere{.iteration = IterationId(99), .consumer = ConsumerId(1)};
  ExpectRefused(service.ErrorOf(service.Poll(nowhere)), "unknown_iteration", "99");
}

TEST(Refusals, AnIndexThatSomebodyHas) {
  Service service;
  const IterationSpec spec = Exact(service.Register(), 2);
  service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
  ExpectRefused(service.ErrorOf(service.Open(spec, "b", 2, 0)), "consumer_index_taken", "is a on");
}

TEST(Refusals, AHostOrMachineThatIsTooLong) {
  Service service(100, {.name_bytes_max = 20});
  OpenIteration request{.spec = Exact(service.Register(), 2),
                        .consumer = "a",
                        .life = ConsumerLife(1),
                        .host = std::string(21, 'h')};
  ExpectRefused(service.ErrorOf(service.Send(request)), "invalid_argument", "name_bytes_max");
  request.host = std::string(20, 'h');
  request.machine = std::string(21, 'm');
  ExpectRefused(service.ErrorOf(service.Send(request)), "invalid_argument", "name_bytes_max");
  request.machine = std::string(20, 'm');
  service.Get<IterationOpened>(service.Send(request));
}

TEST(Refusals, AFormerLifeOfAConsumer) {
  Service service;
  const IterationSpec spec = Exact(service.Register(), 2);
  const auto opened = service.Get<IterationOpened>(service.Open(spec, "a", 1, 0));
  service.Get<IterationOpened>(service.Open(spec, "a", 2, 0));
  ExpectRefused(service.ErrorOf(service.Poll(opened, {}, 1)), "consumer_replaced", "consumer a");
}

TEST(Refusals, AConsumerWhoseLeaseEndsWhileItsPollIsParked) {
  Service service(100, {.consumer_timeout = absl::Seconds(1)});
  service.PollWorker(7);
  const IterationSpec spec = {.name = "train", .dataset = service.Register()};
  const auto opened = service.Get<IterationOpened>(service.Open(spec, "a"));
  const Assignment now = service.Assigned(opened);
  const CallId parked = service.Poll(
      opened, {.service = now.service, .after = now.version, .wait = absl::Seconds(3)});
  EXPECT_FALSE(service.Answered(parked));
  service.Pass(absl::Seconds(2));
  ExpectRefused(service.ErrorOf(parked), "consumer_lease_ended", "consumer a");
}

TEST(Refusals, ACursorThatIsNone) {
  Service service;
  IterationSpec spec = Exact(service.Register(), 1);
  spec.cursor = "lockstep-cursor but damaged";
  ExpectRefused(service.ErrorOf(service.Open(spec, "a")), "cursor_invalid", "cursor");
}

TEST(Refusals, AReaderOfAnIterationThatWasCollected) {
  ConsumerMachine machine({.consumer = "a", .life = ConsumerLife(1)});
  const Time now = Time::FromNanoseconds(1);
  ConsumerEffects out;
  machine.Open(now, out);
  ASSERT_EQ(out.requests.size(), 1u);
  const RequestId open = out.requests[0].request;
  out = {};
  machine.Handle(now,
                 DispatcherAnswered{.request = open,
                                    .answer = IterationOpened{.iteration = IterationId(1),
                                                              .consumer = ConsumerId(2)}},
                 out);
  ASSERT_EQ(out.requests.size(), 1u);
  const RequestId poll = out.requests[0].request;
  out = {};
  machine.Next(now, AskId(1), out);
  EXPECT_TRUE(out.handed_out.empty());
  machine.Handle(now,
                 DispatcherAnswered{
                     .request = poll,
                     .answer = Assignment{.service = 1, .version = 1, .phase = Phase::kCollected}},
                 out);
  ASSERT_EQ(out.handed_out.size(), 1u);
  ExpectRefused(out.handed_out[0].error, "iteration_collected", "collected");
}

}  // namespace
}  // namespace lockstep::dispatch

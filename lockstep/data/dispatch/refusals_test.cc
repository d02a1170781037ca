// What the dispatcher refuses, and what it says of it: each reason once, where it comes from.
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

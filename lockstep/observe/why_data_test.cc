#include "lockstep/observe/why_data.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "lockstep/observe/why.h"

namespace lockstep::observe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JobStatus TwoTrainers() {
  JobStatus job = {.job = "data", .size = 2, .attempt = 1, .state = AttemptState::kRunning};
  for (int32_t i = 0; i < 2; ++i) {
    job.members.push_back(Member(i, MemberCondition::kConnected));
    job.members.back().host = "host-b";
    job.members.back().pid = 1000 + i;
  }
  return job;
}

// Both read; a third consumer is of another host.
DataStatusReply OneIteration(IterationPhase phase) {
  DataStatusReply data;
  IterationStatus& iteration = data.iterations.emplace_back();
  iteration.iteration = 1;
  iteration.spec.name = "train";
  iteration.phase = phase;
  for (int32_t i = 0; i < 2; ++i) {
    iteration.consumers.push_back(
        {.consumer = i, .name = "c" + std::to_string(i), .host = "host-b", .pid = 1000 + i});
  }
  iteration.consumers.push_back({.consumer = 2, .name = "c2", .host = "host-c", .pid = 1000});
  return data;
}

TEST(WhyData, UseA14_MembersThatWaitForAWorkerAreNotWell) {
  const JobStatus job = TwoTrainers();
  ASSERT_EQ(Diagnose(job).verdict, Verdict::kFine);
  DataStatusReply data = OneIteration(IterationPhase::kResolving);
  data.iterations[0].waits_for = "a worker that lists the dataset's files: there is none";
  const auto waits = DataWaitsOf(job, data, data);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].members, ElementsAre(0, 1));
  const Diagnosis why = Diagnose(job, {}, waits);
  EXPECT_EQ(why.verdict, Verdict::kWaiting);
  EXPECT_EQ(why.summary, "2 of 2 members wait for data");
  EXPECT_THAT(why.findings,
              ElementsAre("task/0-1 wait for data: iteration 'train' waits for a worker that lists "
                          "the dataset's files: there is none."));
  EXPECT_THAT(why.advice, Contains(HasSubstr("lockstep worker --dispatcher")));
}

TEST(WhyData, UseA14_TellsOfThoseThatWaitForTheSameThingTwice) {
  const JobStatus job = TwoTrainers();
  DataStatusReply before = OneIteration(IterationPhase::kReading);
  before.workers.push_back({.worker = 7, .host = "host-b", .pid = 7});
  before.iterations[0].consumers[0].waits_for = "segment 3 of worker 7";
  before.iterations[0].consumers[1].waits_for = "segment 4 of worker 7";
  DataStatusReply now = before;
  now.iterations[0].consumers[0].waits_for = "segment 5 of worker 7";  // it has gone on
  const auto waits = DataWaitsOf(job, now, before);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_THAT(waits[0].members, ElementsAre(1));
  EXPECT_EQ(waits[0].waits_for, "segment 4 of worker 7");
  EXPECT_EQ(Diagnose(job, {}, waits).summary, "1 of 2 members waits for data");
}

TEST(WhyData, NobodyWaitsWhenAllReadOrHaveRead) {
  const JobStatus job = TwoTrainers();
  DataStatusReply data = OneIteration(IterationPhase::kReading);
  data.workers.push_back({.worker = 7});
  EXPECT_THAT(DataWaitsOf(job, data, data), IsEmpty());
  for (ConsumerStatus& consumer : data.iterations[0].consumers) consumer.finished = true;
  data.workers.clear();
  EXPECT_THAT(DataWaitsOf(job, data, data), IsEmpty());
}

TEST(WhyData, UseA14_AnIterationThatFailedIsTrouble) {
  const JobStatus job = TwoTrainers();
  DataStatusReply data = OneIteration(IterationPhase::kFailed);
  data.iterations[0].error.emplace().message.data = "there is no file /no/such";
  const Diagnosis why = Diagnose(job, {}, DataWaitsOf(job, data, data));
  EXPECT_EQ(why.verdict, Verdict::kTrouble);
  EXPECT_THAT(why.findings, Contains(HasSubstr("there is no file /no/such")));
}

}  // namespace
}  // namespace lockstep::observe

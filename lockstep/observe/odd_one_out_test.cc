#include "lockstep/observe/odd_one_out.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"

namespace lockstep::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> OddOf(const StackSnapshot& snapshot) {
  std::vector<int32_t> members;
  for (const ProcessLocation* odd : FindOddOnes(snapshot).odd) members.push_back(odd->member);
  return members;
}

StackSnapshot LookAt(std::vector<ProcessLocation> processes) {
  return {.processes = std::move(processes)};
}

TEST(OddOneOut, WhoIsNotWhereTheOthersWaitIsOdd) {
  const StackSnapshot snapshot = LookAt({InAllReduce(0), InAllReduce(1), Loads(2), InAllReduce(3)});
  EXPECT_THAT(OddOf(snapshot), ElementsAre(2));
  EXPECT_EQ(FindOddOnes(snapshot).others, "3 of 4 wait in all_reduce, train.py:88");
  EXPECT_EQ(FindOddOnes(snapshot).since_us, 41 * kSecond);
}

TEST(OddOneOut, OfTwoTheOneThatRunsIsOdd) {
  const StackSnapshot snapshot = LookAt({Loads(0), InAllReduce(1)});
  EXPECT_THAT(OddOf(snapshot), ElementsAre(0));
  EXPECT_EQ(FindOddOnes(snapshot).others, "1 of 2 waits in all_reduce, train.py:88");
}

TEST(OddOneOut, WhoRunsBeatsWhoWaitsElsewhere) {
  ProcessLocation asleep = Loads(3);
  asleep.doing = ProcessLocation::Doing::kWaits;
  EXPECT_THAT(OddOf(LookAt({InAllReduce(0), InAllReduce(1), Loads(2), asleep})), ElementsAre(2));
  EXPECT_THAT(OddOf(LookAt({InAllReduce(0), InAllReduce(1), InAllReduce(2), asleep})),
              ElementsAre(3));
}

TEST(OddOneOut, OfThoseInCollectivesWhoIsInAnotherIsOdd) {
  EXPECT_THAT(OddOf(LookAt({InAllReduce(0), InBarrier(1), InAllReduce(2), InAllReduce(3)})),
              ElementsAre(1));
  // Nothing tells which half is right.
  EXPECT_THAT(OddOf(LookAt({InAllReduce(0), InBarrier(1), InAllReduce(2), InBarrier(3)})),
              IsEmpty());
  EXPECT_THAT(OddOf(LookAt({InAllReduce(0), InBarrier(1)})), IsEmpty());
}

TEST(OddOneOut, WhereStacksDoNotTellWhatIsWaitedForTheMajorityDecides) {
  std::vector<ProcessLocation> processes;
  for (int32_t i = 0; i < 4; ++i) {
    processes.push_back(InAllReduce(i));
    processes.back().for_others = false;
  }
  EXPECT_THAT(OddOf(LookAt(processes)), IsEmpty());
  processes[2] = Loads(2);
  EXPECT_THAT(OddOf(LookAt(processes)), ElementsAre(2));
  processes[1] = Loads(1);
  EXPECT_THAT(OddOf(LookAt(processes)), IsEmpty());
}

TEST(OddOneOut, ATrainingThatGoesOnHasNone) {
  // All load, but one is quicker.
  EXPECT_THAT(OddOf(LookAt({Loads(0), Loads(1), Loads(2), InAllReduce(3)})), IsEmpty());
  // Those who wait have run a moment ago.
  StackSnapshot snapshot = LookAt({InAllReduce(0), InAllReduce(1), Loads(2), InAllReduce(3)});
  snapshot.processes[0].still_us = kSecond / 100;
  EXPECT_THAT(OddOf(snapshot), IsEmpty());
  EXPECT_THAT(OddOf(LookAt({})), IsEmpty());
  EXPECT_THAT(OddOf(LookAt({Loads(0)})), IsEmpty());
}

TEST(OddOneOut, WhoHasEndedIsNotCounted) {
  ProcessLocation ended = Loads(3);
  ended.doing = ProcessLocation::Doing::kEnded;
  const StackSnapshot snapshot = LookAt({InAllReduce(0), InAllReduce(1), Loads(2), ended});
  EXPECT_THAT(OddOf(snapshot), ElementsAre(2));
  EXPECT_EQ(FindOddOnes(snapshot).others, "2 of 3 wait in all_reduce, train.py:88");
}

}  // namespace
}  // namespace lockstep::observe

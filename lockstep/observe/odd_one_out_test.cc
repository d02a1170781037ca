#include "lockstep/observe/odd_one_out.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"

namespace lockstep::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> OddOf(const Look& look) {
  std::vector<int32_t> members;
  for (const Whereabouts* odd : FindOddOnes(look).odd) members.push_back(odd->member);
  return members;
}

Look LookAt(std::vector<Whereabouts> processes) { return {.processes = std::move(processes)}; }

TEST(OddOneOut, WhoIsNotWhereTheOthersWaitIsOdd) {
  const Look look = LookAt({InAllReduce(0), InAllReduce(1), Loads(2), InAllReduce(3)});
  EXPECT_THAT(OddOf(look), ElementsAre(2));
  EXPECT_EQ(FindOddOnes(look).others, "3 of 4 wait in all_reduce, train.py:88");
  EXPECT_EQ(FindOddOnes(look).since_us, 41 * kSecond);
}

TEST(OddOneOut, OfTwoTheOneThatRunsIsOdd) {
  const Look look = LookAt({Loads(0), InAllReduce(1)});
  EXPECT_THAT(OddOf(look), ElementsAre(0));
  EXPECT_EQ(FindOddOnes(look).others, "1 of 2 waits in all_reduce, train.py:88");
}

TEST(OddOneOut, WhoRunsBeatsWhoWaitsElsewhere) {
  Whereabouts asleep = Loads(3);
  asleep.doing = Whereabouts::Doing::kWaits;
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
  std::vector<Whereabouts> processes;
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
  Look look = LookAt({InAllReduce(0), InAllReduce(1), Loads(2), InAllReduce(3)});
  look.processes[0].still_us = kSecond / 100;
  EXPECT_THAT(OddOf(look), IsEmpty());
  EXPECT_THAT(OddOf(LookAt({})), IsEmpty());
  EXPECT_THAT(OddOf(LookAt({Loads(0)})), IsEmpty());
}

TEST(OddOneOut, WhoHasEndedIsNotCounted) {
  Whereabouts ended = Loads(3);
  ended.doing = Whereabouts::Doing::kEnded;
  const Look look = LookAt({InAllReduce(0), InAllReduce(1), Loads(2), ended});
  EXPECT_THAT(OddOf(look), ElementsAre(2));
  EXPECT_EQ(FindOddOnes(look).others, "2 of 3 wait in all_reduce, train.py:88");
}

}  // namespace
}  // namespace lockstep::observe

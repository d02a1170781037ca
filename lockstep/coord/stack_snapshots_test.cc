#include "lockstep/coord/stack_snapshots.h"

#include "gtest/gtest.h"

namespace lockstep::coord {
namespace {

class StackSnapshotsTest : public testing::Test {
 protected:
  Time At(int64_t seconds) const { return Time::FromNanoseconds(1) + absl::Seconds(seconds); }
  StackSnapshot Look(const std::string& id, int64_t seconds) const {
    return {.id = id, .because = id, .at = At(seconds), .awaited = {}};
  }
  std::string LastAt(int64_t seconds) const {
    const StackSnapshot* last = looks_.Last(At(seconds));
    return last == nullptr ? "none" : last->id;
  }

  StackSnapshots looks_{{.interval = absl::Seconds(30), .kept = absl::Seconds(100)}};
};

TEST_F(StackSnapshotsTest, OfSeveralTimeOutsTheFirstIsLookedAt) {
  EXPECT_TRUE(looks_.Wants(At(0)));
  looks_.Asks(Look("a", 0));
  EXPECT_FALSE(looks_.Wants(At(29)));
  EXPECT_TRUE(looks_.Wants(At(30)));
}

TEST_F(StackSnapshotsTest, ALookIsOfInterestAsLongAsItsAnswersLive) {
  EXPECT_EQ(LastAt(0), "none");
  looks_.Asks(Look("a", 0));
  EXPECT_EQ(LastAt(100), "a");
  EXPECT_EQ(LastAt(101), "none");
}

TEST_F(StackSnapshotsTest, ALauncherDoesNotCoverWhatWasSeenAtATimeOut) {
  looks_.Asked(Look("launcher", 0));
  EXPECT_EQ(LastAt(1), "launcher");
  EXPECT_TRUE(looks_.Wants(At(1))) << "a time-out tells more";
  looks_.Asks(Look("timeout", 1));
  looks_.Asked(Look("launcher-2", 30));
  EXPECT_EQ(LastAt(30), "timeout");
  looks_.Asked(Look("launcher-3", 31));
  EXPECT_EQ(LastAt(31), "launcher-3");
}

TEST_F(StackSnapshotsTest, OurOwnQuestionThatComesBackIsNoOther) {
  StackSnapshot ours = Look("a", 0);
  ours.awaited = {3};
  looks_.Asks(ours);
  looks_.Asked(Look("a", 40));
  ASSERT_NE(looks_.Last(At(40)), nullptr);
  EXPECT_EQ(looks_.Last(At(40))->at, At(0));
  EXPECT_EQ(looks_.Last(At(40))->awaited.size(), 1U);
}

TEST_F(StackSnapshotsTest, WhatWasSeenBeforeAProcessWasStartedIsOfNoInterest) {
  looks_.Asks(Look("a", 0));
  looks_.ProcessStarted();
  EXPECT_EQ(LastAt(1), "none");
  EXPECT_TRUE(looks_.Wants(At(1))) << "of those who run now nothing has been seen";
  looks_.Asks(Look("b", 1));
  EXPECT_EQ(LastAt(1), "b");
}

}  // namespace
}  // namespace lockstep::coord

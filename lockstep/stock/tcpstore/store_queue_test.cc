// The queues of a store.
#include "gmock/gmock.h"
#include "lockstep/stock/tcpstore/store_harness.h"

namespace lockstep::tcpstore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using StoreQueueTest = StoreHarness;

TEST_F(StoreQueueTest, GivesTheOldestAndSaysHowLongItWas) {
  EXPECT_THAT(Do(1, QueuePush{"/q", "a"}), IsEmpty());
  EXPECT_THAT(Do(1, QueuePush{"/q", "b"}), IsEmpty());
  EXPECT_THAT(Do(2, QueueLength{"/q"}), ElementsAre("2: 2"));
  EXPECT_THAT(Do(2, QueuePop{"/q"}), ElementsAre("2: 2 a"));
  EXPECT_THAT(Do(2, QueuePop{"/q"}), ElementsAre("2: 1 b"));
  EXPECT_THAT(Do(2, QueuePop{"/q"}), ElementsAre("2: 0 -"));
  EXPECT_THAT(Do(2, QueueLength{"/q"}), ElementsAre("2: 0"));
}

TEST_F(StoreQueueTest, LiesBesideTheValueOfItsKey) {
  Do(1, QueuePush{"/q", "queued"});
  EXPECT_THAT(Do(1, Get{"/q"}), ElementsAre("1: -"));
  EXPECT_THAT(Do(1, Check{{"/q"}}), ElementsAre("1: ready"));
  EXPECT_THAT(Do(1, DeleteKey{"/q"}), ElementsAre("1: 0"));
  EXPECT_THAT(Do(1, Add{"/q", 2}), ElementsAre("1: 2"));
  EXPECT_THAT(Do(1, QueuePop{"/q"}), ElementsAre("1: 1 queued"));
  EXPECT_THAT(Do(1, Get{"/q"}), ElementsAre("1: 2"));
}

TEST_F(StoreQueueTest, APushWakesOneInTheOrderOfTheirWaits) {
  Do(1, Wait{{"/q"}});
  Do(2, Wait{{"/q"}});
  EXPECT_THAT(Do(3, QueuePush{"/q", "a"}), ElementsAre("1: ready"));
  EXPECT_THAT(Do(3, QueuePush{"/q", "b"}), ElementsAre("2: ready"));
  EXPECT_THAT(Do(1, QueuePop{"/q"}), ElementsAre("1: 2 a"));
  EXPECT_THAT(Do(2, QueuePop{"/q"}), ElementsAre("2: 1 b"));
}

TEST_F(StoreQueueTest, ASetWakesAll) {
  Do(1, Wait{{"/q"}});
  Do(2, Wait{{"/q"}});
  EXPECT_THAT(Do(3, Set{"/q", "a"}), ElementsAre("1: ready", "2: ready"));
}

TEST_F(StoreQueueTest, WaitsForQueueAndKeyTogether) {
  Do(1, Wait{{"/q", "/k"}});
  Do(2, Wait{{"/q"}});
  EXPECT_THAT(Do(3, QueuePush{"/q", "a"}), ElementsAre("2: ready"))
      << "the first of them still misses the key";
  EXPECT_THAT(Do(3, Set{"/k", "1"}), ElementsAre("1: ready"));
}

// Torch's server forgets the value for them: it stays, and nobody is told.
TEST_F(StoreQueueTest, WhoIsWokenAndLeavesPassesItOn) {
  Do(1, Wait{{"/q"}});
  Do(2, Wait{{"/q"}});
  EXPECT_THAT(Do(3, QueuePush{"/q", "a"}), ElementsAre("1: ready"));
  EXPECT_THAT(Leave(1), ElementsAre("2: ready"));
  EXPECT_THAT(Do(2, QueuePop{"/q"}), ElementsAre("2: 1 a"));
}

TEST_F(StoreQueueTest, WhoIsWokenAndDoesSomethingElsePassesItOn) {
  Do(1, Wait{{"/q"}});
  Do(2, Wait{{"/q"}});
  EXPECT_THAT(Do(3, QueuePush{"/q", "a"}), ElementsAre("1: ready"));
  EXPECT_THAT(Do(1, CancelWait{}), ElementsAre("2: ready", "1: cancelled")) << "it had timed out";
}

TEST_F(StoreQueueTest, WhoWaitedForTwoAndLeavesPassesBothOn) {
  Do(1, Wait{{"/q"}});
  Do(1, Wait{{"/r"}});
  Do(2, Wait{{"/q"}});
  Do(3, Wait{{"/r"}});
  EXPECT_THAT(Do(4, QueuePush{"/q", "a"}), ElementsAre("1: ready"));
  EXPECT_THAT(Do(4, QueuePush{"/r", "b"}), ElementsAre("1: ready"));
  EXPECT_THAT(Leave(1), ElementsAre("2: ready", "3: ready"));
}

TEST_F(StoreQueueTest, NothingIsPassedOnOnceItWasTaken) {
  Do(1, Wait{{"/q"}});
  Do(2, Wait{{"/q"}});
  Do(3, QueuePush{"/q", "a"});
  EXPECT_THAT(Do(1, QueuePop{"/q"}), ElementsAre("1: 1 a"));
  EXPECT_THAT(Leave(1), IsEmpty());
}

}  // namespace
}  // namespace lockstep::tcpstore

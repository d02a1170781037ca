#include "lockstep/rendezvous/step_outbox.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

constexpr MemberIndex kPeer{1};
constexpr KeyView kKey{kPeer, "x"};

HeldValue Sent(uint64_t order) { return {.order = order}; }

TEST(StepOutbox, GivesTheValuesOfAKeyOutInTheOrderOfSending) {
  StepOutbox outbox;
  outbox.Hold(kKey, Sent(1));
  outbox.Hold(kKey, Sent(2));
  EXPECT_EQ(outbox.TakeFront(kKey)->order, 1);
  EXPECT_EQ(outbox.TakeFront(kKey)->order, 2);
  EXPECT_FALSE(outbox.TakeFront(kKey).has_value());
  EXPECT_EQ(outbox.held(), 0);
}

TEST(StepOutbox, TakesWhatIsHeldForOneMemberAcrossKeysByOrderOfSending) {
  StepOutbox outbox;
  outbox.Hold({kPeer, "a"}, Sent(3));
  outbox.Hold({kPeer, "b"}, Sent(1));
  outbox.Hold({MemberIndex(2), "a"}, Sent(2));
  const auto taken = outbox.TakeHeld(kPeer);
  ASSERT_EQ(taken.size(), 2);
  EXPECT_EQ(taken[0].second.order, 1);
  EXPECT_EQ(taken[1].second.order, 3);
  EXPECT_EQ(outbox.held(), 1);
}

TEST(StepOutbox, CountsAWantOnce) {
  StepOutbox outbox;
  EXPECT_EQ(outbox.AddWants(kKey, WantId(4), 2, Time()), 2);
  EXPECT_EQ(outbox.AddWants(kKey, WantId(5), 2, Time()), 1);
  EXPECT_TRUE(outbox.ForgetWant(kKey, WantId(5)));
  EXPECT_FALSE(outbox.ForgetWant(kKey, WantId(5)));
  EXPECT_EQ(outbox.TakeWant(kKey), WantId(4));
  EXPECT_EQ(outbox.ForgetWantsOf(kPeer), 1);
  EXPECT_FALSE(outbox.TakeWant(kKey).has_value());
}

TEST(StepOutbox, TakesAllWantsInTheOrderOfTheirKeys) {
  StepOutbox outbox;
  outbox.AddWants({kPeer, "b"}, WantId(1), 1, Time());
  outbox.AddWants({kPeer, "a"}, WantId(2), 3, Time());
  const auto taken = outbox.TakeWants();
  ASSERT_EQ(taken.size(), 2);
  EXPECT_EQ(taken[0].key.name, "a");
  EXPECT_EQ(taken[0].first, WantId(2));
  EXPECT_EQ(taken[0].last, WantId(4));
  EXPECT_EQ(taken[0].count, 3);
}

}  // namespace
}  // namespace lockstep::rendezvous

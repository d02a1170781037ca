// What becomes of others' values, and of ours with them, when they go and come back.
#include "gtest/gtest.h"
#include "lockstep/testing/rendezvous_harness.h"

namespace lockstep::rendezvous {
namespace {

using lockstep::testing::Numbered;
using lockstep::testing::RendezvousHarness;

TEST(RendezvousPeers, AViewOfAFormerIncarnationEndsNoLeaseOfTheNext) {
  RendezvousHarness h;
  h.Send(0, 1, "x", Numbered(1, 1 << 20));
  h.DeliverAll();
  const OpId view = h.Receive(1, 0, "x");
  ASSERT_EQ(h.Got(view), 1);

  h.LoseAndRestart(0);
  h.Open(0);
  h.Send(0, 1, "x", Numbered(2, 1 << 20));
  h.DeliverAll();
  h.Release(1, view);
  h.DeliverAll();
  EXPECT_EQ(h[0].held_values(), 1);
}

TEST(RendezvousPeers, AFetchFromAFormerIncarnationIsNotTriedAgain) {
  RendezvousHarness h;
  h.fetches = true;
  h.Send(0, 1, "x", Numbered(1, 1 << 20));
  h.DeliverAll();
  const OpId first = h.Receive(1, 0, "x");
  h.LoseAndRestart(0);
  h.Fetched(1, first, false);
  EXPECT_EQ(h.Why(first), "peer_lost");

  h.Open(0);
  const OpId next = h.Receive(1, 0, "x");
  EXPECT_FALSE(h.fetching_.contains(next));
  h.Send(0, 1, "x", Numbered(2));
  h.DeliverAll();
  EXPECT_EQ(h.Got(next), 2);
}

TEST(RendezvousPeers, TheNextIncarnationReceivesInAStepThatTheFormerClosed) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "x");
  h.Run();
  h.Close(1);
  h.DeliverAll();
  EXPECT_EQ(h.Why(op), "step_closed");

  h.LoseAndRestart(1);
  h.Open(1);
  h.Send(0, 1, "x", Numbered(1));
  h.DeliverAll();
  EXPECT_EQ(h.Got(h.Receive(1, 0, "x")), 1);
}

TEST(RendezvousPeers, AReceiveThatIsRefusedLeavesThoseInFrontOfItAlone) {
  RendezvousHarness h(2, {.peer_wants_max = 1});
  const OpId first = h.Receive(1, 0, "x");
  h.Run();
  const OpId second = h.Receive(1, 0, "x");
  h.Run();
  EXPECT_EQ(h.Why(second), "too_many_waits");
  EXPECT_FALSE(h.done(first));
  EXPECT_EQ(h.Wanted(0), 1);
  h.Send(0, 1, "x", Numbered(1));
  h.DeliverAll();
  EXPECT_EQ(h.Got(first), 1);
  EXPECT_EQ(h.Wanted(0), 0);
}

// A value that was not wanted is on its way while its receiver begins to want it. The receive takes
// that value, and its want has brought the next one by the time it is taken back.
TEST(RendezvousPeers, AWantThatIsTakenBackTooLateLeavesNoneBehind) {
  RendezvousHarness h;
  const OpId first = h.Receive(1, 0, "x");
  h.Send(0, 1, "x", Numbered(1));
  h.Advance(absl::Milliseconds(1));
  h.DeliverOne(1, 0);  // the want of the first
  EXPECT_EQ(h.Wanted(0), 1);
  h.Send(0, 1, "x", Numbered(2));
  EXPECT_EQ(h.Wanted(0), 0);
  h.DeliverOne(0, 1);
  EXPECT_EQ(h.Got(first), 1);
  EXPECT_EQ(h.Count<Unwant>(1, 0), 1);
  const OpId second = h.Receive(1, 0, "x");
  h.Advance(absl::Milliseconds(1));
  EXPECT_EQ(h.Count<Want>(1, 0), 1) << "its value has not come yet";
  h.DeliverAll();
  EXPECT_EQ(h.Got(second), 2);
  EXPECT_EQ(h.Wanted(0), 0);

  const OpId third = h.Receive(1, 0, "x");
  h.Run();
  EXPECT_EQ(h.Wanted(0), 1);
  h.Send(0, 1, "x", Numbered(3));
  h.DeliverAll();
  EXPECT_EQ(h.Got(third), 3);
}

// The same, with a receive behind it: the want that is taken back is not the one that stands for
// that.
TEST(RendezvousPeers, AValueThatWasNotWantedLeavesTheWantOfTheNextReceive) {
  RendezvousHarness h;
  const OpId first = h.Receive(1, 0, "x");
  const OpId second = h.Receive(1, 0, "x");
  h.Send(0, 1, "x", Numbered(1));
  h.Run();
  EXPECT_EQ(h.Got(first), 1);
  EXPECT_FALSE(h.done(second));
  EXPECT_EQ(h.Wanted(0), 1);
  h.Send(0, 1, "x", Numbered(2));
  h.DeliverAll();
  EXPECT_EQ(h.Got(second), 2);
  EXPECT_EQ(h.Wanted(0), 0);
}

TEST(RendezvousPeers, ARefusalThatCrossesACancelFailsNobodyElse) {
  RendezvousHarness h(2, {.peer_wants_max = 1});
  const OpId first = h.Receive(1, 0, "x");
  h.Run();
  const OpId second = h.Receive(1, 0, "x");
  h.Advance(absl::Milliseconds(1));
  h.DeliverOne(1, 0);  // the want of the second, which is refused
  h.Cancel(1, second);
  h.DeliverAll();
  EXPECT_EQ(h.Why(second), "cancelled");
  EXPECT_FALSE(h.done(first));
  EXPECT_EQ(h.Wanted(0), 1);
}

TEST(RendezvousPeers, AValueWhoseBytesDidNotComeTakesTheWantOfTheNextBack) {
  RendezvousHarness h;
  h.fetches = true;
  h.Send(0, 1, "x", Numbered(1, 1 << 20));
  h.DeliverAll();
  const OpId broken = h.Receive(1, 0, "x");
  const OpId next = h.Receive(1, 0, "x");
  h.Run();
  EXPECT_EQ(h.Wanted(0), 1);
  h.Fetched(1, broken, /*well=*/false);
  EXPECT_TRUE(h.fetching_.contains(next));
  h.DeliverAll();
  EXPECT_EQ(h.Wanted(0), 0);
}

TEST(RendezvousPeers, NobodyEndsALeaseOfAnother) {
  RendezvousHarness h(3);
  h.fetches = true;
  h.Send(0, 1, "x", Numbered(1, 1 << 20));
  h.DeliverAll();
  const OpId op = h.Receive(1, 0, "x");
  const LeaseId lease = h.fetching_.at(op).lease;
  Effects out;
  h[0].Take(h.now(), RendezvousHarness::Of(2), Released{lease}, out);
  h[0].Take(h.now(), RendezvousHarness::Of(2), Taken{lease}, out);
  EXPECT_EQ(h[0].held_values(), 1);
  ASSERT_NE(h[0].Lent(RendezvousHarness::Of(1), lease), nullptr);
  EXPECT_EQ(h[0].Lent(RendezvousHarness::Of(2), lease), nullptr);
}

TEST(RendezvousPeers, AStepThatOutlivesTheMarkOfClosedOnesStaysOpen) {
  RendezvousHarness h(2, {.closed_steps_max = 2});
  for (int64_t step = 10; step < 20; ++step) {
    h.Open(0, StepId(step));
    h.Close(0, StepId(step));
  }
  EXPECT_EQ(h.Open(0), nullptr);
  EXPECT_EQ(h.Send(0, 1, "x", Numbered(1)), nullptr);
}

TEST(RendezvousPeers, WhatWasReceivedIsCreditForMore) {
  RendezvousHarness h(2, {.unasked_values_max = 2});
  for (uint64_t i = 1; i <= 4; ++i) h.Send(0, 1, "x", Numbered(i));
  EXPECT_EQ(h.Count<Offer>(0, 1), 2);
  h.DeliverAll();
  EXPECT_EQ(h.Got(h.Receive(1, 0, "x")), 1);
  EXPECT_EQ(h.Count<Credit>(1, 0), 1);
  h.DeliverAll();
  EXPECT_EQ(h[0].GetView(h.now(), 1).peers[0].held, 1);
}

TEST(RendezvousPeers, ValuesOfAFormerIncarnationAreNoCreditForTheNext) {
  RendezvousHarness h(2, {.unasked_values_max = 2});
  h.Send(0, 1, "x", Numbered(1));
  h.DeliverAll();
  h.LoseAndRestart(0);
  EXPECT_EQ(h.Got(h.Receive(1, 0, "x")), 1);
  EXPECT_EQ(h.Count<Credit>(1, 0), 0);
}

TEST(RendezvousPeers, CreditForTwoLetsTwoGo) {
  RendezvousHarness h(2, {.unasked_values_max = 32});
  for (uint64_t i = 1; i <= 36; ++i) h.Send(0, 1, "x", Numbered(i));
  h.DeliverAll();
  for (uint64_t i = 1; i <= 2; ++i) EXPECT_EQ(h.Got(h.Receive(1, 0, "x")), i);
  h.DeliverAll();
  EXPECT_EQ(h[0].GetView(h.now(), 1).peers[0].held, 2);
}

TEST(RendezvousPeers, BehindAValueThatIsLostWithItsSenderNothingIsReceived) {
  RendezvousHarness h;
  h.fetches = true;
  h.Send(0, 1, "x", Numbered(1));
  h.Send(0, 1, "x", Numbered(2, 1 << 20));
  h.Send(0, 1, "x", Numbered(3));
  h.Send(0, 1, "y", Numbered(4));
  h.DeliverAll();
  h.Lose(1, 0);
  EXPECT_EQ(h.Got(h.Receive(1, 0, "x")), 1);
  EXPECT_EQ(h.Why(h.Receive(1, 0, "x")), "peer_lost");
  EXPECT_EQ(h.Why(h.Receive(1, 0, "x")), "peer_lost");
  EXPECT_EQ(h.Got(h.Receive(1, 0, "y")), 4);
}

TEST(RendezvousPeers, BehindAValueThatWasBeingFetchedFromALostSenderNothingIsReceived) {
  RendezvousHarness h;
  h.fetches = true;
  h.Send(0, 1, "x", Numbered(1, 1 << 20));
  h.Send(0, 1, "x", Numbered(2));
  h.DeliverAll();
  const OpId fetching = h.Receive(1, 0, "x");
  h.Lose(1, 0);
  h.Fetched(1, fetching, false);
  EXPECT_EQ(h.Why(fetching), "peer_lost");
  EXPECT_EQ(h.Why(h.Receive(1, 0, "x")), "peer_lost");
}

TEST(RendezvousPeers, AReceiveFromALostMemberFails) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "x");
  h.Lose(1, 0);
  EXPECT_EQ(h.Why(op), "peer_lost");
  EXPECT_EQ(h.Why(h.Receive(1, 0, "x")), "peer_lost");
}

TEST(RendezvousPeers, WhoeverTookPartHearsThatAStepIsClosed) {
  RendezvousHarness h;
  h.Send(0, 1, "x", Numbered(1));
  h.DeliverAll();
  h.Close(1);
  EXPECT_EQ(h.Count<StepClosed>(1, 0), 1);
}

TEST(RendezvousPeers, SendsWithoutRoomHaveALimit) {
  RendezvousHarness h(2, {.quota_values = 0, .waits_max = 1});
  h.SendWhenRoom(0, 1, "x", Numbered(1));
  EXPECT_EQ(h.Why(h.SendWhenRoom(0, 1, "x", Numbered(2))), "too_many_waits");
}

TEST(RendezvousPeers, WhoComesAfterAnAbortIsToldOfItThoughTheStepIsClosed) {
  RendezvousHarness h;
  h.Abort(0, "loss is not a number");
  h.Close(0);
  h.DeliverAll();
  const OpId op = h.Receive(1, 0, "x");
  h.Run();
  EXPECT_EQ(h.Why(op), "step_aborted");
}

TEST(RendezvousPeers, WhoWaitsToHearOfAValueIsToldOfTheAbortThatDroppedIt) {
  RendezvousHarness h;
  const OpId told = h.SendTold(0, 1, "x", Numbered(1));
  h.DeliverAll();
  h.Abort(1, "loss is not a number");
  h.DeliverAll();
  EXPECT_EQ(h.Why(told), "step_aborted");
}

TEST(RendezvousPeers, WhoWasOnlyAskedForAValueIsToldOfTheAbort) {
  RendezvousHarness h;
  h.Receive(1, 0, "x");
  h.Run();
  EXPECT_EQ(h.Wanted(0), 1);
  h.Abort(1, "loss is not a number");
  h.DeliverAll();
  ASSERT_EQ(h.Wanted(0), 0);
  EXPECT_EQ(h.Send(0, 1, "x", Numbered(1))->reason, Reason::kStepAborted);
}

TEST(RendezvousPeers, WhoOnlySendsIntoAnAbortedStepIsToldOfIt) {
  RendezvousHarness h;
  h.Abort(0, "loss is not a number");
  h.DeliverAll();
  h.Send(1, 0, "x", Numbered(1));
  h.DeliverAll();
  const OpId op = h.Receive(1, 0, "y");
  EXPECT_EQ(h.Why(op), "step_aborted");
}

}  // namespace
}  // namespace lockstep::rendezvous

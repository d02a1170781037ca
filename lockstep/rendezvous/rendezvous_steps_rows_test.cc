// Rows of docs/conformance-rendezvous.md about keys, steps and members, and about what stays
// behind.
#include <cstdint>

#include "gtest/gtest.h"
#include "lockstep/testing/rendezvous_harness.h"

namespace lockstep::rendezvous {
namespace {

using lockstep::testing::Numbered;
using lockstep::testing::RendezvousHarness;

void ExpectNothingLeft(RendezvousHarness& h, int member) {
  EXPECT_EQ(h[member].ops(), 0);
  EXPECT_EQ(h[member].held_values(), 0);
  EXPECT_EQ(h[member].steps(), 1);
  EXPECT_TRUE(h[member].NextDeadline().is_infinite());
  const View view = h[member].GetView(h.now(), 10);
  EXPECT_TRUE(view.waiting.empty() && view.unclaimed.empty());
  EXPECT_TRUE(view.held.empty() && view.wanted.empty());
  for (const PeerRow& peer : view.peers) EXPECT_EQ(peer.held + peer.lent + peer.wants, 0);
}

TEST(RendezvousRow, RendezvousRow33_LoopsOfSendsAndReceivesLeaveNothingBehind) {
  RendezvousHarness h;
  for (const uint64_t bytes : {8, 1 << 20}) {
    for (uint64_t i = 1; i <= 1000; ++i) {
      h.Send(0, 1, "there", Numbered(i, bytes));
      h.DeliverAll();
      const OpId there = h.Receive(1, 0, "there");
      ASSERT_EQ(h.Got(there), i);
      const OpId back = h.Receive(0, 1, "back");
      if (i % 2 == 0) h.Run();  // it waits for so long that it says so
      h.Send(1, 0, "back", Numbered(i, bytes));
      h.DeliverAll();
      ASSERT_EQ(h.Got(back), i);
      if (bytes == 8) continue;
      h.Release(1, there);
      h.Release(0, back);
    }
    h.DeliverAll();
    for (const int member : {0, 1}) ExpectNothingLeft(h, member);
  }
}

TEST(RendezvousRow, RendezvousRow33_ManyMessagesAtOnceLeaveNothingBehind) {
  RendezvousHarness h(2, {.unasked_values_max = 32});
  for (const uint64_t messages : {100, 200, 300}) {
    for (uint64_t i = 1; i <= messages; ++i) h.Send(0, 1, "x", Numbered(i));
    h.DeliverAll();
    for (uint64_t i = 1; i <= messages; ++i) {
      const OpId op = h.Receive(1, 0, "x");
      h.Run();
      ASSERT_EQ(h.Got(op), i);
    }
    for (const int member : {0, 1}) ExpectNothingLeft(h, member);
  }
}

TEST(RendezvousRow, RendezvousRow45_AReceiveAsksItsSenderOnce) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "x");
  h.Advance(absl::Milliseconds(1));
  EXPECT_EQ(h.Count<Want>(1, 0), 1);
  h.Advance(absl::Minutes(5));
  EXPECT_EQ(h.Count<Want>(1, 0), 1);
  h.DeliverAll();
  h.Send(0, 1, "x", Numbered(1));
  EXPECT_EQ(h.Count<Offer>(0, 1), 1);
  h.DeliverAll();
  EXPECT_EQ(h.Got(op), 1);
}

TEST(RendezvousRow, RendezvousRow50_AnAbortEndsWhatWaitsForAStepThatIsNotOpenYet) {
  RendezvousHarness h(3);
  const StepId later(8);
  h.Open(1, later);
  h.Open(2, later);
  const OpId op = h.Receive(1, 0, "x", Time::Infinite(), {}, later);
  h.Send(2, 0, "y", Numbered(1), later);
  h.Run();
  EXPECT_EQ(h[0].GetView(h.now(), 10).wanted.size(), 1);

  h.Abort(2, "nan", later);
  h.DeliverAll();
  EXPECT_EQ(h.Text(op), "task/2 aborted step 8: nan");
  EXPECT_EQ(h[0].GetView(h.now(), 10).wanted.size(), 0);
  EXPECT_EQ(h.Open(0, later), nullptr);
  const OpId late = h.Receive(0, 1, "x", Time::Infinite(), {}, later);
  EXPECT_EQ(h.Text(late), "task/2 aborted step 8: nan");
}

TEST(RendezvousRow, RendezvousRow51_AMemberThatIsNotThereIsRefused) {
  RendezvousHarness h;
  for (const int nobody : {-1, 2, 1 << 30}) {
    const ErrorPtr refused = h.Send(0, nobody, "x", Numbered(1));
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->code, absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(refused->reason, Reason::kUnknownMember);
    const OpId op = h.Receive(0, nobody, "x");
    EXPECT_EQ(h.Why(op), "unknown_member");
    EXPECT_EQ(h.Result(op).error->code, absl::StatusCode::kInvalidArgument);
  }
}

TEST(RendezvousRow, RendezvousRow52_AMemberDoesNotTakeWhatIsOfOneWithALikeName) {
  RendezvousHarness h(12);
  h.Send(11, 0, "x", Numbered(11));
  h.Send(1, 0, "xx", Numbered(2));
  h.Send(0, 11, "x", Numbered(3));
  const OpId of_first = h.Receive(0, 1, "x");
  const OpId at_first = h.Receive(1, 0, "x");
  h.Run();
  EXPECT_FALSE(h.done(of_first));
  EXPECT_FALSE(h.done(at_first));
  EXPECT_EQ(h.Got(h.Receive(11, 0, "x")), 3);
  EXPECT_EQ(h.Got(h.Receive(0, 11, "x")), 11);
  EXPECT_EQ(h.Got(h.Receive(0, 1, "xx")), 2);
}

TEST(RendezvousRow, RendezvousRow57_AReceiveFromNobodyLeavesNothingBehind) {
  RendezvousHarness h;
  EXPECT_EQ(h.Why(h.Receive(0, 2, "x")), "unknown_member");
  EXPECT_EQ(h.Why(h.Receive(0, 1, "")), "key_invalid");
  EXPECT_EQ(h.Why(h.SendTold(0, 2, "x", Numbered(1))), "unknown_member");
  EXPECT_EQ(h.Why(h.SendWhenRoom(0, 2, "x", Numbered(1))), "unknown_member");
  ExpectNothingLeft(h, 0);
}

TEST(RendezvousRow, RendezvousRow63_AReceiveThatWaitedIsToldToTheSenderToo) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "x");
  h.Run();
  const OpId told = h.SendTold(0, 1, "x", Numbered(1, 1 << 20));
  EXPECT_FALSE(h.done(told));
  h.DeliverAll();
  EXPECT_EQ(h.Got(op), 1);
  EXPECT_EQ(h.Result(told).error, nullptr);
  EXPECT_EQ(h[0].held_values(), 1) << "it is still looked at";
  h.Release(1, op);
  h.DeliverAll();
  ExpectNothingLeft(h, 0);
}

TEST(RendezvousRow, RendezvousRow79_AValueThatIsTooShortFailsTheReceiveOnly) {
  RendezvousHarness h;
  const OpId told = h.SendTold(0, 1, "x", Numbered(1, 50));
  h.DeliverAll();
  const OpId op = h.Receive(1, 0, "x", Time::Infinite(), 100);
  h.DeliverAll();
  EXPECT_EQ(h.Why(op), "size_mismatch");
  EXPECT_EQ(h.Result(told).error, nullptr);
  ExpectNothingLeft(h, 0);
}

}  // namespace
}  // namespace lockstep::rendezvous

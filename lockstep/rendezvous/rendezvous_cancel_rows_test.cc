// Rows of docs/conformance-rendezvous.md about what is cancelled or aborted at each point of its
// way.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/testing/rendezvous_harness.h"

namespace lockstep::rendezvous {
namespace {

using lockstep::testing::Numbered;
using lockstep::testing::RendezvousHarness;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RendezvousRow, RendezvousRow41_BehindTheEndOfAllAStepCanBeClosedAndLookedAt) {
  RendezvousHarness h;
  h.fetches = true;
  h.Send(0, 1, "long", Numbered(1, 1 << 20));
  h.Send(0, 1, "unclaimed", Numbered(2));
  h.DeliverAll();
  const OpId waits = h.Receive(1, 0, "x");
  const OpId fetches = h.Receive(1, 0, "long");
  h.Close(1, MakeError(absl::StatusCode::kUnavailable, Reason::kRendezvousClosed, "server lost"));
  EXPECT_EQ(h.Text(waits), "server lost");
  EXPECT_EQ(h[1].GetView(h.now(), 10).waiting.size(), 0);
  h.Abort(1, "nan");
  h.Close(1);
  h.Advance(absl::Hours(1));
  h.Fetched(1, fetches, /*well=*/true);
  EXPECT_EQ(h.Text(fetches), "server lost");
  EXPECT_EQ(h.Why(h.Receive(1, 0, "x")), "rendezvous_closed");
}

TEST(RendezvousRow, RendezvousRow55_AnAbortBeforeTheReceiveHasAskedAsksNobody) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "x");
  h.Abort(1, "nan");
  EXPECT_EQ(h.Text(op), "nan");
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(h.Count<Want>(1, 0), 0);
}

TEST(RendezvousRow, RendezvousRow55_AnAbortStopsAFetchThoughItsBytesHaveCome) {
  for (const bool came : {false, true}) {
    RendezvousHarness h;
    h.fetches = true;
    h.Send(0, 1, "x", Numbered(1, 1 << 20));
    h.DeliverAll();
    const OpId op = h.Receive(1, 0, "x");
    h.Abort(1, "nan");
    EXPECT_THAT(h.stopped_, ElementsAre(op));
    EXPECT_FALSE(h.done(op)) << "its memory may be written yet";
    h.Fetched(1, op, came);
    EXPECT_EQ(h.Text(op), "nan");
    h.DeliverAll();
    EXPECT_EQ(h[0].held_values(), 0);
  }
}

TEST(RendezvousRow, RendezvousRow56_WhatIsCancelledIsOneReceive) {
  RendezvousHarness h(3);
  const OpId cancelled = h.Receive(2, 0, "x");
  const OpId same_key = h.Receive(2, 0, "x");
  const OpId other_key = h.Receive(2, 0, "y");
  const OpId other_member = h.Receive(2, 1, "x");
  h.Run();
  h.Cancel(2, cancelled);
  h.Send(0, 2, "x", Numbered(1));
  h.Send(0, 2, "y", Numbered(2));
  h.Send(1, 2, "x", Numbered(3));
  h.DeliverAll();
  EXPECT_EQ(h.Why(cancelled), "cancelled");
  EXPECT_EQ(h.Got(same_key), 1);
  EXPECT_EQ(h.Got(other_key), 2);
  EXPECT_EQ(h.Got(other_member), 3);
}

TEST(RendezvousRow, RendezvousRow56_WhatIsAbortedIsOneStep) {
  RendezvousHarness h;
  const StepId other(8);
  h.Open(0, other);
  h.Open(1, other);
  const OpId waits = h.Receive(1, 0, "x");
  h.Run();
  h.Abort(1, "nan", other);
  h.DeliverAll();
  EXPECT_FALSE(h.done(waits));
  h.Send(0, 1, "x", Numbered(1));
  h.DeliverAll();
  EXPECT_EQ(h.Got(waits), 1);
}

TEST(RendezvousRow, RendezvousRow71_ASendThatIsCancelledNamesItsKey) {
  for (const uint64_t credit : {0, 1}) {  // held, or on its way
    RendezvousHarness h(2, {.unasked_values_max = credit});
    const OpId told = h.SendTold(0, 1, "grad/w0", Numbered(1));
    h.Cancel(0, told);
    EXPECT_EQ(h.Why(told), "cancelled");
    EXPECT_THAT(h.Text(told), HasSubstr("'grad/w0'"));
    EXPECT_EQ(h.Result(told).error->code, absl::StatusCode::kCancelled);
    const OpId op = h.Receive(1, 0, "grad/w0");
    h.Run();
    EXPECT_EQ(h.Got(op), 1) << "only the wait was cancelled";
  }
}

TEST(RendezvousRow, RendezvousRow73_AReceiveThatIsCancelledNamesItsKey) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "grad/w0");
  h.Cancel(1, op);
  EXPECT_EQ(h.Result(op).error->code, absl::StatusCode::kCancelled);
  EXPECT_THAT(h.Text(op), HasSubstr("'grad/w0'"));
}

TEST(RendezvousRow, RendezvousRow73_AFetchThatIsCancelledLeavesTheValueToTheNext) {
  RendezvousHarness h;
  h.fetches = true;
  h.Send(0, 1, "x", Numbered(1, 1 << 20));
  h.DeliverAll();
  const OpId op = h.Receive(1, 0, "x");
  h.Cancel(1, op);
  EXPECT_THAT(h.stopped_, ElementsAre(op));
  h.Fetched(1, op, /*well=*/false);
  EXPECT_EQ(h.Why(op), "cancelled");
  const OpId next = h.Receive(1, 0, "x");
  EXPECT_TRUE(h.fetching_.contains(next));
}

TEST(RendezvousRow, RendezvousRow74_ACancelBehindTheEndChangesNeitherSide) {
  RendezvousHarness h;
  const OpId told = h.SendTold(0, 1, "x", Numbered(1));
  const OpId op = h.Receive(1, 0, "x");
  h.DeliverAll();
  h.Cancel(0, told);
  h.Cancel(1, op);
  EXPECT_EQ(h.Result(told).error, nullptr);
  EXPECT_EQ(h.Got(op), 1);
}

}  // namespace
}  // namespace lockstep::rendezvous

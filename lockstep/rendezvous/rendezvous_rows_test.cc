// Rows of docs/conformance-rendezvous.md that the machine decides.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/testing/rendezvous_harness.h"

namespace lockstep::rendezvous {
namespace {

using lockstep::testing::Numbered;
using lockstep::testing::NumberOf;
using lockstep::testing::RendezvousHarness;

Time In(const RendezvousHarness& h, absl::Duration left) { return h.now() + left; }

TEST(RendezvousRow, RendezvousRow08_SendThenReceive) {
  RendezvousHarness h;
  EXPECT_EQ(h.Send(0, 1, "x", Numbered(1)), nullptr);
  h.DeliverAll();
  const OpId op = h.Receive(1, 0, "x");
  EXPECT_EQ(h.Got(op), 1);
  EXPECT_FALSE(h.Result(op).value.dead);
}

TEST(RendezvousRow, RendezvousRow11_ADeadValueArrivesDead) {
  RendezvousHarness h;
  h.Send(0, 1, "x", {.dead = true, .why_dead = "not taken"});
  h.DeliverAll();
  const OpId op = h.Receive(1, 0, "x");
  ASSERT_EQ(h.Result(op).error, nullptr);
  EXPECT_TRUE(h.Result(op).value.dead);
  EXPECT_EQ(h.Result(op).value.why_dead, "not taken");
}

TEST(RendezvousRow, RendezvousRow13_ACancelledReceiveFails) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "x");
  h.Run();
  h.Cancel(1, op);
  EXPECT_EQ(h.Why(op), "cancelled");
  EXPECT_EQ(h.Count<Unwant>(1, 0), 1);
}

TEST(RendezvousRow, RendezvousRow14_ACancelBehindTheValueChangesNothing) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "x");
  h.Send(0, 1, "x", Numbered(1));
  h.DeliverAll();
  h.Cancel(1, op);
  EXPECT_EQ(h.Got(op), 1);
}

TEST(RendezvousRow, RendezvousRow15_TwoOfFourReceivesAreCancelled) {
  RendezvousHarness h;
  std::vector<OpId> ops;
  for (int i = 0; i < 4; ++i) ops.push_back(h.Receive(1, 0, "x"));
  h.Run();
  h.Cancel(1, ops[1]);
  h.Cancel(1, ops[3]);
  h.Send(0, 1, "x", Numbered(1));
  h.Send(0, 1, "x", Numbered(2));
  h.DeliverAll();
  EXPECT_EQ(h.Why(ops[1]), "cancelled");
  EXPECT_EQ(h.Why(ops[3]), "cancelled");
  EXPECT_EQ(h.Got(ops[0]), 1);
  EXPECT_EQ(h.Got(ops[2]), 2);
}

TEST(RendezvousRow, RendezvousRow19_ValuesComeInTheOrderOfTheirSending) {
  RendezvousHarness h;
  for (uint64_t i = 1; i <= 100; ++i) h.Send(0, 1, "x", Numbered(i));
  h.DeliverAll();
  for (uint64_t i = 1; i <= 100; ++i) EXPECT_EQ(h.Got(h.Receive(1, 0, "x")), i);
}

TEST(RendezvousRow, RendezvousRow20_TheFirstReceiveGetsTheFirstValue) {
  RendezvousHarness h(2, {.unasked_values_max = 2});
  std::vector<OpId> ops;
  for (int i = 0; i < 10; ++i) ops.push_back(h.Receive(1, 0, "x"));
  h.Run();
  for (uint64_t i = 1; i <= 10; ++i) h.Send(0, 1, "x", Numbered(i));
  h.DeliverAll();
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(h.Got(ops[i]), i + 1);
}

TEST(RendezvousRow, RendezvousRow21_AnAbortEndsAReceiveAnywhere) {
  RendezvousHarness h;
  const OpId mine = h.Receive(0, 1, "x");
  const OpId other = h.Receive(1, 0, "x");
  h.Run();
  h.Abort(0, "nan");
  h.DeliverAll();
  EXPECT_EQ(h.Text(mine), "nan");
  EXPECT_EQ(h.Text(other), "task/0 aborted step 7: nan");
  EXPECT_EQ(h.Result(other).error->origin, h.Of(0));
}

TEST(RendezvousRow, RendezvousRow23_BehindAnAbortNothingBegins) {
  RendezvousHarness h;
  h.Abort(0, "nan");
  EXPECT_EQ(h.Send(0, 1, "x", Numbered(1))->message, "nan");
  EXPECT_EQ(h.Text(h.Receive(0, 1, "x")), "nan");
}

TEST(RendezvousRow, RendezvousRow24_TheFirstAbortCounts) {
  RendezvousHarness h;
  h.Abort(0, "first");
  h.Abort(0, "second");
  EXPECT_EQ(h.Text(h.Receive(0, 1, "x")), "first");
}

TEST(RendezvousRow, RendezvousRow26_AnAbortLetsGoOfValues) {
  RendezvousHarness h;
  const Value value = Numbered(1, 1 << 20);
  h.Send(0, 1, "x", value);
  h.DeliverAll();
  EXPECT_GT(value.memory.use_count(), 1);
  h.Abort(0, "nan");
  h.DeliverAll();
  EXPECT_EQ(value.memory.use_count(), 1);
  EXPECT_EQ(h[0].held_bytes(), 0);
}

TEST(RendezvousRow, RendezvousRow28_TheEndOfAllFailsWhatWaits) {
  RendezvousHarness h;
  const OpId op = h.Receive(1, 0, "x");
  h.Close(1, MakeError(absl::StatusCode::kCancelled, Reason::kRendezvousClosed, "closed"));
  EXPECT_EQ(h.Why(op), "rendezvous_closed");
  EXPECT_EQ(h.Why(h.Receive(1, 0, "x")), "rendezvous_closed");
}

TEST(RendezvousRow, RendezvousRow48_AValueForAStepNotYetOpenWaits) {
  RendezvousHarness h;
  const StepId later(8);
  h.Open(0, later);
  h.Send(0, 1, "x", Numbered(1), later);
  h.DeliverAll();
  EXPECT_EQ(h.Open(1, later), nullptr);
  EXPECT_EQ(h.Got(h.Receive(1, 0, "x", Time::Infinite(), {}, later)), 1);
}

TEST(RendezvousRow, RendezvousRow49_AWantOfAStepThatIsNeverOpenedEnds) {
  RendezvousHarness h;
  const StepId later(8);
  h.Open(1, later);
  const OpId op = h.Receive(1, 0, "x", Time::Infinite(), {}, later);
  h.Run();
  h.Advance(absl::Minutes(10));
  h.DeliverAll();
  EXPECT_EQ(h.Why(op), "step_not_opened");
  EXPECT_EQ(h[0].steps(), 1);
}

TEST(RendezvousRow, RendezvousRow62_TheSenderHearsThatItsValueWasReceived) {
  RendezvousHarness h;
  const OpId told = h.SendTold(0, 1, "x", Numbered(1, 1 << 20));
  h.DeliverAll();
  EXPECT_FALSE(h.done(told));
  const OpId op = h.Receive(1, 0, "x");
  h.DeliverAll();
  EXPECT_EQ(h.Got(op), 1);
  EXPECT_EQ(h.Result(told).error, nullptr);
  EXPECT_EQ(h[0].held_values(), 1) << "it is still looked at";
  h.Release(1, op);
  h.DeliverAll();
  EXPECT_EQ(h[0].held_values(), 0);
}

TEST(RendezvousRow, RendezvousRow67_AnAbortFailsReceiversAndSenders) {
  RendezvousHarness h(2, {.quota_values = 1, .unasked_values_max = 0});
  const OpId receives = h.Receive(0, 1, "key0");
  const OpId told = h.SendTold(0, 1, "key1", Numbered(1));
  const OpId roomless = h.SendWhenRoom(0, 1, "key1", Numbered(2));
  h.Abort(0, "nan");
  for (const OpId op : {receives, told, roomless}) EXPECT_EQ(h.Text(op), "nan");
  EXPECT_EQ(h[0].ops(), 0);
}

TEST(RendezvousRow, RendezvousRow78_AValueThatDoesNotFitFailsTheReceiveOnly) {
  RendezvousHarness h;
  const OpId told = h.SendTold(0, 1, "x", Numbered(1, 100));
  h.DeliverAll();
  const OpId op = h.Receive(1, 0, "x", Time::Infinite(), 50);
  h.DeliverAll();
  EXPECT_EQ(h.Why(op), "size_mismatch");
  EXPECT_EQ(h.Result(told).error, nullptr);
  EXPECT_EQ(h[0].held_values(), 0);
}

TEST(RendezvousRow, RendezvousRow98_AReceiveThatTimesOutStealsNothing) {
  RendezvousHarness h;
  const OpId late = h.Receive(1, 0, "x", In(h, absl::Milliseconds(5)));
  const OpId patient = h.Receive(1, 0, "x");
  h.Run();
  h.Advance(absl::Milliseconds(5));
  EXPECT_EQ(h.Why(late), "receive_timed_out");
  h.Send(0, 1, "x", Numbered(1));
  h.DeliverAll();
  EXPECT_EQ(h.Got(patient), 1);
}

TEST(RendezvousRow, RendezvousRow100_OverTheQuotaASendFailsOrWaits) {
  RendezvousHarness h(2, {.quota_values = 1, .unasked_values_max = 0});
  EXPECT_EQ(h.Send(0, 1, "x", Numbered(1)), nullptr);
  EXPECT_EQ(h.Send(0, 1, "x", Numbered(2))->reason, Reason::kQuotaExceeded);
  const OpId waits = h.SendWhenRoom(0, 1, "x", Numbered(3));
  EXPECT_FALSE(h.done(waits));
  const OpId first = h.Receive(1, 0, "x");
  h.Run();
  EXPECT_EQ(h.Got(first), 1);
  EXPECT_EQ(h.Result(waits).error, nullptr);
}

TEST(RendezvousRow, RendezvousRow104_AClosedStepIsNotOpenedAgain) {
  RendezvousHarness h;
  h.Close(1);
  EXPECT_EQ(h.Open(1)->reason, Reason::kStepClosed);
  const OpId op = h.Receive(0, 1, "x");
  h.Run();
  EXPECT_EQ(h.Why(op), "step_closed");
}

}  // namespace
}  // namespace lockstep::rendezvous

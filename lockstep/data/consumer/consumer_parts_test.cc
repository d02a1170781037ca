// The parts of a consumer that have rules of their own.
#include <string>

#include "gtest/gtest.h"
#include "lockstep/data/consumer/ask_queue.h"
#include "lockstep/data/consumer/current_assignment.h"
#include "lockstep/data/consumer/dispatcher_calls.h"
#include "lockstep/data/consumer/lane_set.h"
#include "lockstep/data/consumer/poll_schedule.h"
#include "lockstep/data/consumer/turn_table.h"

namespace lockstep::dispatch {
namespace {

Time At(int64_t ms) { return Time() + absl::Milliseconds(ms); }

TEST(AskQueue, AnswersEachAskOnce) {
  AskQueue asks;
  ConsumerEffects out;
  for (uint64_t id = 1; id <= 3; ++id) asks.Add(At(0), AskId(id));
  asks.Cancel(AskId(2), MakeError(absl::StatusCode::kCancelled, reason::kCancelled, "c"), out);
  asks.Cancel(AskId(2), MakeError(absl::StatusCode::kCancelled, reason::kCancelled, "c"), out);
  asks.Answer({.element = {.payload = nullptr, .bytes = 7}}, out);
  asks.EndAll(nullptr, out);
  ASSERT_EQ(out.handed_out.size(), 3);
  EXPECT_EQ(out.handed_out[0].ask, AskId(2));
  EXPECT_NE(out.handed_out[0].error, nullptr);
  EXPECT_EQ(out.handed_out[1].ask, AskId(1));
  EXPECT_FALSE(out.handed_out[1].end);
  EXPECT_EQ(out.handed_out[2].ask, AskId(3));
  EXPECT_TRUE(out.handed_out[2].end);
  EXPECT_TRUE(asks.empty());
  EXPECT_EQ(asks.handed_out(), 1);
}

TEST(PollSchedule, ReportsThatCanWaitGoTogether) {
  PollSchedule polls(absl::Milliseconds(100));
  polls.Soon(At(10));
  polls.Soon(At(50));
  EXPECT_FALSE(polls.IsDue(At(109)));
  EXPECT_TRUE(polls.IsDue(At(110)));
  EXPECT_EQ(polls.Send(), 1);
  EXPECT_FALSE(polls.IsDue(At(200)));
  polls.Urgent();
  EXPECT_TRUE(polls.IsDue(At(200)));
  EXPECT_EQ(polls.Send(), 2);
}

TEST(CurrentAssignment, AnOlderAnswerChangesNothing) {
  CurrentAssignment current;
  EXPECT_TRUE(current.Take(RequestId(2), {.service = 1, .version = 5}));
  EXPECT_FALSE(current.Take(RequestId(3), {.service = 1, .version = 4}));
  // Versions of another life of the dispatcher count from the beginning.
  EXPECT_TRUE(current.Take(RequestId(4), {.service = 2, .version = 1}));
  EXPECT_FALSE(current.Take(RequestId(3), {.service = 1, .version = 9}));
  EXPECT_EQ(current->version, 1);
}

TEST(DispatcherCalls, AReportStaysUntilAPollThatCarriedItHasArrived) {
  DispatcherCalls calls(absl::Milliseconds(1), absl::Milliseconds(8));
  EXPECT_TRUE(calls.ReportUnreachable(WorkerId(1)));
  EXPECT_FALSE(calls.ReportUnreachable(WorkerId(1)));
  const RequestId first = calls.Add(CallInFlight::Kind::kPoll);
  EXPECT_TRUE(calls.ReportUnreachable(WorkerId(2)));
  const RequestId second = calls.Add(CallInFlight::Kind::kPoll);
  calls.DropReports(*calls.Take(first));
  ASSERT_EQ(calls.unreachable().size(), 1);
  EXPECT_EQ(calls.unreachable()[0], WorkerId(2));
  calls.DropReports(*calls.Take(second));
  EXPECT_TRUE(calls.unreachable().empty());
  EXPECT_FALSE(calls.Take(second).has_value());
}

TEST(LaneSet, CountsTheBytesInItsBuffers) {
  LaneSet lanes;
  LaneReader& lane = lanes.Get(LaneId(1));
  LaneSegment& segment = lane.segments.emplace_back();
  for (int64_t i = 0; i < 6; ++i) EXPECT_TRUE(lanes.Store(segment, i, {nullptr, 10}));
  EXPECT_FALSE(lanes.Store(segment, 5, {nullptr, 10}));
  EXPECT_EQ(lanes.buffered_bytes(), 60);
  lanes.Keep(segment, 1, 2);  // 1, 3, 5
  EXPECT_EQ(lanes.buffered_bytes(), 30);
  EXPECT_EQ(lanes.Take(lane, segment, 1, -1).element.bytes, 10);
  EXPECT_TRUE(lanes.Holds());
  lanes.ForgetFront(lane);
  EXPECT_EQ(lanes.buffered_bytes(), 0);
}

TEST(TurnTable, ATurnIsAsWideAsItsRoundHasConsumers) {
  TurnTable turns;
  EXPECT_EQ(turns.At(0), nullptr);
  turns.Set({{.first_round = 0, .consumers = 2, .index = 1},
             {.first_round = 3, .consumers = 4, .index = -1},
             {.first_round = 5, .consumers = 3, .index = 0}});
  const LaneReader lane{.base_round = 1, .base_element = 100};
  EXPECT_EQ(turns.Begin(lane, 1), 100);
  EXPECT_EQ(turns.Begin(lane, 3), 104);
  EXPECT_EQ(turns.Begin(lane, 5), 112);
  EXPECT_EQ(turns.Begin(lane, 6), 115);
  EXPECT_EQ(turns.SeatAt(4), nullptr);
  ASSERT_NE(turns.NextSeat(3), nullptr);
  EXPECT_EQ(turns.NextSeat(3)->first_round, 5);
}

}  // namespace
}  // namespace lockstep::dispatch

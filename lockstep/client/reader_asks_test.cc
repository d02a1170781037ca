#include "lockstep/client/reader_asks.h"

#include <cstdint>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "lockstep/client/handed_elements.h"
#include "lockstep/client/loop_driver.h"

namespace lockstep::client {
namespace {

using dispatch::AskId;

TEST(ReaderAsks, AnAnswerThatComesAtOnceIsForTheThreadThatAsks) {
  ReaderAsks asks;
  const AskId ask = asks.Begin();
  EXPECT_EQ(asks.Give({.ask = ask, .end = true}), nullptr);
  const auto answer = asks.TakeAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->end);
  EXPECT_EQ(asks.stalls(), 0);
  EXPECT_FALSE(asks.TakeAnswer().has_value());
}

TEST(ReaderAsks, ALaterAnswerNamesTheThreadThatWaits) {
  LoopDriver loop;
  ReaderAsks asks;
  const AskId first = asks.Begin();
  const auto waits = asks.Wait(loop);
  const AskId second = asks.Begin();
  EXPECT_EQ(asks.Give({.ask = second}), nullptr);
  EXPECT_EQ(asks.Give({.ask = first, .end = true}), waits);
  ASSERT_TRUE(waits->answer.has_value());
  EXPECT_TRUE(waits->answer->end);
  EXPECT_TRUE(asks.TakeAnswer().has_value());
  EXPECT_EQ(asks.stalls(), 1);
}

TEST(ReaderAsks, NobodyIsWokenWhoWaitsNoMore) {
  LoopDriver loop;
  ReaderAsks asks;
  const AskId ask = asks.Begin();
  asks.Wait(loop);
  asks.EndWait(ask, absl::Seconds(2));
  EXPECT_EQ(asks.Give({.ask = ask}), nullptr);
  EXPECT_EQ(asks.stalled(), absl::Seconds(2));
}

dispatch::HandOut ElementOf(int64_t lane, int64_t element) {
  return {.element = {.bytes = 10}, .place = {.lane = dispatch::LaneId(lane), .element = element}};
}

TEST(HandedElements, RemembersTheLastPlaceOfEachLane) {
  HandedElements handed(/*keeps_places=*/true);
  for (const int64_t element : {4, 5}) {
    const auto taken = handed.Take(ElementOf(1, element));
    ASSERT_TRUE(taken.ok() && taken->has_value());
    EXPECT_EQ((*taken)->place().element, element);
  }
  EXPECT_TRUE(handed.Take(ElementOf(2, 0)).ok());
  EXPECT_EQ(handed.elements(), 3);
  EXPECT_EQ(handed.bytes(), 30);
  ASSERT_EQ(handed.last_places().size(), 2u);
  EXPECT_EQ(handed.last_places().at(1).element, 5);
}

TEST(HandedElements, NeitherAnEndNorAnErrorIsAnElement) {
  HandedElements handed(/*keeps_places=*/true);
  const auto end = handed.Take({.end = true});
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
  const auto failed = handed.Take(
      {.error = dispatch::MakeError(absl::StatusCode::kFailedPrecondition, "ack_needed", "x")});
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(handed.elements(), 0);
  EXPECT_TRUE(handed.last_places().empty());
}

}  // namespace
}  // namespace lockstep::client

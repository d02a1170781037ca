#include "lockstep/agent/heartbeat_answers.h"

#include <string>

#include "gtest/gtest.h"

namespace lockstep::agent {
namespace {

constexpr auto kOk = absl::StatusCode::kOk;
constexpr auto kAborted = absl::StatusCode::kAborted;

TEST(HeartbeatAnswers, TheFirstWaitsForTheServer) {
  HeartbeatAnswers answers;
  const auto reaction = answers.Came("a", 1);
  EXPECT_EQ(reaction.answer, nullptr);
  EXPECT_TRUE(reaction.pass_on);
}

TEST(HeartbeatAnswers, LaterOnesAreAnsweredAndPassedOnOneAtATime) {
  HeartbeatAnswers answers;
  answers.Came("a", 1);
  answers.Answered("a", kOk, "first");
  const auto second = answers.Came("a", 1);
  ASSERT_NE(second.answer, nullptr);
  EXPECT_EQ(*second.answer, "first");
  EXPECT_TRUE(second.pass_on);
  // The server is away: the second is still under way to it.
  for (int i = 0; i < 3; ++i) {
    const auto later = answers.Came("a", 1);
    ASSERT_NE(later.answer, nullptr);
    EXPECT_FALSE(later.pass_on);
  }
  answers.Answered("a", kOk, "second");
  const auto next = answers.Came("a", 1);
  EXPECT_EQ(*next.answer, "second");
  EXPECT_TRUE(next.pass_on);
  EXPECT_EQ(answers.Came("b", 1).answer, nullptr);
}

TEST(HeartbeatAnswers, ARegistrationAnswersTheFirst) {
  HeartbeatAnswers answers;
  answers.Registered(7, "in");
  EXPECT_EQ(answers.Came("b", 8).answer, nullptr) << "another connection";
  const auto first = answers.Came("a", 7);
  ASSERT_NE(first.answer, nullptr);
  EXPECT_EQ(*first.answer, "in");
  EXPECT_TRUE(first.pass_on);
  const auto second = answers.Came("a", 7);
  EXPECT_EQ(*second.answer, "in");
  EXPECT_FALSE(second.pass_on) << "the first is still under way";
  // Refused: nothing of the registration is left to answer with.
  answers.Answered("a", kAborted, "");
  EXPECT_EQ(answers.Came("a", 7).answer, nullptr);
}

TEST(HeartbeatAnswers, RegistrationsOfProcessesThatHaveGoneMakeRoom) {
  HeartbeatAnswers answers(2);
  for (const uint64_t connection : {1, 2, 3}) answers.Registered(connection, "in");
  EXPECT_EQ(answers.Came("a", 1).answer, nullptr);
  EXPECT_NE(answers.Came("c", 3).answer, nullptr);
}

TEST(HeartbeatAnswers, AnErrorReachesTheNextOne) {
  HeartbeatAnswers answers;
  answers.Came("a", 1);
  answers.Answered("a", kOk, "");
  answers.Came("a", 1);
  answers.Answered("a", kAborted, "");
  const auto next = answers.Came("a", 1);
  EXPECT_EQ(next.answer, nullptr);
  EXPECT_TRUE(next.pass_on);
}

TEST(HeartbeatAnswers, ProcessesThatHaveGoneMakeRoom) {
  HeartbeatAnswers answers(2);
  for (const char* message : {"a", "b"}) answers.Answered(message, kOk, message);
  answers.Came("b", 1);
  answers.Answered("c", kOk, "c");
  EXPECT_EQ(answers.Came("a", 1).answer, nullptr);
  EXPECT_NE(answers.Came("b", 1).answer, nullptr) << "it is under way, and must not go twice";
  EXPECT_FALSE(answers.Came("b", 1).pass_on);
  EXPECT_NE(answers.Came("c", 1).answer, nullptr);
  // Both are under way: one more has to wait for the server each time.
  answers.Answered("d", kOk, "d");
  EXPECT_EQ(answers.Came("d", 1).answer, nullptr);
}

}  // namespace
}  // namespace lockstep::agent

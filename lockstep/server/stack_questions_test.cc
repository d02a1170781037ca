#include "lockstep/server/stack_questions.h"

#include "gmock/gmock.h"

namespace lockstep::server {
namespace {

using testing::ElementsAre;

class StackQuestionsTest : public testing::Test {
 protected:
  static Time At(int64_t seconds) { return Time::FromNanoseconds(1) + absl::Seconds(seconds); }

  static coord::Reply Failed(coord::Reason reason, std::string missing = "") {
    return {.call = CallId(1),
            .error = coord::MakeError({.code = absl::StatusCode::kDeadlineExceeded,
                                       .reason = reason,
                                       .message = "late",
                                       .missing = std::move(missing)}),
            .answer = {}};
  }

  bool runs_ = true;
  StackQuestions questions_{{.any_process_runs = [this] { return runs_; },
                             .members_named =
                                 [](const std::string& names) {
                                   return names == "task/2" ? std::vector<int32_t>{2}
                                                            : std::vector<int32_t>{};
                                 },
                             .service = [] { return ServiceIncarnation(7); }}};
};

TEST_F(StackQuestionsTest, AnAnswerThatSaysAWaitTimedOutIsACause) {
  EXPECT_FALSE(questions_.TimedOut({}));
  EXPECT_FALSE(questions_.TimedOut({{.call = CallId(1)}, Failed(coord::Reason::kUnknownRole)}));
  const auto cause = questions_.TimedOut({Failed(coord::Reason::kUnknownRole),
                                          Failed(coord::Reason::kAgreementTimedOut, "task/2"),
                                          Failed(coord::Reason::kBarrierTimedOut)});
  ASSERT_TRUE(cause.has_value());
  EXPECT_EQ(cause->because, "an agreement timed out") << "the first one counts";
  EXPECT_THAT(cause->awaited, ElementsAre(2));
}

TEST_F(StackQuestionsTest, TheQuestionIsAKeyThatLaunchersRead) {
  const auto question = questions_.Ask(At(0), 5, {.because = "it was late", .awaited = {2}});
  ASSERT_TRUE(question.has_value());
  EXPECT_EQ(question->key, wire::native::kStackQuestionKey);
  EXPECT_EQ(question->caller.service, ServiceIncarnation(7));
  EXPECT_TRUE(question->overwrite);
  EXPECT_EQ(question->lifetime.ttl, wire::native::kStackQuestionOfTimeoutLives);
  const auto asked = wire::native::DecodeQuestion(question->value);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->id, "timeout-5");
  EXPECT_EQ(asked->because, "it was late");
  EXPECT_TRUE(asked->say);
}

TEST_F(StackQuestionsTest, OurOwnQuestionThatComesBackChangesNothing) {
  const auto question = questions_.Ask(At(0), 5, {.because = "it was late", .awaited = {2}});
  questions_.Saw(At(1), *question);
  const auto last = questions_.Last(At(2));
  ASSERT_TRUE(last.has_value());
  EXPECT_THAT(last->awaited, ElementsAre(2));
  EXPECT_EQ(last->ago_us, 2'000'000);
}

TEST_F(StackQuestionsTest, NobodyIsAskedWhileNoProcessRuns) {
  runs_ = false;
  EXPECT_FALSE(questions_.Ask(At(0), 5, {.because = "it was late", .awaited = {}}));
  runs_ = true;
  EXPECT_TRUE(questions_.Ask(At(1), 5, {.because = "it was late", .awaited = {}}))
      << "what was not asked holds up nothing";
}

TEST_F(StackQuestionsTest, TheNextTimeOutWaitsForItsTurnUnlessAProcessWasStarted) {
  ASSERT_TRUE(questions_.Ask(At(0), 1, {.because = "a", .awaited = {}}));
  EXPECT_FALSE(questions_.Ask(At(1), 2, {.because = "b", .awaited = {}}));
  questions_.Saw(At(2), coord::ProcessStarted{});
  EXPECT_FALSE(questions_.Last(At(2))) << "what was seen is of others";
  EXPECT_TRUE(questions_.Ask(At(2), 3, {.because = "c", .awaited = {}}));
}

TEST_F(StackQuestionsTest, WhatAPersonAsksIsNotTheLastLook) {
  coord::SetKey by_hand = {.key = wire::native::kStackQuestionKey,
                           .value = wire::native::EncodeQuestion({.id = "p"})};
  questions_.Saw(At(0), by_hand);
  EXPECT_FALSE(questions_.Last(At(0)));
  by_hand.value = wire::native::EncodeQuestion({.id = "l", .because = "rank 2 does not move"});
  questions_.Saw(At(0), by_hand);
  ASSERT_TRUE(questions_.Last(At(0)));
  EXPECT_EQ(questions_.Last(At(0))->id, "l");
}

}  // namespace
}  // namespace lockstep::server

#include "lockstep/server/answers_in_turns.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/platform/link/testing.h"

namespace lockstep::server {
namespace {

using link::testing::LoopThread;

class AnswersInTurnsTest : public ::testing::Test {
 protected:
  AnswersInTurnsTest() {
    thread_.Do([this] {
      answers_ = std::make_unique<AnswersInTurns>(
          thread_.loop(),
          [this](const std::vector<coord::Reply>& replies, SharedAnswers&) {
            steps_.push_back(replies.size());
            for (const coord::Reply& reply : replies) answered_.push_back(reply.call.value());
            if (slow_) absl::SleepFor(2 * runtime::TurnBudget::kTime);
          },
          /*fan_out=*/nullptr);
    });
  }
  ~AnswersInTurnsTest() override {
    thread_.Do([this] { answers_.reset(); });
  }

  static std::vector<coord::Reply> Replies(uint64_t from, uint64_t count) {
    std::vector<coord::Reply> replies;
    for (uint64_t i = 0; i < count; ++i) {
      replies.push_back({.call = CallId(from + i), .error = nullptr, .answer = {}});
    }
    return replies;
  }
  // So many turns of the loop after the one that is running.
  void Turns(int count) {
    for (int i = 0; i < count; ++i) thread_.Do([] {});
  }
  size_t CountAnswered() {
    size_t count = 0;
    thread_.Do([&] { count = answered_.size(); });
    return count;
  }

  LoopThread thread_;
  std::unique_ptr<AnswersInTurns> answers_;
  std::vector<size_t> steps_;
  std::vector<uint64_t> answered_;
  bool slow_ = false;
};

TEST_F(AnswersInTurnsTest, FewAreAnsweredAtOnce) {
  thread_.Do([this] {
    answers_->Add(Replies(1, AnswersInTurns::kStep));
    EXPECT_EQ(answered_.size(), AnswersInTurns::kStep);
    EXPECT_EQ(answers_->bytes(), 0u);
  });
}

TEST_F(AnswersInTurnsTest, ManyLeaveTheLoopToOthersAndKeepTheirOrder) {
  constexpr uint64_t kMany = 10 * AnswersInTurns::kStep;
  thread_.Do([this] {
    slow_ = true;
    answers_->Add(Replies(1, kMany));
    EXPECT_EQ(answered_.size(), AnswersInTurns::kStep) << "the clock says that the turn is over";
    EXPECT_GT(answers_->bytes(), 0u);
    // What comes later waits behind them.
    answers_->Add(Replies(kMany + 1, 1));
    EXPECT_EQ(answered_.size(), AnswersInTurns::kStep);
  });
  // Each turn of theirs lets one of others in.
  Turns(20);
  EXPECT_EQ(CountAnswered(), kMany + 1);
  EXPECT_TRUE(std::is_sorted(answered_.begin(), answered_.end()));
  EXPECT_LE(*std::max_element(steps_.begin(), steps_.end()), AnswersInTurns::kStep);
  thread_.Do([this] {
    // And then a few are answered at once again.
    answers_->Add(Replies(10'000, 1));
    EXPECT_EQ(answered_.back(), 10'000u);
  });
}

TEST_F(AnswersInTurnsTest, TheEndWaitsForNoTurn) {
  thread_.Do([this] {
    slow_ = true;
    answers_->Add(Replies(1, 4 * AnswersInTurns::kStep));
    answers_->Finish();
    EXPECT_EQ(answered_.size(), 4 * AnswersInTurns::kStep);
    // Nor does what comes after it, of which there is no later turn.
    answers_->Add(Replies(1'000, 1));
    answers_->Add(Replies(2'000, 2 * AnswersInTurns::kStep));
    EXPECT_EQ(answered_.size(), 6 * AnswersInTurns::kStep + 1);
    EXPECT_EQ(answers_->bytes(), 0u);
  });
  Turns(2);
  EXPECT_EQ(CountAnswered(), 6 * AnswersInTurns::kStep + 1);
}

TEST_F(AnswersInTurnsTest, NothingIsAnsweredOnceItIsGone) {
  thread_.Do([this] {
    slow_ = true;
    answers_->Add(Replies(1, 4 * AnswersInTurns::kStep));
    answers_.reset();
  });
  Turns(5);
  EXPECT_EQ(CountAnswered(), AnswersInTurns::kStep);
}

}  // namespace
}  // namespace lockstep::server

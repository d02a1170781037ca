#include "lockstep/server/status_board.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::server {
namespace {

using wire::native::JobStatus;
using wire::native::MemberStatus;
using wire::native::StatusReply;

// A server of which the test says what is in it. Everything happens on the test's thread.
class StatusBoardTest : public ::testing::Test {
 protected:
  StatusBoardTest()
      : board_(loop_, {.head =
                           [](Time, bool of_all) {
                             wire::native::StatusReply reply{.server = {.pid = 4}};
                             if (of_all) reply.set_aside.push_back({.job = "aside"});
                             return reply;
                           },
                       .jobs =
                           [this] {
                             ++builds_;
                             std::vector<std::string> names;
                             for (const JobStatus& job : jobs_) names.push_back(job.job);
                             return names;
                           },
                       .job = [this](Time, const std::string& name) -> absl::StatusOr<JobStatus> {
                         for (const JobStatus& job : jobs_) {
                           if (job.job == name) return job;
                         }
                         return absl::NotFoundError("no such job");
                       },
                       .members =
                           [this](Time, const std::string& name, std::optional<int64_t> attempt,
                                  int32_t first, int32_t count, std::vector<MemberStatus>& out) {
                             for (const JobStatus& job : jobs_) {
                               if (job.job != name || (attempt && job.attempt != *attempt))
                                 continue;
                               for (int32_t i = first; i < first + count; ++i) {
                                 out.push_back({.index = i, .name = absl::StrCat("task/", i)});
                               }
                               if (looked_at_members_) looked_at_members_(first);
                               return true;
                             }
                             return false;
                           }}) {}

  void Run(std::function<void()> first) {
    loop_.Post([first = std::move(first)] { first(); });
    loop_.Run();
  }
  static StatusReply Decoded(const absl::StatusOr<StatusBoard::Bytes>& bytes) {
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (!bytes.ok()) return {};
    auto reply = wire::native::Decode<StatusReply>(**bytes);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(StatusReply{});
  }
  // Asks for all, and ends the loop with the answer.
  StatusReply AskForAll() {
    StatusReply reply;
    Run([&] {
      board_.Ask(std::nullopt, [&](absl::StatusOr<StatusBoard::Bytes> bytes) {
        reply = Decoded(bytes);
        loop_.Stop();
      });
    });
    return reply;
  }

  runtime::Loop loop_;
  std::vector<JobStatus> jobs_;
  int builds_ = 0;
  std::function<void(int32_t first)> looked_at_members_;
  StatusBoard board_;
};

TEST_F(StatusBoardTest, TellsOfAllJobsAndAllMembers) {
  jobs_ = {{.job = "a", .size = 100, .attempt = 2, .keys = 7, .grpc = "h:1"},
           {.job = "b", .size = 1},
           {.job = "c", .size = 3 * StatusBoard::kMembersPerStep}};
  const StatusReply reply = AskForAll();
  EXPECT_EQ(reply.server.pid, 4);
  ASSERT_EQ(reply.set_aside.size(), 1u);
  EXPECT_EQ(reply.set_aside[0].job, "aside");
  ASSERT_EQ(reply.jobs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    JobStatus job = reply.jobs[i];
    ASSERT_EQ(job.members.size(), static_cast<size_t>(job.size));
    for (int32_t m = 0; m < job.size; ++m) EXPECT_EQ(job.members[static_cast<size_t>(m)].index, m);
    job.members.clear();
    EXPECT_EQ(job, jobs_[i]);
  }
}

TEST_F(StatusBoardTest, Finding07_ManyMembersLeaveTurnsToOthers) {
  for (int i = 0; i < 4; ++i) jobs_.push_back({.job = absl::StrCat("j", i), .size = 65'536});
  int turns = 0;
  int32_t steps = 0;
  int32_t steps_of_turn = 0;
  int32_t most_steps = 0;
  Time slice_began;
  bool over = false;
  looked_at_members_ = [&](int32_t) {
    ++steps;
    if (++steps_of_turn == 1) slice_began = runtime::MonotonicNow();
    // Once the time is over, the step that runs is the last of its turn.
    if (runtime::MonotonicNow() - slice_began > 2 * runtime::TurnBudget::kTime) ++most_steps;
  };
  std::function<void()> turn = [&] {
    ++turns;
    steps_of_turn = 0;
    if (!over) loop_.Post([&] { turn(); });
  };
  size_t members = 0;
  Run([&] {
    loop_.Post([&] { turn(); });
    board_.Ask(std::nullopt, [&](absl::StatusOr<StatusBoard::Bytes> bytes) {
      over = true;
      for (const JobStatus& job : Decoded(bytes).jobs) members += job.members.size();
      loop_.Stop();
    });
  });
  EXPECT_EQ(members, size_t{4} * 65'536);
  EXPECT_EQ(steps, 4 * 65'536 / StatusBoard::kMembersPerStep);
  EXPECT_GT(turns, 20) << "a quarter of a million members take far more than 20 ms";
  EXPECT_LE(most_steps, turns) << "no turn goes on for more than a step after its time";
}

TEST_F(StatusBoardTest, Finding07_HoweverManyAskTwoRepliesAreMade) {
  jobs_ = {{.job = "big", .size = 65'536}};
  std::vector<StatusBoard::Bytes> got;
  constexpr size_t kAsks = 1000;
  Run([&] {
    for (size_t i = 0; i < kAsks; ++i) {
      board_.Ask(std::nullopt, [&](absl::StatusOr<StatusBoard::Bytes> bytes) {
        got.push_back(*bytes);
        if (got.size() == kAsks) loop_.Stop();
      });
    }
  });
  EXPECT_EQ(builds_, 2) << "one for the first, one for all others";
  EXPECT_EQ(got[1], got[kAsks - 1]) << "the same bytes";
}

TEST_F(StatusBoardTest, AnAnswerIsNotOlderThanItsQuestion) {
  jobs_ = {{.job = "big", .size = 65'536}, {.job = "z"}};
  int64_t seen = -1;
  Run([&] {
    board_.Ask(std::nullopt, [](absl::StatusOr<StatusBoard::Bytes>) {});
    jobs_[1].keys = 5;
    board_.Ask(std::nullopt, [&](absl::StatusOr<StatusBoard::Bytes> bytes) {
      seen = Decoded(bytes).jobs[1].keys;
      loop_.Stop();
    });
  });
  EXPECT_EQ(seen, 5);
}

TEST_F(StatusBoardTest, BeginsAJobAnewWhenAnotherAttemptBeganButNotForEver) {
  jobs_ = {{.job = "a", .size = 4 * StatusBoard::kMembersPerStep, .attempt = 1}};
  int begun = 0;
  looked_at_members_ = [&](int32_t first) {
    if (first == 0) ++begun;
    if (first == StatusBoard::kMembersPerStep) ++jobs_[0].attempt;
  };
  const StatusReply reply = AskForAll();
  EXPECT_EQ(begun, StatusBoard::kBeginsMax);
  ASSERT_EQ(reply.jobs.size(), 1u);
  EXPECT_EQ(reply.jobs[0].members.size(), static_cast<size_t>(jobs_[0].size));
}

TEST_F(StatusBoardTest, AJobThatGoesMeanwhileIsLeftOut) {
  jobs_ = {{.job = "a", .size = 2 * StatusBoard::kMembersPerStep}, {.job = "b", .size = 1}};
  looked_at_members_ = [&](int32_t) {
    if (jobs_.size() == 2) jobs_.erase(jobs_.begin());
  };
  const StatusReply reply = AskForAll();
  ASSERT_EQ(reply.jobs.size(), 1u);
  EXPECT_EQ(reply.jobs[0].job, "b");
}

TEST_F(StatusBoardTest, SaysThatAJobIsNotThere) {
  absl::Status status;
  Run([&] {
    board_.Ask("x", [&](absl::StatusOr<StatusBoard::Bytes> bytes) {
      status = bytes.status();
      loop_.Stop();
    });
  });
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

}  // namespace
}  // namespace lockstep::server

// Preemptions of real members with real links and threads: whoever saves, saves at the same step.
#include "lockstep/client/preemption.h"

#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/client/member.h"
#include "tests/native/native_server.h"
#include "tests/native/native_testing.h"
#include "tests/native/preemption_workers.h"

namespace lockstep {
namespace {

using link::testing::Seen;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Preemption, PreemptionDefect16_AllSaveAtOneStepAgainAndAgain) {
  NativeServer server(JobOf(4));
  Workers workers(JoinAll(server, 4));
  workers.Run();
  for (int64_t id = 1; id <= 20; ++id) {
    const int subject = static_cast<int>(id % 4);
    ASSERT_TRUE(
        workers.preemption(subject).Notify("test", absl::StrCat(id), absl::Seconds(30)).ok());
    const PreemptionNotice ended = workers.WaitForEnd(subject, id);
    EXPECT_EQ(ended.outcome, "saved") << ended.text;
    EXPECT_EQ(workers.SavedIn(id), 4u);
    EXPECT_EQ(workers.StepsOf(id).size(), 1u);
    EXPECT_THAT(workers.StepsOf(id), ElementsAre(*ended.step));
  }
}

TEST(Preemption, IsOnTheStride) {
  NativeServer server(JobOf(2));
  Workers workers(JoinAll(server, 2));
  workers.Run(103, 10);
  for (int64_t id = 1; id <= 5; ++id) {
    ASSERT_TRUE(workers.preemption(0).Notify("test", absl::StrCat(id), std::nullopt).ok());
    const PreemptionNotice ended = workers.WaitForEnd(0, id);
    EXPECT_EQ(ended.outcome, "saved") << ended.text;
    const std::set<int64_t> steps = workers.StepsOf(id);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(*steps.begin() % 10, 3);
  }
}

TEST(Preemption, IsNoticedByAll) {
  NativeServer server(JobOf(2));
  Workers workers(JoinAll(server, 2));
  Seen<std::string> seen;
  workers.preemption(1).OnNotice([&](const PreemptionNotice& notice) {
    seen.Add(absl::StrCat(notice.phase, notice.concerns_me ? " me" : ""));
  });
  ASSERT_TRUE(workers.preemption(0).Notify("test", "1", absl::Hours(2), "maintenance").ok());
  EXPECT_EQ(seen.WaitForCount(1).back(), "pending");
  const PreemptionNotice notice = workers.preemption(1).notice();
  EXPECT_THAT(notice.sources, ElementsAre("test"));
  EXPECT_THAT(notice.subjects, ElementsAre(0));
  EXPECT_GT(*notice.left, absl::Minutes(119));
  ASSERT_TRUE(workers.preemption(0).Withdraw("test", "1").ok());
  EXPECT_EQ(seen.WaitForCount(2).back(), "ended");
  EXPECT_EQ(workers.preemption(1).notice().outcome, "cancelled");
}

TEST(Preemption, PreemptionDefect17_TheNotifiedHostDiesAtOnceAndTheOthersSave) {
  NativeServer server(JobOf(3));
  Workers workers(JoinAll(server, 3));
  // The third never comes to a step, and is gone in the midst of it.
  ASSERT_TRUE(workers.preemption(2).Notify("test", "1", absl::Seconds(30)).ok());
  workers.Lose(2);
  workers.Run();
  const PreemptionNotice ended = workers.WaitForEnd(0, 1);
  EXPECT_EQ(ended.outcome, "partly_saved") << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("trainer/2#1 gone"));
  EXPECT_EQ(workers.StepsOf(1).size(), 1u);
}

}  // namespace
}  // namespace lockstep

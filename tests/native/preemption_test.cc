// Preemptions of real members with real links and threads: whoever saves, saves at the same step.
#include "lockstep/client/preemption.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/client/member.h"
#include "tests/native/native_server.h"
#include "tests/native/native_testing.h"

namespace lockstep {
namespace {

using link::testing::Seen;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Members that work in steps, each at its own speed but none far ahead of the others, as in a job
// that exchanges gradients; they save when they are told to.
class Workers {
 public:
  Workers(const NativeServer& server, int32_t size) : members_(JoinAll(server, size)) {
    for (const auto& member : members_) preemptions_.push_back(Preemption::Open(*member));
  }
  ~Workers() { Stop(); }

  Preemption& preemption(int member) { return *preemptions_[member]; }
  Member& member(int member) { return *members_[member]; }
  void Lose(int member) { members_[member].reset(); }

  // `stride`: of the polls of each. Goes on until `Stop`; returns when each has polled once: who
  // did not is not waited for.
  void Run(int64_t first = 0, int64_t stride = 1) {
    for (std::atomic<int64_t>& step : steps_) step = first;
    for (size_t i = 0; i < members_.size(); ++i) {
      threads_.emplace_back([this, i, first, stride] {
        for (int64_t step = first; !stop_; step += stride) {
          steps_[i] = step;
          while (!stop_ && step > Slowest() + kAheadMax * stride) std::this_thread::yield();
          if (preemptions_[i]->Reached(step)) {
            const int64_t id = preemptions_[i]->notice().id;
            {
              const std::lock_guard lock(mutex_);
              saved_[id].emplace(i, step);
            }
            preemptions_[i]->Saved(step, absl::StrCat("/ckpt/", step));
          }
          if (i % 2 == 1) std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
        }
      });
    }
    while (Slowest() == first) std::this_thread::yield();
  }
  void Stop() {
    stop_ = true;  // also of those that wait for the others
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // At which steps the members saved in that preemption.
  std::set<int64_t> StepsOf(int64_t id) {
    const std::lock_guard lock(mutex_);
    std::set<int64_t> steps;
    for (const auto& [member, step] : saved_[id]) steps.insert(step);
    return steps;
  }
  size_t SavedIn(int64_t id) {
    const std::lock_guard lock(mutex_);
    return saved_[id].size();
  }

  // Until a preemption has ended that is not older than `id`.
  PreemptionNotice WaitForEnd(int member, int64_t id) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < until) {
      const PreemptionNotice notice = preemption(member).notice();
      if (notice.id >= id && !notice.open) return notice;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "preemption " << id << " does not end: " << preemption(member).notice().phase;
    return {};
  }

 private:
  static constexpr int64_t kAheadMax = 20;

  int64_t Slowest() const {
    int64_t slowest = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i] != nullptr) slowest = std::min<int64_t>(slowest, steps_[i]);
    }
    return slowest;
  }

  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Preemption>> preemptions_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_ = false;
  std::array<std::atomic<int64_t>, 16> steps_ = {};
  std::mutex mutex_;
  std::map<int64_t, std::map<size_t, int64_t>> saved_;
};

TEST(Preemption, AllSaveAtOneStepAgainAndAgain) {
  NativeServer server(JobOf(4));
  Workers workers(server, 4);
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
  Workers workers(server, 2);
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
  Workers workers(server, 2);
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

TEST(Preemption, TheNotifiedHostDiesAtOnceAndTheOthersSave) {
  NativeServer server(JobOf(3));
  Workers workers(server, 3);
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

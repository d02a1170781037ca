// Rows of docs/conformance-preemption.md that want real members, links and threads. The test makes
// every poll itself, so that it knows who is where.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/client/member.h"
#include "lockstep/client/preemption.h"
#include "tests/native/native_server.h"
#include "tests/native/native_testing.h"
#include "tests/native/preemption_workers.h"

namespace lockstep {
namespace {

using link::testing::Seen;
using ::testing::ElementsAre;

// For anything to happen; far more than it takes.
constexpr absl::Duration kLong = absl::Minutes(10);

// Members that have not begun hold the others at the hold, until the test lets them begin.
coord::CoordinatorOptions Holding(int32_t size) {
  coord::CoordinatorOptions options = JobOf(size);
  options.preempt_awaits_all = true;
  options.preempt_sync_timeout = kLong;
  return options;
}

class Members {
 public:
  explicit Members(coord::CoordinatorOptions options)
      : server(std::make_unique<NativeServer>(options)), all(JoinAll(*server, options.size)) {
    for (const auto& member : all) {
      preemptions.push_back(Preemption::Open(*member, {.stride = 1, .wait_max = kLong}));
    }
    AwaitListening(all);
  }

  Preemption& operator[](int member) { return *preemptions[member]; }

  void Notify(int member, std::optional<absl::Duration> left = absl::Minutes(5)) {
    const absl::Status given = preemptions[member]->Notify("test", absl::StrCat(++notices_), left);
    EXPECT_TRUE(given.ok()) << given;
  }

  // A poll that may wait, in a thread of its own.
  std::future<bool> PollAside(int member, int64_t step) {
    return std::async(std::launch::async,
                      [&poll = *preemptions[member], step] { return poll.Reached(step); });
  }

  // What the member knows once that is so.
  PreemptionNotice Await(int member, const std::function<bool(const PreemptionNotice&)>& is) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (true) {
      PreemptionNotice notice = preemptions[member]->notice();
      if (is(notice)) return notice;
      if (std::chrono::steady_clock::now() >= give_up) {
        ADD_FAILURE() << "it does not come; the member is in " << notice.phase;
        return notice;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  PreemptionNotice AwaitPhase(int member, const std::string& phase) {
    return Await(member, [&](const PreemptionNotice& notice) { return notice.phase == phase; });
  }
  // The sync step, once the member knows it.
  int64_t AwaitStep(int member) {
    return Await(member, [](const PreemptionNotice& notice) { return notice.step.has_value(); })
        .step.value_or(-1);
  }

  std::unique_ptr<NativeServer> server;
  std::vector<std::unique_ptr<Member>> all;
  std::vector<std::unique_ptr<Preemption>> preemptions;

 private:
  int notices_ = 0;
};

void LeaveAll(Members& members) {
  std::vector<std::future<absl::Status>> leaving;
  for (const auto& member : members.all) {
    leaving.push_back(std::async(std::launch::async, [&member] { return member->Leave(); }));
  }
  for (auto& one : leaving) {
    const absl::Status left = one.get();
    EXPECT_TRUE(left.ok()) << left;
  }
}

TEST(PreemptionRows, PreemptionRow01_WithoutANoticeEveryPollIsFalse) {
  Members members(JobOf(2));
  for (int64_t step : {0, 1, 2}) {
    EXPECT_FALSE(members[0].Reached(step));
    EXPECT_FALSE(members[1].Reached(step));
  }
}

TEST(PreemptionRows, PreemptionRow02_TheNextPollIsTrueThoughTheOtherNeverPolled) {
  Members members(JobOf(2));
  EXPECT_FALSE(members[0].Reached(0));
  EXPECT_FALSE(members[0].Reached(1));
  members.Notify(0);
  EXPECT_EQ(members.AwaitStep(0), 2);
  EXPECT_TRUE(members[0].Reached(2));
}

TEST(PreemptionRows, PreemptionRow03_ThePollBehindTheStepIsFalse) {
  Members members(JobOf(2));
  EXPECT_FALSE(members[0].Reached(1));
  members.Notify(0);
  ASSERT_EQ(members.AwaitStep(0), 2);
  EXPECT_TRUE(members[0].Reached(2));
  EXPECT_FALSE(members[0].Reached(3));
  EXPECT_FALSE(members[0].Reached(4));
}

// Upstream finds no sync point then; ours is agreed on by those who are left.
TEST(PreemptionRows, PreemptionRow05_WithADeadMemberThePollDoesNotHang) {
  Members members(JobOf(2));
  Seen<absl::Status> errors;
  members.all[0]->OnError([&](const absl::Status& error) { errors.Add(error); });
  EXPECT_FALSE(members[0].Reached(0));
  members.all[1].reset();
  ASSERT_EQ(errors.WaitForCount(1).size(), 1u);

  const absl::Status given = members[0].Notify("test", "1", absl::Minutes(5));
  EXPECT_TRUE(given.ok()) << given;
  ASSERT_EQ(members.AwaitStep(0), 1);
  EXPECT_TRUE(members[0].Reached(1));
  members[0].Saved(1);
  EXPECT_EQ(members.AwaitPhase(0, "ended").outcome, "saved");
}

// The slow one has done step 0, the fast one step 2.
void ExpectBothAtThree(int notified) {
  Members members(JobOf(2));
  EXPECT_FALSE(members[0].Reached(0));
  for (int64_t step : {0, 1, 2}) EXPECT_FALSE(members[1].Reached(step));
  members.Notify(notified);
  EXPECT_EQ(members.AwaitStep(0), 3);
  EXPECT_EQ(members.AwaitStep(1), 3);
  for (int64_t step : {1, 2}) EXPECT_FALSE(members[0].Reached(step));
  EXPECT_TRUE(members[0].Reached(3)) << "the slow one";
  EXPECT_TRUE(members[1].Reached(3)) << "the fast one";
}

TEST(PreemptionRows, PreemptionRow06_TheSlowOneIsTrueWhereTheFastOneIsNext) {
  ExpectBothAtThree(0);
}
// The same; its last line is this row.
TEST(PreemptionRows, PreemptionRow07_TheFastOneIsTrueAtItsNextPoll) { ExpectBothAtThree(0); }
TEST(PreemptionRows, PreemptionRow08_WhoIsNotifiedDoesNotMatter) { ExpectBothAtThree(1); }

TEST(PreemptionRows, PreemptionRow09_BehindLeavingPollsAreFalse) {
  Members members(JobOf(2));
  members[0].Reached(0);
  LeaveAll(members);
  EXPECT_FALSE(members[0].Reached(1));
  EXPECT_FALSE(members[1].Reached(0));
}

TEST(PreemptionRows, PreemptionRow10_FinishingWithoutANoticeReturns) {
  Members members(JobOf(2));
  members[0].Finish();
  members[0].Finish();
  EXPECT_FALSE(members[0].Reached(1));
}

TEST(PreemptionRows, PreemptionRow11_AMemberThatNeverOpenedOneIsNotAsked) {
  NativeServer server(JobOf(2));
  auto all = JoinAll(server, 2);
  const auto preemption = Preemption::Open(*all[0], {.stride = 1});
  preemption->Reached(7);
  ASSERT_TRUE(preemption->Notify("test", "1", absl::Minutes(5)).ok());
  int64_t step = 8;
  while (!preemption->Reached(step)) ++step;
  preemption->Saved(step);
  while (preemption->notice().open) std::this_thread::yield();
  EXPECT_EQ(preemption->notice().outcome, "saved") << "the other is no part of it";
  // One that was opened, and nothing else.
  Preemption::Open(*all[1]).reset();
}

TEST(PreemptionRows, PreemptionRow12_FinishingBehindANoticeReturns) {
  Members members(Holding(2));
  members[0].Reached(1);
  members.Notify(0, absl::Hours(2));
  members.AwaitPhase(0, "pending");
  members.preemptions[1].reset();
  members.Notify(0, absl::Seconds(60));
  EXPECT_EQ(members.AwaitStep(0), 2) << "one that has finished is not waited for";
  members[0].Finish();
  EXPECT_FALSE(members[0].Reached(2));
}

TEST(PreemptionRows, PreemptionRow13_WhatEndsFirstDoesNotMatter) {
  enum Part { kPreemptions, kMembers, kServer };
  std::array<Part, 3> order = {kPreemptions, kMembers, kServer};
  do {
    Members members(Holding(2));
    members[0].Reached(1);
    members.Notify(0);
    members.AwaitPhase(0, "holding");
    std::future<bool> waits = members.PollAside(0, 2);
    for (const Part part : order) {
      if (part == kPreemptions) {
        // Not under the feet of who polls: that is the caller's to see to.
        members[0].Finish();
        EXPECT_FALSE(waits.get());
        members.preemptions.clear();
      } else if (part == kMembers) {
        members.all.clear();
      } else {
        members.server.reset();
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// Upstream hands CANCELLED to callbacks that wait.
TEST(PreemptionRows, PreemptionRow18_WhoWaitsIsLetGoAndNobodyIsCalledBehindTheEnd) {
  Members members(Holding(2));
  std::atomic<bool> finished = false;
  std::atomic<int> late = 0;
  Seen<std::string> seen;
  members[0].OnNotice([&](const PreemptionNotice& notice) {
    if (finished) ++late;
    seen.Add(notice.phase);
  });
  members[0].Reached(1);
  members.Notify(1);
  EXPECT_EQ(seen.WaitUntil([](const auto& all) { return !all.empty() && all.back() == "holding"; })
                .back(),
            "holding");
  std::future<bool> waits = members.PollAside(0, 2);
  members[0].Finish();
  finished = true;
  EXPECT_FALSE(waits.get());
  // What comes now is not told to it any more, but to others.
  ASSERT_TRUE(members[1].Withdraw("test", "1").ok());
  members.AwaitPhase(1, "ended");
  EXPECT_EQ(late, 0);
}

TEST(PreemptionRows, PreemptionGap10_AllThreadsOfAMemberHearTheSame) {
  constexpr int kThreads = 4;
  Members members(JobOf(1));
  std::atomic<bool> stop = false;
  std::atomic<int64_t> step = 0;
  bool done = false;  // the same for all in a step
  std::barrier together(kThreads, [&]() noexcept {
    done = stop;
    ++step;
  });
  Seen<int64_t> reached;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (true) {
        together.arrive_and_wait();
        if (done) return;
        const int64_t now = step;
        if (!members[0].Reached(now)) continue;
        reached.Add(now);
        members[0].Saved(now);
      }
    });
  }
  while (step < 100) std::this_thread::yield();
  members.Notify(0);
  const PreemptionNotice ended = members.AwaitPhase(0, "ended");
  const int64_t then = step;
  while (step < then + 2) std::this_thread::yield();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended.outcome, "saved");
  const int64_t at = ended.step.value_or(-1);
  EXPECT_THAT(reached.WaitForCount(kThreads), ElementsAre(at, at, at, at));
}

// Upstream's shutdown holds the lock that the protocol's thread wants.
TEST(PreemptionRows, PreemptionGap12_ANoticeAndTheEndMayMeet) {
  for (int round = 0; round < 30; ++round) {
    Members members(JobOf(2));
    std::atomic<bool> stop = false;
    std::vector<std::thread> polling;
    for (int i = 0; i < 2; ++i) {
      polling.emplace_back([&, i] {
        for (int64_t step = 0; !stop; ++step) {
          members[i].Reached(step);
          std::this_thread::yield();
        }
      });
    }
    std::thread notifying(
        [&] { (void)members[0].Notify("test", absl::StrCat(round), std::nullopt); });
    // The later, the further the notice has come.
    for (int i = 0; i < 20 * round; ++i) std::this_thread::yield();
    if (round % 2 == 0) members[1].Finish();
    LeaveAll(members);
    notifying.join();
    stop = true;
    for (std::thread& thread : polling) thread.join();
  }
}

TEST(PreemptionRows, PreemptionGap17_BrokenLinksChangeNothing) {
  Members members(Holding(2));
  members[0].Reached(1);
  members.Notify(0);
  members.AwaitPhase(0, "holding");
  std::future<bool> first = members.PollAside(0, 2);
  members.server->CutLinks();
  members.server->ended.WaitForCount(2);
  std::future<bool> other = members.PollAside(1, 1);
  EXPECT_EQ(members.AwaitStep(0), 2);
  EXPECT_EQ(members.AwaitStep(1), 2);
  EXPECT_TRUE(first.get());
  EXPECT_FALSE(other.get());
  members.server->CutLinks();
  members.server->ended.WaitForCount(4);
  members[0].Saved(2, "/ckpt/2");
  EXPECT_TRUE(members[1].Reached(2));
  members.server->CutLinks();
  members[1].Saved(2, "/ckpt/2");
  EXPECT_EQ(members.AwaitPhase(0, "ended").outcome, "saved");
  EXPECT_EQ(members.AwaitPhase(1, "ended").outcome, "saved");
}

// Upstream ends the process.
TEST(PreemptionRows, PreemptionDefect12_CallsBehindTheEndAreHarmless) {
  Members members(JobOf(2));
  members[0].Reached(1);
  members.Notify(0);
  members.AwaitStep(0);
  members[0].Finish();
  LeaveAll(members);
  for (int round = 0; round < 2; ++round) {
    for (Preemption* each : {&members[0], &members[1]}) {
      EXPECT_FALSE(each->Reached(50));
      each->Saved(50, "/ckpt/50");
      each->FailedToSave(50, "too late");
      each->Finish();
      EXPECT_FALSE(each->Notify("test", "late", std::nullopt).ok());
      EXPECT_FALSE(each->Withdraw("test", "late").ok());
      each->notice();
    }
    members.all.clear();
  }
}

// Warm-up, evaluation, the first compilation: no poll for a long time. The library answers for the
// program meanwhile, and the notice is there at the next poll, however late that is.
TEST(PreemptionRows, PreemptionDefect15_TheStepIsKnownBeforeAnybodyPollsAgain) {
  Members members(JobOf(2));
  for (int member : {0, 1}) EXPECT_FALSE(members[member].Reached(5));
  members.Notify(1);
  EXPECT_EQ(members.AwaitStep(0), 6);
  EXPECT_EQ(members.AwaitStep(1), 6);
  for (int member : {0, 1}) EXPECT_TRUE(members[member].Reached(6));
}

// Others pay for a collective in each step.
TEST(PreemptionRows, PreemptionDefect21_AStepAsksNobody) {
  Members members(JobOf(2));
  members.server->Kill();
  for (int64_t step = 0; step < 100'000; ++step) ASSERT_FALSE(members[0].Reached(step));
}

}  // namespace
}  // namespace lockstep

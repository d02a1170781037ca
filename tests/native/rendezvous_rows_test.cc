// Rows of docs/conformance-rendezvous.md that need threads and callbacks.
#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/native/rendezvous_members.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class RendezvousRows : public RendezvousOfMembers {
 protected:
  // A receive from member 0 that waits in another thread.
  std::future<absl::StatusOr<Received>> Wait(std::string name, CallOptions options = {}) {
    return std::async(std::launch::async, [this, name = std::move(name), options] {
      return step(1).Recv(name, 0, options);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Over, RendezvousRows, testing::Bool(), RendezvousOfMembers::NameOfParam);

// --- Order ---

TEST_P(RendezvousRows, RendezvousRow09_AReceiveThatWaitsGetsTheValue) {
  Begin(2);
  auto waits = Wait("x", {.timeout = kSoon});
  absl::SleepFor(absl::Milliseconds(10));
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("hello")).ok());
  EXPECT_EQ(TextOf(waits.get()), "hello");
}

TEST_P(RendezvousRows, RendezvousRow10_TwoThreadsPlayPingPongThoughOneIsSlow) {
  Begin(2);
  std::thread slow([&] {
    EXPECT_EQ(TextOf(step(1).Recv("foo", 0, {.timeout = kSoon})), "ping");
    absl::SleepFor(absl::Seconds(1));
    EXPECT_TRUE(step(1).Send("bar", 0, Tensor::Copy("pong")).ok());
  });
  EXPECT_TRUE(step(0).Send("foo", 1, Tensor::Copy("ping")).ok());
  EXPECT_EQ(TextOf(step(0).Recv("bar", 1, {.timeout = kSoon})), "pong");
  slow.join();
}

TEST_P(RendezvousRows, RendezvousRow17_SendsAndReceivesInAnyOrderFindEachOther) {
  Begin(2);
  constexpr size_t kKeys = 100;
  std::vector<std::unique_ptr<Receiving>> receiving(kKeys);
  std::vector<size_t> tasks(2 * kKeys);
  for (size_t i = 0; i < tasks.size(); ++i) tasks[i] = i;
  std::mt19937_64 random(17);
  std::shuffle(tasks.begin(), tasks.end(), random);
  std::vector<int> pauses;
  for (size_t i = 0; i < tasks.size(); ++i)
    pauses.push_back(100 + static_cast<int>(random() % 1000));
  std::atomic<size_t> next = 0;
  std::vector<std::thread> pool;
  for (int i = 0; i < 16; ++i) {
    pool.emplace_back([&] {
      for (size_t at = next++; at < tasks.size(); at = next++) {
        absl::SleepFor(absl::Microseconds(pauses[at]));
        const size_t key = tasks[at] % kKeys;
        const std::string name = std::to_string(key);
        if (tasks[at] < kKeys) {
          EXPECT_TRUE(step(0).Send(name, 1, Tensor::Copy("value " + name)).ok());
        } else {
          receiving[key] =
              std::make_unique<Receiving>(step(1), name, 0, CallOptions{.timeout = kSoon});
        }
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  for (size_t key = 0; key < kKeys; ++key) {
    EXPECT_EQ(TextOf(receiving[key]->Result()), "value " + std::to_string(key));
  }
}

// There is no call for several values: several receives that are begun in a row are one.
TEST_P(RendezvousRows,
       RendezvousRow34_SeveralValuesThatWereSentAreReceivedInTheOrderOfTheReceives) {
  Begin(2);
  ASSERT_TRUE(step(0).Send("hello", 1, Tensor::Copy("hello")).ok());
  ASSERT_TRUE(step(0).Send("bar", 1, Tensor::Copy("bar")).ok());
  Receiving hello(step(1), "hello", 0, {.timeout = kSoon});
  Receiving bar(step(1), "bar", 0, {.timeout = kSoon});
  EXPECT_EQ(TextOf(hello.Result()), "hello");
  EXPECT_EQ(TextOf(bar.Result()), "bar");
}

TEST_P(RendezvousRows, RendezvousRow35_SeveralReceivesThatWaitGetTheirValues) {
  Begin(2);
  Receiving hello(step(1), "hello", 0, {.timeout = kSoon});
  Receiving bar(step(1), "bar", 0, {.timeout = kSoon});
  ASSERT_TRUE(step(0).Send("bar", 1, Tensor::Copy("bar")).ok());
  ASSERT_TRUE(step(0).Send("hello", 1, Tensor::Copy("hello")).ok());
  EXPECT_EQ(TextOf(hello.Result()), "hello");
  EXPECT_EQ(TextOf(bar.Result()), "bar");
}

TEST_P(RendezvousRows, RendezvousRow36_OfSeveralReceivesEachEndsOnceThoughOneFails) {
  Begin(2);
  Receiving drained(step(1), "a", 0, {.timeout = kSoon});
  Receiving fails(step(1), "b", 0, {.timeout = absl::Milliseconds(20)});
  Receiving cancelled(step(1), "c", 0, {.timeout = kSoon});
  ASSERT_TRUE(step(0).Send("a", 1, Tensor::Copy("1")).ok());
  EXPECT_EQ(ReasonOf(fails.Result().status()), "receive_timed_out");
  EXPECT_EQ(TextOf(drained.Result()), "1");
  drained.Cancel();
  cancelled.Cancel();
  EXPECT_EQ(ReasonOf(cancelled.Result().status()), "cancelled");
  // None of them takes what comes now.
  for (const std::string name : {"a", "b", "c"}) {
    ASSERT_TRUE(step(0).Send(name, 1, Tensor::Copy("next")).ok());
    EXPECT_EQ(TextOf(step(1).Recv(name, 0, {.timeout = kSoon})), "next");
  }
}

TEST_P(RendezvousRows, RendezvousRow46_TenThousandReceivesOfOneKeyAreAllAnswered) {
  Begin(2);
  constexpr int kReceives = 10'000;
  std::vector<std::unique_ptr<Receiving>> receiving;
  for (int i = 0; i < kReceives; ++i) {
    receiving.push_back(
        std::make_unique<Receiving>(step(1), "x", 0, CallOptions{.timeout = absl::Minutes(2)}));
  }
  std::mt19937_64 random(46);
  for (int i = 0; i < kReceives; ++i) {
    if (random() % 100 == 0) absl::SleepFor(absl::Microseconds(random() % 2000));
    ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(std::to_string(i))).ok());
  }
  for (int i = 0; i < kReceives; ++i) ASSERT_EQ(TextOf(receiving[i]->Result()), std::to_string(i));
  EXPECT_EQ(ReasonOf(step(1).Recv("x", 0, {.timeout = absl::Milliseconds(20)}).status()),
            "receive_timed_out");
}

// --- Steps ---

TEST_P(RendezvousRows, RendezvousRow37_AMemberReceivesWhatItSentToItself) {
  Begin(1);
  auto opened = rendezvous_[0]->OpenStep(123);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE(opened->Send("foo", 0, Tensor::Copy("peach")).ok());
  EXPECT_EQ(TextOf(opened->Recv("foo", 0, {.timeout = kSoon})), "peach");
}

TEST_P(RendezvousRows, RendezvousRow38_AStepThatIsOpenedAgainIsTheSame) {
  Begin(2);
  auto again = rendezvous_[1]->OpenStep(7);
  ASSERT_TRUE(again.ok()) << again.status();
  Receiving waits(step(1), "x", 0, {.timeout = kSoon});
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("first")).ok());
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("second")).ok());
  EXPECT_EQ(TextOf(again->Recv("x", 0, {.timeout = kSoon})), "second");
  EXPECT_EQ(TextOf(waits.Result()), "first");
  step(1).Close();
  EXPECT_EQ(ReasonOf(again->Recv("x", 0, {.timeout = kSoon}).status()), "step_closed");
}

TEST_P(RendezvousRows, RendezvousRow47_OpeningTwiceIsNoMistake) {
  Begin(2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rendezvous_[1]->OpenStep(7).ok());
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("hello")).ok());
  EXPECT_EQ(TextOf(step(1).Recv("x", 0, {.timeout = kSoon})), "hello");
  EXPECT_EQ(ReasonOf(rendezvous_[1]->OpenStep(-1).status()), "invalid_argument");
}

// --- Ends ---

TEST_P(RendezvousRows, RendezvousRow25_AnAbortWithOkIsRefused) {
  Begin(2);
  const absl::Status refused = step(0).Abort(absl::OkStatus());
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(refused), "invalid_argument");
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("still here")).ok());
  EXPECT_EQ(TextOf(step(1).Recv("x", 0, {.timeout = kSoon})), "still here");
}

TEST_P(RendezvousRows, RendezvousRow29_TheEndWaitsForTheCallbackInProgress) {
  Begin(2);
  std::promise<void> entered;
  std::promise<void> may_leave;
  std::atomic<bool> left = false;
  step(1).RecvAsync("x", 0, {.timeout = kSoon}, [&](absl::StatusOr<Received>) {
    entered.set_value();
    may_leave.get_future().wait();
    left = true;
  });
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("hello")).ok());
  entered.get_future().wait();
  auto ends = std::async(std::launch::async, [&] {
    End(1);
    return left.load();
  });
  EXPECT_EQ(ends.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  may_leave.set_value();
  EXPECT_TRUE(ends.get());
}

TEST_P(RendezvousRows, RendezvousRow29_WhatTheEndCancelsHasBeenCalledBackWhenItReturns) {
  Begin(2);
  for (int round = 0; round < 20; ++round) {
    const auto reasons = std::make_shared<std::vector<std::string>>();
    for (int i = 0; i < 10; ++i) {
      step(1).RecvAsync("x", 0, {}, [reasons](const absl::StatusOr<Received>& received) {
        reasons->emplace_back(ReasonOf(received.status()));
      });
    }
    End(1);
    ASSERT_EQ(*reasons, std::vector<std::string>(10, "rendezvous_closed"));
    auto next = Rendezvous::Open(*members_[1], {.shared_memory = GetParam()});
    ASSERT_TRUE(next.ok()) << next.status();
    rendezvous_[1] = *std::move(next);
    steps_[1] = *rendezvous_[1]->OpenStep(7);
  }
}

TEST_P(RendezvousRows, RendezvousRow29_ACallbackMayEndItAll) {
  Begin(2);
  std::promise<void> ended;
  step(1).RecvAsync("x", 0, {.timeout = kSoon}, [&](absl::StatusOr<Received>) {
    End(1);
    ended.set_value();
  });
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("hello")).ok());
  ended.get_future().wait();
}

TEST_P(RendezvousRows, RendezvousRow32_ASendDoesNotWaitForTheCallbackOfTheReceive) {
  Begin(2);
  for (const int32_t from : {0, 1}) {  // another member, and itself
    auto sent = std::make_shared<std::promise<void>>();
    std::promise<bool> saw_it_sent;
    step(1).RecvAsync("x", from, {.timeout = kSoon}, [&, sent](absl::StatusOr<Received> received) {
      EXPECT_EQ(TextOf(received), "hello");
      saw_it_sent.set_value(sent->get_future().wait_for(absl::ToChronoSeconds(kSoon)) ==
                            std::future_status::ready);
    });
    ASSERT_TRUE(step(static_cast<size_t>(from)).Send("x", 1, Tensor::Copy("hello")).ok());
    sent->set_value();
    EXPECT_TRUE(saw_it_sent.get_future().get());
  }
}

TEST_P(RendezvousRows, RendezvousRow39_AnAbortEndsAReceiveThatWaits) {
  Begin(2);
  auto waits = Wait("x");
  absl::SleepFor(absl::Milliseconds(100));
  ASSERT_TRUE(step(1).Abort(absl::AbortedError("stop")).ok());
  const auto aborted = waits.get();
  EXPECT_EQ(aborted.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(aborted.status()), "step_aborted");
}

TEST_P(RendezvousRows, RendezvousRow40_ClosingTheStepEndsAReceiveThatWaits) {
  Begin(2);
  auto waits = Wait("x");
  absl::SleepFor(absl::Milliseconds(100));
  step(1).Close();
  EXPECT_EQ(ReasonOf(waits.get().status()), "step_closed");
}

TEST_P(RendezvousRows, RendezvousRow41_WhatIsLeftOfARendezvousThatEndedSaysSo) {
  Begin(2);
  auto waits = Wait("x");
  absl::SleepFor(absl::Milliseconds(10));
  End(1);
  EXPECT_EQ(ReasonOf(waits.get().status()), "rendezvous_closed");
  EXPECT_EQ(ReasonOf(step(1).Recv("x", 0).status()), "rendezvous_closed");
  EXPECT_EQ(ReasonOf(step(1).Send("x", 0, Tensor::Copy("late"))), "rendezvous_closed");
  EXPECT_EQ(ReasonOf(Receiving(step(1), "x", 0).Result().status()), "rendezvous_closed");
  step(1).Close();
}

TEST_P(RendezvousRows, RendezvousRow42_ACancelEndsAReceiveThatWaits) {
  Begin(2);
  Receiving waits(step(1), "x", 0);
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(waits.done());
  waits.Cancel();
  const auto cancelled = waits.Result();
  EXPECT_EQ(cancelled.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReasonOf(cancelled.status()), "cancelled");
}

TEST_P(RendezvousRows, RendezvousRow42_WhoIsInterruptedStopsWaiting) {
  Begin(2);
  std::atomic<bool> interrupted = false;
  auto waits = Wait("x", {.interrupted = [&] {
                      return interrupted ? absl::CancelledError("Ctrl-C") : absl::OkStatus();
                    }});
  absl::SleepFor(absl::Milliseconds(100));
  interrupted = true;
  EXPECT_THAT(TextOf(waits.get()), HasSubstr("Ctrl-C"));
}

TEST_P(RendezvousRows, RendezvousRow43_ACancelBehindTheValueChangesNothing) {
  Begin(2);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("hello")).ok());
  Receiving receives(step(1), "x", 0, {.timeout = kSoon});
  while (!receives.done()) std::this_thread::yield();
  receives.Cancel();
  EXPECT_EQ(TextOf(receives.Result()), "hello");
}

TEST_P(RendezvousRows, RendezvousRow77_AnAbortHereEndsAReceiveFromAfar) {
  Begin(2);
  ASSERT_TRUE(step(0).Send("y", 1, Tensor::Copy("there is a way")).ok());
  ASSERT_EQ(TextOf(step(1).Recv("y", 0, {.timeout = kSoon})), "there is a way");
  auto waits = Wait("x");
  absl::SleepFor(absl::Milliseconds(10));
  ASSERT_TRUE(step(1).Abort(absl::CancelledError("no more of this")).ok());
  const auto aborted = waits.get();
  EXPECT_EQ(aborted.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(aborted.status().message()), HasSubstr("no more of this"));
}

}  // namespace
}  // namespace lockstep

#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/native/rendezvous_members.h"

namespace lockstep {
namespace {

INSTANTIATE_TEST_SUITE_P(Over, RendezvousOfMembers, testing::Bool(),
                         RendezvousOfMembers::NameOfParam);

TEST_P(RendezvousOfMembers, GivesAValueToAnotherMember) {
  Begin(2);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("hello")).ok());
  const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->tensor.text(), "hello");
  for (const auto& rendezvous : rendezvous_) {
    const auto transports = rendezvous->Transports();
    ASSERT_EQ(transports.size(), 1);
    EXPECT_EQ(transports[0].transport, GetParam() ? "shm" : "tcp");
    EXPECT_EQ(transports[0].why_not_shared.empty(), GetParam());
  }
}

TEST_P(RendezvousOfMembers, GivesAValueToAReceiveThatWaits) {
  Begin(2);
  auto waits =
      std::async(std::launch::async, [&] { return step(0).Recv("x", 1, {.timeout = kSoon}); });
  ASSERT_TRUE(step(1).SendAcked("x", 0, Tensor::Copy("hello"), {.timeout = kSoon}).ok());
  const auto received = waits.get();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->tensor.text(), "hello");
}

TEST_P(RendezvousOfMembers, GivesLongValuesWhereTheyLie) {
  Begin(2);
  const std::string pattern = Pattern(3 << 20);
  auto made = rendezvous_[0]->Allocate({.shape = {static_cast<int64_t>(pattern.size())}});
  ASSERT_TRUE(made.ok()) << made.status();
  std::memcpy(made->bytes().data(), pattern.data(), pattern.size());
  ASSERT_TRUE(step(0).Send("x", 1, made->Finish()).ok());
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  for (int i = 0; i < 2; ++i) {
    const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(received->tensor.text(), pattern);
  }
}

TEST_P(RendezvousOfMembers, SharesAValueThatAMemberSendsToItself) {
  Begin(2);
  const Tensor value = Tensor::Copy(Pattern(100'000));
  ASSERT_TRUE(step(0).Send("x", 0, value).ok());
  const auto received = step(0).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->tensor.bytes().data(), value.bytes().data());
}

TEST_P(RendezvousOfMembers, ReceivesIntoMemoryThatFits) {
  Begin(2);
  const std::string pattern = Pattern(100'000);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("short")).ok());
  std::vector<std::byte> into(pattern.size());
  ASSERT_TRUE(step(1).RecvInto("x", 0, into, {.timeout = kSoon}).ok());
  EXPECT_EQ(std::memcmp(into.data(), pattern.data(), into.size()), 0);

  const absl::Status mismatch = step(1).RecvInto("x", 0, into, {.timeout = kSoon});
  EXPECT_EQ(ReasonOf(mismatch), "size_mismatch") << mismatch;
  EXPECT_EQ(std::memcmp(into.data(), pattern.data(), into.size()), 0);
}

TEST_P(RendezvousOfMembers, AReceiveThatTimesOutLeavesItsPlaceToTheNext) {
  Begin(2);
  const auto late = step(1).Recv("x", 0, {.timeout = absl::Milliseconds(20)});
  EXPECT_EQ(ReasonOf(late.status()), "receive_timed_out") << late.status();
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("hello")).ok());
  const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->tensor.text(), "hello");
}

TEST_P(RendezvousOfMembers, AnAbortReachesThoseWhoWait) {
  Begin(3);
  auto waits =
      std::async(std::launch::async, [&] { return step(2).Recv("x", 0, {.timeout = kSoon}); });
  ASSERT_TRUE(step(0)
                  .SendAcked("begin", 2, Tensor::Copy("1"), {.timeout = absl::Milliseconds(50)})
                  .code() == absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(step(0).Abort(absl::OkStatus())), "invalid_argument");
  ASSERT_TRUE(step(0).Abort(absl::DataLossError("loss is not a number")).ok());
  const auto aborted = waits.get();
  EXPECT_EQ(ReasonOf(aborted.status()), "step_aborted") << aborted.status();
  EXPECT_EQ(aborted.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(aborted.status().message()),
              testing::HasSubstr("trainer/0 aborted step 7"));
  EXPECT_EQ(ReasonOf(step(2).Send("y", 0, Tensor::Copy("1"))), "step_aborted");
}

TEST_P(RendezvousOfMembers, CountsWhatWentAndWhatWaits) {
  Begin(2);
  const std::string text = Pattern(200'000);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(text)).ok());
  ASSERT_TRUE(step(0).Send("y", 1, Tensor::Copy("hello")).ok());
  ASSERT_TRUE(step(1).Recv("x", 0, {.timeout = kSoon}).ok());
  ASSERT_TRUE(step(1).Recv("y", 0, {.timeout = kSoon}).ok());
  const RendezvousCounters sender = rendezvous_[0]->Counters();
  EXPECT_EQ(sender.sent_values, 2);
  EXPECT_EQ(sender.sent_bytes, text.size() + 5);
  EXPECT_EQ(sender.received_values, 0);
  EXPECT_EQ(sender.waits, 0);
  std::promise<absl::Status> ended;
  const Pending waits = step(1).RecvAsync(
      "never", 0, {.timeout = kSoon},
      [&](absl::StatusOr<Received> received) { ended.set_value(received.status()); });
  const RendezvousCounters receiver = rendezvous_[1]->Counters();
  EXPECT_EQ(receiver.received_values, 2);
  EXPECT_EQ(receiver.received_bytes, text.size() + 5);
  EXPECT_EQ(receiver.waits, 1);
  EXPECT_GT(rendezvous_[1]->Counters().oldest_wait, absl::ZeroDuration());
  waits.Cancel();
  EXPECT_FALSE(ended.get_future().get().ok());
  EXPECT_EQ(rendezvous_[1]->Counters().waits, 0);
}

TEST_P(RendezvousOfMembers, AMemberThatGoesIsNamed) {
  Begin(2);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("hello")).ok());
  ASSERT_TRUE(step(1).Recv("x", 0, {.timeout = kSoon}).ok());
  auto waits =
      std::async(std::launch::async, [&] { return step(1).Recv("x", 0, {.timeout = kSoon}); });
  steps_[0] = step(1);
  rendezvous_[0] = nullptr;
  const auto lost = waits.get();
  EXPECT_EQ(ReasonOf(lost.status()), "peer_lost") << lost.status();
  EXPECT_THAT(std::string(lost.status().message()), testing::HasSubstr("trainer/0"));
}

// Its sender may use the memory again only when nobody looks at it.
TEST_P(RendezvousOfMembers, AMemberHasOneAtATime) {
  Begin(1);
  const auto second = Rendezvous::Open(*members_[0]);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(second.status()), "rendezvous_open");
  // The first goes on, and gives its place up at its end.
  ASSERT_TRUE(step(0).Send("a", 0, Tensor::Copy("x")).ok());
  EXPECT_EQ(TextOf(step(0).Recv("a", 0, {.timeout = kSoon})), "x");
  End(0);
  EXPECT_TRUE(Rendezvous::Open(*members_[0]).ok());
}

TEST_P(RendezvousOfMembers, AReceivedTensorStaysAsItIsWhenItsReceiverHasClosed) {
  Begin(3);
  const std::string pattern = Pattern(300'000);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  auto waits =
      std::async(std::launch::async, [&] { return step(0).Recv("never", 1, {.timeout = kSoon}); });
  steps_[1] = step(2);
  rendezvous_[1] = nullptr;
  EXPECT_EQ(ReasonOf(waits.get().status()), "peer_lost");
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(step(0).Send("y", 2, Tensor::Copy(std::string(300'000, 'y'))).ok());
    EXPECT_TRUE(received->tensor.text() == pattern) << i;
  }
}

// Nor when the job has failed: the sender's program may not have heard of it, and sends more.
TEST_P(RendezvousOfMembers, AReceivedTensorStaysAsItIsWhenTheJobFails) {
  Begin(3);
  const std::string pattern = Pattern(300'000);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  rendezvous_[2] = nullptr;
  members_[2] = nullptr;
  const std::string other(pattern.size(), '-');
  absl::Status sent;
  const absl::Time until = absl::Now() + kSoon;
  do {
    sent = step(0).Send("y", 1, Tensor::Copy(other));
    ASSERT_LT(absl::Now(), until);
  } while (sent.ok());
  // Until what is given back could have come back.
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(step(0).Send("y", 1, Tensor::Copy(other)).ok());
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(received->tensor.text() == pattern);
}

TEST_P(RendezvousOfMembers, ManyValuesUnderManyKeysFromManyThreads) {
  Begin(3);
  constexpr int kKeys = 200;
  std::vector<std::thread> threads;
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      threads.emplace_back([&, from, to] {
        for (int key = 0; key < kKeys; ++key) {
          const std::string text = Pattern(static_cast<size_t>(key) * 300) + std::to_string(from);
          EXPECT_TRUE(step(from).Send(std::to_string(key), to, Tensor::Copy(text)).ok());
        }
      });
      threads.emplace_back([&, from, to] {
        for (int key = kKeys - 1; key >= 0; --key) {
          const std::string text = Pattern(static_cast<size_t>(key) * 300) + std::to_string(from);
          const auto received = step(to).Recv(std::to_string(key), from, {.timeout = kSoon});
          ASSERT_TRUE(received.ok()) << received.status();
          EXPECT_EQ(received->tensor.text(), text);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(RendezvousOfMembers, AsyncReceivesCompleteOnceEach) {
  Begin(2);
  std::vector<std::promise<std::string>> promises(10);
  std::vector<std::future<std::string>> futures;
  for (auto& promise : promises) {
    futures.push_back(promise.get_future());
    step(1).RecvAsync("x", 0, {.timeout = kSoon}, [&promise](absl::StatusOr<Received> received) {
      promise.set_value(received.ok() ? std::string(received->tensor.text())
                                      : received.status().ToString());
    });
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(std::to_string(i))).ok());
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(futures[i].get(), std::to_string(i));
}

}  // namespace
}  // namespace lockstep

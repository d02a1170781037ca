// The rendezvous over a network that fails, and of members that do not find out at once how to
// reach each other.
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
#include "lockstep/wire/native/codec.h"
#include "tests/native/rendezvous_liar.h"
#include "tests/native/rendezvous_testing.h"

namespace lockstep {
namespace {

using transport::BulkCode;
using transport::BulkHeader;
using wire::native::FetchChunk;
using wire::native::LinkPurpose;
using wire::native::PeerHello;

TEST_F(RendezvousOverNetwork, LinksCutInTheMidstOfMessagesLoseAndDoubleNone) {
  Begin(2);
  for (size_t i = 0; i < 2; ++i) {
    Proxy(i, &Card::tcp_address,
          {.cut_after_min = 300, .cut_after_max = 60'000, .cuts_max = 12, .seed = 17});
  }
  constexpr int kValues = 400;
  std::vector<std::thread> threads;
  for (int from = 0; from < 2; ++from) {
    const int to = 1 - from;
    threads.emplace_back([this, from, to] {
      for (int i = 0; i < kValues; ++i) {
        EXPECT_TRUE(
            step(from).Send("x", to, Tensor::Copy(Pattern(static_cast<size_t>(i) * 17, i))).ok());
      }
    });
    threads.emplace_back([this, from, to] {
      for (int i = 0; i < kValues; ++i) {
        const auto received = step(to).Recv("x", from, {.timeout = kSoon});
        ASSERT_TRUE(received.ok()) << received.status();
        ASSERT_EQ(received->tensor.text(), Pattern(static_cast<size_t>(i) * 17, i)) << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int to = 0; to < 2; ++to) {
    const auto more = step(to).Recv("x", 1 - to, {.timeout = absl::Milliseconds(50)});
    EXPECT_EQ(ReasonOf(more.status()), "receive_timed_out") << more.status();
  }
  EXPECT_GT(proxies_[0]->cuts() + proxies_[1]->cuts(), 3);
}

TEST_F(RendezvousOverNetwork, AFetchGoesOnWhereItsConnectionWasCut) {
  Begin(2);
  FaultProxy& proxy =
      Proxy(0, &Card::bulk_address,
            {.cut_after_min = 1 << 20, .cut_after_max = 12 << 20, .cuts_max = 6, .seed = 5});
  const std::string pattern = Pattern(64 << 20);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(received->tensor.text() == pattern);
  EXPECT_GE(proxy.cuts(), 5);
  // What had come was not asked for again, but for a buffer of the kernel's at each cut.
  EXPECT_LT(proxy.bytes(), pattern.size() + (48 << 20));
}

// Delays, and cuts in the midst of messages and of values, both ways.
TEST_F(RendezvousOverNetwork, RendezvousRow103_WhatIsCutAndDelayedComesOnceAndWhole) {
  Begin(2);
  for (size_t i = 0; i < 2; ++i) {
    Proxy(i, &Card::tcp_address,
          {.cut_after_min = 200,
           .cut_after_max = 20'000,
           .cuts_max = 10,
           .delay = std::chrono::microseconds(300),
           .seed = 3});
    Proxy(i, &Card::bulk_address,
          {.cut_after_min = 100'000,
           .cut_after_max = 3'000'000,
           .cuts_max = 8,
           .delay = std::chrono::microseconds(100),
           .seed = 4});
  }
  const auto bytes_of = [](int i) {
    return i % 10 == 9 ? 2'500'000 + static_cast<size_t>(i) : static_cast<size_t>(i) * 331;
  };
  constexpr int kValues = 60;
  std::vector<std::thread> threads;
  for (int from = 0; from < 2; ++from) {
    const int to = 1 - from;
    threads.emplace_back([&, from, to] {
      for (int i = 0; i < kValues; ++i) {
        EXPECT_TRUE(step(from).SendAcked("x", to, Tensor::Copy(Pattern(bytes_of(i), i))).ok());
      }
    });
    threads.emplace_back([&, from, to] {
      for (int i = 0; i < kValues; ++i) {
        const auto received = step(to).Recv("x", from, {.timeout = kSoon});
        ASSERT_TRUE(received.ok()) << received.status();
        ASSERT_TRUE(received->tensor.text() == Pattern(bytes_of(i), i)) << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int cuts = 0;
  for (const auto& proxy : proxies_) cuts += proxy->cuts();
  EXPECT_GT(cuts, 8);
  for (int to = 0; to < 2; ++to) {
    const auto more = step(to).Recv("x", 1 - to, {.timeout = absl::Milliseconds(50)});
    EXPECT_EQ(ReasonOf(more.status()), "receive_timed_out") << more.status();
  }
}

TEST_F(RendezvousOverNetwork, WhileNothingComesThroughAReceiveEndsByItsDeadlineAndNamesTheSender) {
  Begin(2);
  for (size_t i = 0; i < 2; ++i) Proxy(i, &Card::tcp_address, {});
  ExchangeOnce();
  for (const auto& proxy : proxies_) proxy->Hold(true);
  ASSERT_TRUE(step(0).Send("y", 1, Tensor::Copy("hello")).ok());
  const auto late = step(1).Recv("y", 0, {.timeout = absl::Milliseconds(200)});
  EXPECT_EQ(ReasonOf(late.status()), "receive_timed_out") << late.status();
  EXPECT_THAT(std::string(late.status().message()), ::testing::HasSubstr("trainer/0"));
  for (const auto& proxy : proxies_) proxy->Hold(false);
  const auto received = step(1).Recv("y", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->tensor.text(), "hello");
}

TEST_F(RendezvousOverNetwork, ManyLongValuesTakeTurns) {
  Begin(2);
  constexpr int kValues = 48;
  const size_t bytes = (size_t{1} << 20) + 12'345;
  std::vector<std::promise<absl::StatusOr<Received>>> promises(kValues);
  for (int i = 0; i < kValues; ++i) {
    step(1).RecvAsync(
        std::to_string(i), 0, {.timeout = kSoon},
        [&promise = promises[static_cast<size_t>(i)]](absl::StatusOr<Received> received) {
          promise.set_value(std::move(received));
        });
  }
  for (int i = 0; i < kValues; ++i) {
    ASSERT_TRUE(step(0).Send(std::to_string(i), 1, Tensor::Copy(Pattern(bytes, i))).ok());
  }
  for (int i = 0; i < kValues; ++i) {
    const auto received = promises[static_cast<size_t>(i)].get_future().get();
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_TRUE(received->tensor.text() == Pattern(bytes, i)) << i;
  }
}

TEST_F(RendezvousOverNetwork, TwoWhoSendFirstAtTheSameTimeFindEachOther) {
  Begin(2);
  for (int round = 0; round < 60; ++round) {
    if (round > 0) Open();
    std::vector<std::thread> threads;
    for (int from = 0; from < 2; ++from) {
      threads.emplace_back([this, from] {
        EXPECT_TRUE(step(from).Send("x", 1 - from, Tensor::Copy("hello")).ok());
        const auto received = step(from).Recv("x", 1 - from, {.timeout = kSoon});
        EXPECT_TRUE(received.ok()) << received.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

TEST_F(RendezvousOverNetwork, MembersWhoseMemoryCannotBeReachedAgreeOnTheNetwork) {
  Begin(2, /*shared_memory=*/true);
  for (const std::vector<size_t>& hidden : {std::vector<size_t>{0}, {1}, {0, 1}}) {
    Open();
    for (const size_t member : hidden) {
      ChangeCard(member, [](Card& card) { card.unix_address = "@lockstep-nobody-listens-here"; });
    }
    ExchangeOnce();
    const auto transports = TransportsOfFirstTwo();
    ASSERT_EQ(transports.size(), 2);
    EXPECT_EQ(transports[0], transports[1]);
    // Of member 0 only who knocks is in need.
    if (hidden.back() == 1) {
      EXPECT_EQ(transports[0], "tcp");
    }
  }
}

TEST_F(RendezvousOverNetwork, OneWhoKnocksInVainDialsByTheNetwork) {
  Begin(2, /*shared_memory=*/true);
  ChangeCard(0, [](Card& card) { card.unix_address = "@lockstep-nobody-listens-here"; });
  ASSERT_TRUE(step(1).Send("x", 0, Tensor::Copy("hello")).ok());
  const auto received = step(0).Recv("x", 1, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
}

TEST_F(RendezvousOverNetwork, AFetchWhoseSenderGoesEndsWithItsName) {
  Begin(2);
  FaultProxy& proxy = Proxy(0, &Card::bulk_address, {});
  proxy.Hold(true);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(Pattern(8 << 20))).ok());
  auto waits =
      std::async(std::launch::async, [&] { return step(1).Recv("x", 0, {.timeout = kSoon}); });
  ASSERT_TRUE(step(1).Send("y", 0, Tensor::Copy("go")).ok());
  ASSERT_TRUE(step(0).Recv("y", 1, {.timeout = kSoon}).ok());
  steps_[0] = step(1);
  rendezvous_[0] = nullptr;
  const auto lost = waits.get();
  EXPECT_EQ(ReasonOf(lost.status()), "peer_lost") << lost.status();
  EXPECT_THAT(std::string(lost.status().message()), ::testing::HasSubstr("trainer/0"));
}

TEST_F(RendezvousOverNetwork, RendezvousRow80_AMemberThatBeganAnewIsNotTakenForTheFormer) {
  Begin(2);
  FaultProxy& proxy = Proxy(0, &Card::tcp_address, {});
  ASSERT_TRUE(step(1).Send("x", 0, Tensor::Copy("hello")).ok());
  // Else member 0 might dial as well, and not through the proxy.
  while (rendezvous_[0]->Transports().empty()) std::this_thread::yield();
  ASSERT_TRUE(step(0).Recv("x", 1, {.timeout = kSoon}).ok());
  auto waits =
      std::async(std::launch::async, [&] { return step(1).Recv("x", 0, {.timeout = kSoon}); });
  proxy.Hold(true);  // nobody hears of its end
  steps_[0] = step(1);
  rendezvous_[0] = nullptr;
  auto again = Rendezvous::Open(
      *members_[0], {.shared_memory = false, .process_memory = false, .first_lease = 100});
  ASSERT_TRUE(again.ok()) << again.status();
  rendezvous_[0] = *std::move(again);
  steps_[0] = *rendezvous_[0]->OpenStep(7);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy("of another life")).ok());

  for (const auto& restarted : {waits.get(), step(1).Recv("x", 0, {.timeout = kSoon})}) {
    EXPECT_EQ(restarted.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(restarted.status()), "peer_restarted") << restarted.status();
    EXPECT_THAT(std::string(restarted.status().message()), ::testing::HasSubstr("trainer/0"));
  }
  proxy.Hold(false);
}

TEST_F(RendezvousOverNetwork, AFetchEndsWhenItsReceiverCloses) {
  Begin(2);
  FaultProxy& proxy = Proxy(0, &Card::bulk_address, {.delay = std::chrono::milliseconds(5)});
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(Pattern(64 << 20))).ok());
  std::promise<absl::Status> ended;
  step(1).RecvAsync("x", 0, {.timeout = kSoon},
                    [&](absl::StatusOr<Received> received) { ended.set_value(received.status()); });
  while (proxy.bytes() < (1 << 20)) std::this_thread::yield();
  steps_[1] = step(0);
  rendezvous_[1] = nullptr;
  const absl::Status status = ended.get_future().get();
  EXPECT_EQ(ReasonOf(status), "rendezvous_closed") << status;
}

TEST_F(RendezvousOverNetwork, AFetchThatTimesOutLeavesTheMemoryAndTheValueToTheNext) {
  Begin(2);
  FaultProxy& proxy = Proxy(0, &Card::bulk_address, {.delay = std::chrono::milliseconds(1)});
  const std::string pattern = Pattern(32 << 20);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  std::vector<std::byte> into(pattern.size());
  const absl::Status late = step(1).RecvInto("x", 0, into, {.timeout = absl::Milliseconds(60)});
  EXPECT_EQ(ReasonOf(late), "receive_timed_out") << late;
  // Ours again: nobody writes it while the next one fetches.
  std::fill(into.begin(), into.end(), std::byte{0x5a});
  const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(received->tensor.text() == pattern);
  EXPECT_TRUE(std::all_of(into.begin(), into.end(),
                          [](std::byte each) { return each == std::byte{0x5a}; }));
  EXPECT_GT(proxy.bytes(), pattern.size());
}

TEST_F(RendezvousOverNetwork, NobodyFetchesWhatIsNotLentToHimOrBeyondIt) {
  Begin(3);
  const std::string pattern = Pattern(100'000);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  const Card card = CardOf(0);
  const PeerHello hello = {.version_min = 1,
                           .version_max = 1,
                           .purpose = LinkPurpose::kBulk,
                           .job = members_[0]->job(),
                           .attempt = members_[0]->attempt(),
                           .from = 1,
                           .to = 0,
                           .token = card.token};
  {
    Liar liar(card.bulk_address, hello);
    ASSERT_TRUE(liar.IsWelcomed());
    const BulkHeader good = liar.Ask({.lease = 101, .offset = 90'000, .bytes = 10'000});
    EXPECT_EQ(good.code, BulkCode::kBytes);
    EXPECT_EQ(liar.Hear(10'000), pattern.substr(90'000));
    for (const FetchChunk& beyond : {FetchChunk{.lease = 101, .offset = 90'001, .bytes = 10'000},
                                     {.lease = 101, .offset = 100'001, .bytes = 1},
                                     {.lease = 101, .offset = UINT64_MAX, .bytes = 2},
                                     {.lease = 101, .offset = 0, .bytes = 0},
                                     {.lease = 101, .offset = 0, .bytes = UINT64_MAX}}) {
      const BulkHeader refused = liar.Ask(beyond);
      EXPECT_EQ(refused.code, BulkCode::kRange);
      liar.Hear(refused.bytes);
    }
    EXPECT_EQ(liar.Ask({.lease = 102, .bytes = 1}).code, BulkCode::kUnknown);
  }
  PeerHello third = hello;
  third.from = 2;
  Liar other(card.bulk_address, third);
  ASSERT_TRUE(other.IsWelcomed());
  EXPECT_EQ(other.Ask({.lease = 101, .bytes = 1}).code, BulkCode::kUnknown);

  PeerHello stranger = hello;
  stranger.token.data[0] ^= 1;
  EXPECT_FALSE(Liar(card.bulk_address, stranger).IsWelcomed());
  PeerHello nobody = hello;
  nobody.from = 3;
  EXPECT_FALSE(Liar(card.bulk_address, nobody).IsWelcomed());
  Liar garbage(card.bulk_address, hello);
  ASSERT_TRUE(garbage.IsWelcomed());
  garbage.Say("\xff\xff\xff\xff garbage");
  EXPECT_EQ(garbage.Hear(1), "");

  const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(received->tensor.text() == pattern);
}

TEST_F(RendezvousOverNetwork, NobodyLearnsAPlaceThatIsNotLentToHim) {
  Begin(2, /*shared_memory=*/false, /*process_memory=*/true);
  const std::string pattern = Pattern(100'000);
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(pattern)).ok());
  const Card card = CardOf(0);
  PeerHello hello = {.version_min = 1,
                     .version_max = 1,
                     .purpose = LinkPurpose::kBulk,
                     .job = members_[0]->job(),
                     .attempt = members_[0]->attempt(),
                     .from = 1,
                     .to = 0,
                     .token = card.token,
                     .transports = {"cma", "tcp"}};
  {
    Liar liar(card.bulk_address, hello);
    ASSERT_TRUE(liar.IsWelcomed());
    const BulkHeader place = liar.Ask({.lease = 101, .bytes = 100'000, .place = true});
    EXPECT_EQ(place.code, BulkCode::kPlace);
    EXPECT_EQ(place.bytes, transport::kBulkPlaceBytes);
    liar.Hear(place.bytes);
    // Nobody waits for an answer to that.
    liar.Say(transport::WithLength(wire::native::Encode(FetchChunk{.lease = 101, .done = true})));
    liar.Say(transport::WithLength(wire::native::Encode(FetchChunk{.lease = 102, .done = true})));
    const BulkHeader beyond =
        liar.Ask({.lease = 101, .offset = 1, .bytes = 100'000, .place = true});
    EXPECT_EQ(beyond.code, BulkCode::kRange);
    liar.Hear(beyond.bytes);
    EXPECT_EQ(liar.Ask({.lease = 102, .bytes = 1, .place = true}).code, BulkCode::kUnknown);
  }
  hello.transports = {"tcp"};
  Liar liar(card.bulk_address, hello);
  ASSERT_TRUE(liar.IsWelcomed());
  EXPECT_EQ(liar.Ask({.lease = 101, .bytes = 100'000, .place = true}).code, BulkCode::kNoPlace);
}

}  // namespace
}  // namespace lockstep

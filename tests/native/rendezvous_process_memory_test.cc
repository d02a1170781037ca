// Members of one host that cannot share memory: long values are read from their sender's memory,
// or come by the network after all.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/native/rendezvous_testing.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RendezvousByProcessMemory : public RendezvousOverNetwork {
 protected:
  void BeginReading(int32_t size) { Begin(size, /*shared_memory=*/false, /*process_memory=*/true); }
  // A value from member 0 to member 1.
  void Give(const std::string& name, const std::string& text) {
    ASSERT_TRUE(step(0).Send(name, 1, Tensor::Copy(text)).ok());
    const auto received = step(1).Recv(name, 0, {.timeout = kSoon});
    ASSERT_TRUE(received.ok()) << received.status();
    ASSERT_TRUE(received->tensor.text() == text) << name;
  }
  // How member 1 gets values of member 0.
  PeerTransport TransportOfReceiver() {
    const auto transports = rendezvous_[1]->Transports();
    EXPECT_EQ(transports.size(), 1);
    return transports.empty() ? PeerTransport() : transports[0];
  }
};

TEST_F(RendezvousByProcessMemory, ALongValueGoesByNoSocket) {
  BeginReading(2);
  const FaultProxy& proxy = Proxy(0, &Card::bulk_address, {});
  Give("x", Pattern(16 << 20));
  const PeerTransport transport = TransportOfReceiver();
  EXPECT_EQ(transport.transport, "cma");
  EXPECT_THAT(transport.why_not_shared, Not(IsEmpty()));
  EXPECT_EQ(transport.why_not_read, "");
  EXPECT_LT(proxy.bytes(), 4096);
}

TEST_F(RendezvousByProcessMemory, AValueIsReadFromWhereItLiesToWhereItStays) {
  BeginReading(2);
  const std::string text = Pattern((3 << 20) + 5);
  std::promise<void> released;
  ASSERT_TRUE(step(0)
                  .Send("x", 1,
                        Tensor::Borrow({.shape = {static_cast<int64_t>(text.size())}}, text.data(),
                                       text.size(), [&] { released.set_value(); }))
                  .ok());
  std::vector<std::byte> into(text.size());
  ASSERT_TRUE(step(1).RecvInto("x", 0, into, {.timeout = kSoon}).ok());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(into.data()), into.size()), text);
  EXPECT_EQ(TransportOfReceiver().transport, "cma");
  EXPECT_EQ(released.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
}

TEST_F(RendezvousByProcessMemory, ManyLongValuesBothWaysArriveWhole) {
  BeginReading(2);
  constexpr int kValues = 40;
  std::vector<std::thread> threads;
  for (int from = 0; from < 2; ++from) {
    threads.emplace_back([this, from] {
      for (int i = 0; i < kValues; ++i) {
        const std::string text = Pattern((size_t{1} << 20) + static_cast<size_t>(i) * 17, i);
        EXPECT_TRUE(step(from).Send("x", 1 - from, Tensor::Copy(text)).ok());
      }
    });
    threads.emplace_back([this, from] {
      for (int i = 0; i < kValues; ++i) {
        const auto received = step(from).Recv("x", 1 - from, {.timeout = kSoon});
        ASSERT_TRUE(received.ok()) << received.status();
        ASSERT_TRUE(received->tensor.text() ==
                    Pattern((size_t{1} << 20) + static_cast<size_t>(i) * 17, i))
            << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RendezvousByProcessMemory, AMemberThatDoesNotAllowItIsNotRead) {
  BeginReading(2);
  ChangeCard(0, [](Card& card) { std::erase(card.transports, "cma"); });
  Give("x", Pattern(1 << 20));
  const PeerTransport transport = TransportOfReceiver();
  EXPECT_EQ(transport.transport, "tcp");
  EXPECT_EQ(transport.why_not_read, "the other member does not let its memory be read");
}

TEST_F(RendezvousByProcessMemory, WhereTheProofFailsValuesComeByTheNetwork) {
  BeginReading(2);
  // A process that is there, and is not the one.
  ChangeCard(0, [](Card& card) { card.pid = 1; });
  Give("x", Pattern(1 << 20));
  Give("y", Pattern(2 << 20, 1));
  const PeerTransport transport = TransportOfReceiver();
  EXPECT_EQ(transport.transport, "tcp");
  EXPECT_THAT(transport.why_not_read, Not(IsEmpty()));
}

TEST_F(RendezvousByProcessMemory, AFetchWhoseSenderGoesEndsWithItsName) {
  BeginReading(2);
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
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr("trainer/0"));
}

// What is received is whole, what is not has an error.
TEST_F(RendezvousByProcessMemory, ASenderThatClosesInTheMidstTearsNoValue) {
  BeginReading(2);
  for (int round = 0; round < 20; ++round) {
    if (round > 0) Open();
    ExchangeOnce();
    const std::string text = Pattern(8 << 20, round);
    // Written over as soon as nobody keeps it.
    const auto memory = std::make_shared<std::string>(text);
    ASSERT_TRUE(step(0)
                    .Send("long", 1,
                          Tensor::Borrow({.shape = {static_cast<int64_t>(text.size())}},
                                         memory->data(), memory->size(),
                                         [memory] { memory->assign(memory->size(), '\0'); }))
                    .ok());
    auto waits =
        std::async(std::launch::async, [&] { return step(1).Recv("long", 0, {.timeout = kSoon}); });
    for (int i = 0; i < round * 200; ++i) std::this_thread::yield();
    steps_[0] = step(1);
    rendezvous_[0] = nullptr;
    const auto received = waits.get();
    if (received.ok()) {
      EXPECT_TRUE(received->tensor.text() == text) << round;
    } else {
      EXPECT_EQ(ReasonOf(received.status()), "peer_lost") << received.status();
    }
  }
}

}  // namespace
}  // namespace lockstep

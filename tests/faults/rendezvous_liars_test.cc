// Members that say what no member of ours would: they are refused with an error that names them,
// and nobody else takes harm.
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "asio/io_context.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/rendezvous/transport/memory_segment.h"
#include "lockstep/rendezvous/transport/ring.h"
#include "lockstep/rendezvous/transport/shared_stream.h"
#include "lockstep/rendezvous/transport/unix_socket.h"
#include "lockstep/wire/native/rendezvous_codec.h"
#include "tests/native/rendezvous_testing.h"

namespace lockstep::faults {
namespace {

using rendezvous::LeaseId;
using rendezvous::Offer;
using rendezvous::PeerMessage;
using rendezvous::StepId;
using ::testing::HasSubstr;
using transport::MemorySegment;
using transport::SharedStream;
using transport::UnixSocket;
using wire::native::ArenaPlace;
using wire::native::BytesView;
using wire::native::LinkPurpose;
using wire::native::PeerHello;
using wire::native::PeerWelcome;
using wire::native::Placed;
using wire::native::SegmentNotice;

constexpr uint64_t kSegmentBytes = 65'536;
constexpr uint64_t kValueBytes = 20'000;
constexpr rendezvous::WantId kFirstWant(1);
constexpr rendezvous::WantId kLastWant(UINT64_MAX);

PeerMessage OfferOf(uint64_t lease, uint64_t bytes = kValueBytes) {
  Offer offer = {.step = StepId(7), .name = "x", .lease = LeaseId(lease)};
  offer.value.about.shape = {static_cast<int64_t>(bytes)};
  offer.value.bytes = bytes;
  return offer;
}

// Plays member 0 towards member 1, by memory.
class MemoryLiar {
 public:
  MemoryLiar(const Card& card, const PeerHello& hello) : rings_(*SharedStream::MakeRings()) {
    socket_ = *UnixSocket::Connect(io_, card.unix_address);
    const runtime::UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const int fds[] = {rings_->fd(), bell.get()};
    EXPECT_TRUE(socket_->Send(wire::native::Encode(hello), fds).ok());
    auto welcome = Receive();
    if (!welcome.has_value() || welcome->fds.empty()) return;
    bell_ = std::move(welcome->fds[0]);
    EXPECT_TRUE(socket_->Send(wire::native::Encode(PeerWelcome{.version = 1}), {}).ok());
    writer_ = *transport::RingWriter::Open(
        {rings_->mutable_data(), transport::RingBytes(transport::kRingCapacity)});
  }
  ~MemoryLiar() { socket_->Close(); }

  bool welcomed() const { return writer_.has_value(); }

  void SayBytes(const std::string& bytes) {
    const auto written = writer_->TryWrite(bytes);
    EXPECT_TRUE(written.ok() && *written);
    ::eventfd_write(bell_.get(), 1);
  }
  void Say(const PeerMessage& message, const Placed& placed = {}) {
    SayBytes(wire::native::EncodePeerMessage(message, placed));
  }
  void OfferAt(uint64_t lease, ArenaPlace place) {
    place.bytes = kValueBytes;
    Say(OfferOf(lease), place);
  }
  // `claims`: how long it says that the segment is.
  void Lend(uint32_t id, uint64_t claims = kSegmentBytes) {
    segments_.push_back(*MemorySegment::Create(kSegmentBytes));
    const int fds[] = {segments_.back()->fd()};
    EXPECT_TRUE(
        socket_->Send(wire::native::Encode(SegmentNotice{.segment = id, .bytes = claims}), fds)
            .ok());
  }
  void LendWhatCanBeShortened(uint32_t id) {
    const runtime::UniqueFd memory(::memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(memory.get(), kSegmentBytes), 0);
    const int fds[] = {memory.get()};
    const SegmentNotice notice = {.segment = id, .bytes = kSegmentBytes};
    EXPECT_TRUE(socket_->Send(wire::native::Encode(notice), fds).ok());
  }
  // Writes over what the ring says of itself.
  void SpoilRing() {
    auto* const header = reinterpret_cast<transport::RingHeader*>(rings_->mutable_data());
    __atomic_store_n(&header->tail, uint64_t{1} << 60, __ATOMIC_RELEASE);
    ::eventfd_write(bell_.get(), 1);
  }

 private:
  // Nothing: the other end has closed.
  std::optional<UnixSocket::Message> Receive() {
    for (int i = 0; i < 30'000; ++i) {
      auto message = socket_->Receive();
      if (!message.ok()) return std::nullopt;
      if (message->has_value()) return **std::move(message);
      ::usleep(1000);
    }
    ADD_FAILURE() << "no answer";
    return std::nullopt;
  }

  asio::io_context io_;
  std::unique_ptr<MemorySegment> rings_;
  std::shared_ptr<UnixSocket> socket_;
  runtime::UniqueFd bell_;
  std::optional<transport::RingWriter> writer_;
  std::vector<std::unique_ptr<MemorySegment>> segments_;
};

class RendezvousLiars : public RendezvousOverNetwork {
 protected:
  PeerHello Hello() {
    return {.version_min = 1,
            .version_max = 1,
            .purpose = LinkPurpose::kConversation,
            .job = members_[0]->job(),
            .attempt = members_[0]->attempt(),
            .from = 0,
            .from_incarnation = 1,
            .to = 1,
            .conversation = {std::string(16, 'c')},
            .token = CardOf(1).token,
            .turn = 1};
  }
  absl::StatusOr<Received> Receive(int32_t from = 0, absl::Duration timeout = kSoon) {
    return step(1).Recv("x", from, {.timeout = timeout});
  }
  static void ExpectNamed(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(ReasonOf(status), "protocol") << status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("trainer/0"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
  // The liar's victim and somebody honest.
  void ExpectUnharmed() {
    ASSERT_TRUE(step(2).Send("x", 1, Tensor::Copy(Pattern(100'000))).ok());
    const auto received = Receive(2);
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_TRUE(received->tensor.text() == Pattern(100'000));
    ASSERT_TRUE(step(1).Send("x", 2, Tensor::Copy("back")).ok());
    EXPECT_TRUE(step(2).Recv("x", 1, {.timeout = kSoon}).ok());
  }
};

TEST_F(RendezvousLiars, WhoNamesAPlaceThatIsNotThereFailsTheReceiveOnly) {
  Begin(3, /*shared_memory=*/true);
  MemoryLiar liar(CardOf(1), Hello());
  ASSERT_TRUE(liar.welcomed());
  liar.Lend(1);
  liar.OfferAt(1, {.segment = 1, .offset = kSegmentBytes - kValueBytes + 1, .generation = 1});
  ExpectNamed(Receive().status(), "the segment has 65536 bytes");
  liar.OfferAt(2, {.segment = 1, .offset = uint64_t{1} << 62, .generation = 1});
  ExpectNamed(Receive().status(), "the segment has 65536 bytes");
  liar.OfferAt(3, {.segment = 7, .generation = 1});
  ExpectNamed(Receive().status(), "it sent no such segment");
  liar.OfferAt(4, {.segment = 1, .offset = 4096, .generation = 1});
  const auto held = Receive();
  ASSERT_TRUE(held.ok()) << held.status();
  liar.OfferAt(5, {.segment = 1, .offset = 4096, .generation = 2});
  ExpectNamed(Receive().status(), "still lent to us as generation 1");
  // Again, as it was: another view of the same bytes.
  liar.OfferAt(4, {.segment = 1, .offset = 4096, .generation = 1});
  EXPECT_TRUE(Receive().ok());
  ExpectUnharmed();
}

TEST_F(RendezvousLiars, WhoBreaksTheRulesOfMemoryIsLostAndNamed) {
  const std::vector<std::pair<const char*, std::function<void(MemoryLiar&)>>> lies = {
      {"memory of 65536 bytes", [](MemoryLiar& liar) { liar.Lend(1, kSegmentBytes * 2); }},
      {"could make shorter", [](MemoryLiar& liar) { liar.LendWhatCanBeShortened(1); }},
      {"twice",
       [](MemoryLiar& liar) {
         liar.Lend(1);
         liar.Lend(1);
       }},
      {"ends beyond",
       [](MemoryLiar& liar) {
         liar.OfferAt(1, {.segment = 1, .offset = UINT64_MAX - 7, .generation = 1});
       }},
      {"trainer/0", [](MemoryLiar& liar) { liar.SayBytes("\xff\xff garbage"); }},
      {"trainer/0", [](MemoryLiar& liar) { liar.SpoilRing(); }},
  };
  Begin(3, /*shared_memory=*/true);
  for (const auto& [what, lie] : lies) {
    Open();
    MemoryLiar liar(CardOf(1), Hello());
    ASSERT_TRUE(liar.welcomed());
    lie(liar);
    ExpectNamed(Receive().status(), what);
    ExpectUnharmed();
  }
}

TEST_F(RendezvousLiars, WhoAnswersWhatWasNeverAskedChangesNothing) {
  Begin(3, /*shared_memory=*/true);
  MemoryLiar liar(CardOf(1), Hello());
  ASSERT_TRUE(liar.welcomed());
  const StepId step_id(7);
  const rendezvous::ErrorPtr why =
      rendezvous::MakeError(absl::StatusCode::kAborted, rendezvous::Reason::kStepClosed, "nothing");
  ASSERT_TRUE(step(1).Send("large", 2, Tensor::Copy(Pattern(50'000))).ok());
  for (uint64_t lease = 100; lease < 110; ++lease) {
    liar.Say(rendezvous::Released{LeaseId(lease)});
    liar.Say(rendezvous::Taken{LeaseId(lease)});
  }
  for (int i = 0; i < 3; ++i) {
    liar.Say(rendezvous::Credit{UINT64_MAX, UINT64_MAX});
    liar.Say(rendezvous::Unwant{step_id, "x", kLastWant});
    liar.Say(rendezvous::Refuse{step_id, "y", kFirstWant, kLastWant, why});
    liar.Say(rendezvous::Want{step_id, "z", kFirstWant, kLastWant});
    liar.Say(rendezvous::Want{step_id, "z", kLastWant, kLastWant});
    liar.Say(rendezvous::StepClosed{StepId(1'000'000)});
    liar.Say(rendezvous::AbortStep{StepId(1'000'001), why});
  }
  liar.Say(OfferOf(1, 5), BytesView{"hello"});
  const auto received = Receive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->tensor.text(), "hello");
  const auto large = step(2).Recv("large", 1, {.timeout = kSoon});
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_TRUE(large->tensor.text() == Pattern(50'000));
  ExpectUnharmed();
}

TEST_F(RendezvousLiars, AHelloForAnotherIsNotAnswered) {
  Begin(3, /*shared_memory=*/true);
  const std::vector<std::function<void(PeerHello&)>> lies = {
      [](PeerHello& hello) { hello.to = 2; },
      [](PeerHello& hello) { hello.from = 1; },
      [](PeerHello& hello) { hello.from = 3; },
      [](PeerHello& hello) { hello.from = -1; },
      [](PeerHello& hello) { hello.from = 2; },  // the smaller one dials
      [](PeerHello& hello) { hello.attempt = 2; },
      [](PeerHello& hello) { hello.job = "letters"; },
      [](PeerHello& hello) { hello.token.data[0] ^= 1; },
      [](PeerHello& hello) { hello.token = {}; },
      [](PeerHello& hello) { hello.purpose = LinkPurpose::kBulk; },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    PeerHello hello = Hello();
    lies[i](hello);
    EXPECT_FALSE(MemoryLiar(CardOf(1), hello).welcomed()) << i;
    link::testing::RawClient link(CardOf(1).tcp_address);
    // By the network whoever likes dials.
    if (hello.from == 2) continue;
    link.Send(link::FrameType::kHello, hello);
    while (const auto message = link.Receive()) {
      EXPECT_NE(message->type, link::FrameType::kWelcome) << i;
    }
  }
  ExpectUnharmed();
}

// Plays member 0 towards member 1, by the network.
class NetworkLiar {
 public:
  NetworkLiar(const Card& card, const PeerHello& hello) : client_(card.tcp_address) {
    client_.Send(link::FrameType::kHello, hello);
    client_.Expect<PeerWelcome>(link::FrameType::kWelcome);
  }
  void Say(uint64_t number, const std::string& bytes, uint32_t acknowledged = 0) {
    client_.Send(link::Message{.type = link::FrameType::kPeerMessage,
                               .must_understand = true,
                               .kind = acknowledged,
                               .id = number,
                               .payload = bytes});
  }
  void Say(uint64_t number, const PeerMessage& message, const Placed& placed) {
    Say(number, wire::native::EncodePeerMessage(message, placed));
  }

 private:
  link::testing::RawClient client_;
};

TEST_F(RendezvousLiars, AMessageThatIsReplayedIsTakenOnce) {
  Begin(3);
  NetworkLiar liar(CardOf(1), Hello());
  for (int i = 0; i < 3; ++i) liar.Say(1, OfferOf(1, 5), BytesView{"hello"});
  liar.Say(2, OfferOf(2, 5), BytesView{"world"});
  liar.Say(1, OfferOf(1, 5), BytesView{"hello"});
  for (const char* text : {"hello", "world"}) {
    const auto received = Receive();
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(received->tensor.text(), text);
  }
  EXPECT_EQ(ReasonOf(Receive(0, absl::Milliseconds(100)).status()), "receive_timed_out");
  ExpectUnharmed();
}

TEST_F(RendezvousLiars, WhoBreaksTheRulesOfTheConversationIsLostAndNamed) {
  const std::vector<std::pair<const char*, std::function<void(NetworkLiar&)>>> lies = {
      {"sent message 3 after message 0",
       [](NetworkLiar& liar) { liar.Say(3, OfferOf(1, 5), BytesView{"hello"}); }},
      {"acknowledged message 5", [](NetworkLiar& liar) { liar.Say(1, "", 5); }},
      {"trainer/0", [](NetworkLiar& liar) { liar.Say(1, "\xff\xff garbage"); }},
  };
  Begin(3);
  for (const auto& [what, lie] : lies) {
    Open();
    NetworkLiar liar(CardOf(1), Hello());
    lie(liar);
    ExpectNamed(Receive().status(), what);
    ExpectUnharmed();
  }
}

TEST_F(RendezvousLiars, WhoSpeaksOfMemoryOverTheNetworkFailsTheReceiveOnly) {
  Begin(3);
  NetworkLiar liar(CardOf(1), Hello());
  liar.Say(1, OfferOf(1), ArenaPlace{.segment = 1, .bytes = kValueBytes, .generation = 1});
  ExpectNamed(Receive().status(), "no memory is shared");
  liar.Say(2, OfferOf(2, 5), BytesView{"hello"});
  EXPECT_TRUE(Receive().ok());
  ExpectUnharmed();
}

}  // namespace
}  // namespace lockstep::faults

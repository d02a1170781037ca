// Rows of docs/conformance-rendezvous.md about the bytes of values: what is copied, where they go,
// and what becomes of those that do not fit.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/native/rendezvous_members.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr size_t kShort = 100;     // comes along with its key
constexpr size_t kLong = 100'000;  // is seen in shared memory, or fetched

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class RendezvousValues : public RendezvousOfMembers {};
INSTANTIATE_TEST_SUITE_P(Over, RendezvousValues, testing::Bool(), RendezvousOfMembers::NameOfParam);

TEST_P(RendezvousValues, RendezvousRow58_WhatAMemberSendsToItselfStaysWhereItIs) {
  Begin(2);
  for (const size_t bytes : {kShort, kLong}) {
    const Tensor value = Tensor::Copy(Pattern(bytes));
    ASSERT_TRUE(step(0).Send("x", 0, value).ok());
    const auto received = step(0).Recv("x", 0, {.timeout = kSoon});
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(received->tensor.bytes().data(), value.bytes().data());
    EXPECT_EQ(received->tensor.bytes().size(), bytes);
  }
}

TEST_P(RendezvousValues, RendezvousRow61_NoMemoryForAValueIsAnErrorOfThatValueOnly) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the process when there is no memory";
  Begin(2, {.quota_bytes = uint64_t{1} << 60});
  const char byte = 'x';  // the only one there is; nobody comes to read it
  constexpr int64_t kBytes = int64_t{1} << 50;
  const absl::Status sent =
      step(0).Send("huge", 1, Tensor::Borrow({.shape = {kBytes}}, &byte, kBytes, nullptr));
  if (GetParam()) {
    EXPECT_EQ(sent.code(), absl::StatusCode::kResourceExhausted) << sent;
    EXPECT_EQ(rendezvous_[0]->Allocate({.shape = {kBytes}}).status().code(),
              absl::StatusCode::kResourceExhausted);
  } else {
    ASSERT_TRUE(sent.ok()) << sent;
    const auto received = step(1).Recv("huge", 0, {.timeout = kSoon});
    EXPECT_EQ(received.status().code(), absl::StatusCode::kResourceExhausted) << received.status();
    EXPECT_THAT(std::string(received.status().message()), HasSubstr(std::to_string(kBytes)));
  }
  ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(Pattern(kLong))).ok());
  EXPECT_EQ(TextOf(step(1).Recv("x", 0, {.timeout = kSoon})), Pattern(kLong));
}

TEST_P(RendezvousValues, RendezvousRow73_AReceiveThatIsCancelledTakesNothing) {
  Begin(2);
  for (const size_t bytes : {kShort, kLong}) {
    Receiving cancelled(step(1), "x", 0, {.timeout = kSoon});
    cancelled.Cancel();
    const absl::Status status = cancelled.Result().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_THAT(std::string(status.message()), HasSubstr("'x'"));
    ASSERT_TRUE(step(0).Send("x", 1, Tensor::Copy(Pattern(bytes))).ok());
    EXPECT_EQ(TextOf(step(1).Recv("x", 0, {.timeout = kSoon})), Pattern(bytes));
  }
}

TEST_P(RendezvousValues, RendezvousRow76_BytesComeWhereverTheyAreToGoWhoeverIsFirst) {
  Begin(2);
  for (const size_t bytes : {kShort, kLong}) {
    for (const bool into_memory : {false, true}) {
      for (const bool receiver_first : {false, true}) {
        const std::string pattern = Pattern(bytes);
        const auto receive = [&]() -> std::string {
          if (!into_memory) return TextOf(step(1).Recv("x", 0, {.timeout = kSoon}));
          std::string into(bytes, '\0');
          const absl::Status status = step(1).RecvInto(
              "x", 0, {reinterpret_cast<std::byte*>(into.data()), bytes}, {.timeout = kSoon});
          return status.ok() ? into : status.ToString();
        };
        const auto send = [&] {
          return step(0).SendAcked("x", 1, Tensor::Copy(pattern), {.timeout = kSoon});
        };
        std::future<std::string> receives;
        if (receiver_first) receives = std::async(std::launch::async, receive);
        if (receiver_first) absl::SleepFor(absl::Milliseconds(10));
        auto sends = std::async(std::launch::async, send);
        if (!receiver_first) absl::SleepFor(absl::Milliseconds(10));
        if (!receiver_first) receives = std::async(std::launch::async, receive);
        EXPECT_EQ(receives.get(), pattern);
        const absl::Status sent = sends.get();
        EXPECT_TRUE(sent.ok()) << sent;
      }
    }
  }
}

TEST_P(RendezvousValues, RendezvousRow79_MemoryThatIsTooLargeIsNotTouched) {
  Begin(2);
  for (const size_t bytes : {kShort, kLong}) {
    for (const size_t room : {bytes - 1, bytes + 1}) {
      std::vector<std::byte> into(room, std::byte{0x5a});
      auto sends = std::async(std::launch::async, [&] {
        return step(0).SendAcked("x", 1, Tensor::Copy(Pattern(bytes)), {.timeout = kSoon});
      });
      const absl::Status mismatch = step(1).RecvInto("x", 0, into, {.timeout = kSoon});
      EXPECT_EQ(mismatch.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(ReasonOf(mismatch), "size_mismatch");
      EXPECT_EQ(into, std::vector<std::byte>(room, std::byte{0x5a}));
      const absl::Status sent = sends.get();
      EXPECT_TRUE(sent.ok()) << sent;
    }
  }
}

TEST_P(RendezvousValues, RendezvousRow93_ALongValueIsNotCopiedByItsSender) {
  Begin(2);
  std::string own(kLong, 'a');
  std::promise<void> released;
  auto is_released = released.get_future();
  Tensor value;
  char* bytes = own.data();
  if (GetParam()) {
    auto made = rendezvous_[0]->Allocate({.shape = {static_cast<int64_t>(kLong)}});
    ASSERT_TRUE(made.ok()) << made.status();
    bytes = reinterpret_cast<char*>(made->bytes().data());
    std::memset(bytes, 'a', kLong);
    value = made->Finish();
  } else {
    value = Tensor::Borrow({.shape = {static_cast<int64_t>(kLong)}}, own.data(), kLong,
                           [&] { released.set_value(); });
  }
  ASSERT_TRUE(step(0).Send("x", 1, std::move(value)).ok());
  // What must not be done, and shows that nothing was copied.
  bytes[kLong / 2] = 'b';
  EXPECT_EQ(is_released.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  const auto received = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->tensor.text()[kLong / 2], 'b');
  if (!GetParam()) {
    EXPECT_EQ(is_released.wait_for(absl::ToChronoSeconds(kSoon)), std::future_status::ready);
  }
}

TEST_P(RendezvousValues, RendezvousRow94_EmptyTensorsAndScalarsComeAsTheyWere) {
  Begin(2);
  const float scalar = 1.5F;
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {0}, {2, 0, 3}, {1, 1, 1}, {int64_t{1} << 60, 0}}) {
    const Description about = {.type = {.code = 2, .bits = 32}, .shape = shape};
    const size_t bytes = *rendezvous::BytesOf(about.type, about.shape);
    for (const int32_t to : {0, 1}) {
      ASSERT_TRUE(step(0).Send("x", to, Tensor::Borrow(about, &scalar, bytes, nullptr)).ok());
      const auto received = step(static_cast<size_t>(to)).Recv("x", 0, {.timeout = kSoon});
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_FALSE(received->dead);
      EXPECT_EQ(received->tensor.about(), about);
      EXPECT_EQ(received->tensor.bytes().size(), bytes);
    }
    ASSERT_TRUE(step(0).Send("x", 1, Tensor::Borrow(about, &scalar, bytes, nullptr)).ok());
    std::vector<std::byte> into(bytes);
    EXPECT_TRUE(step(1).RecvInto("x", 0, into, {.timeout = kSoon}).ok());
  }
  ASSERT_TRUE(step(0).Send("x", 1, Tensor()).ok());
  const auto none = step(1).Recv("x", 0, {.timeout = kSoon});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->tensor.bytes().size(), 0);
}

TEST_P(RendezvousValues, AValueWhoseBytesAreNotThoseOfItsShapeIsRefused) {
  Begin(2);
  const std::string bytes = Pattern(kLong);
  const auto of = [&](std::vector<int64_t> shape, size_t count) {
    return Tensor::Borrow({.type = {.code = 2, .bits = 32}, .shape = std::move(shape)},
                          bytes.data(), count, nullptr);
  };
  for (const Tensor& wrong : {of({2}, 7), of({2}, 9), of({}, 0), of({0}, 4), of({-2}, 8),
                              of({kLong / 4}, kLong - 4), of({int64_t{1} << 62}, 8)}) {
    const absl::Status sent = step(0).Send("x", 1, wrong);
    EXPECT_EQ(sent.code(), absl::StatusCode::kInvalidArgument) << sent;
    EXPECT_EQ(ReasonOf(sent), "invalid_argument");
    EXPECT_EQ(step(0).SendAcked("x", 1, wrong), sent);
    std::promise<absl::Status> told;
    step(0).SendAckedAsync("x", 1, wrong, {}, [&](absl::Status status) { told.set_value(status); });
    EXPECT_EQ(told.get_future().get(), sent);
  }
  ASSERT_TRUE(step(0).Send("x", 1, of({2}, 8)).ok());
  EXPECT_EQ(TextOf(step(1).Recv("x", 0, {.timeout = kSoon})), bytes.substr(0, 8));
}

// --- Beyond 2^31 bytes ---

uint64_t AvailableBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  while (meminfo >> name >> kib) {
    if (name == "MemAvailable:") return kib << 10;
    meminfo.ignore(100, '\n');
  }
  return 0;
}

// Where a length of 32 bits would go wrong, and elsewhere.
std::vector<uint64_t> PlacesToMark(uint64_t bytes) {
  std::vector<uint64_t> places = {0, bytes - 1};
  for (uint64_t at = 0; at < bytes; at += (uint64_t{64} << 20) + 4097) places.push_back(at);
  for (const int power : {30, 31, 32}) {
    for (const uint64_t at : {(uint64_t{1} << power) - 1, uint64_t{1} << power}) {
      if (at < bytes) places.push_back(at);
    }
  }
  return places;
}

std::byte MarkOf(uint64_t at, uint64_t bytes) {
  return static_cast<std::byte>(1 + (at * 31 + bytes) % 251);
}

void Mark(std::span<std::byte> bytes) {
  for (const uint64_t at : PlacesToMark(bytes.size())) bytes[at] = MarkOf(at, bytes.size());
}

void ExpectMarked(std::span<const std::byte> bytes) {
  for (const uint64_t at : PlacesToMark(bytes.size())) {
    ASSERT_EQ(bytes[at], MarkOf(at, bytes.size())) << at << " of " << bytes.size();
  }
}

// Memory that the system gives page by page, when it is written.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~Pages() { ::munmap(data_, bytes_); }
  std::span<std::byte> first(size_t bytes) const { return {static_cast<std::byte*>(data_), bytes}; }

 private:
  const size_t bytes_;
  void* const data_;
};

TEST_P(RendezvousValues, RendezvousRow97_ValuesBeyondTwoGigabytesComeWhole) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps a shadow of all that memory";
  if (AvailableBytes() < uint64_t{10} << 30) GTEST_SKIP() << "takes 5 GiB of memory, of 10 free";
  constexpr uint64_t kLengths[] = {(uint64_t{1} << 31) - 1, uint64_t{1} << 31,
                                   (uint64_t{1} << 32) + 1};
  constexpr absl::Duration kLater = absl::Minutes(2);
  Begin(2, {.quota_bytes = uint64_t{5} << 30});
  const Pages from(kLengths[2]);
  const Pages into(kLengths[2]);
  for (const uint64_t bytes : kLengths) {
    // Of its pages the system takes seconds; the others are those of PeerArenaTest.
    if (GetParam() && bytes != kLengths[2]) continue;
    const Description about = {.shape = {static_cast<int64_t>(bytes)}};
    if (GetParam()) {
      auto made = rendezvous_[0]->Allocate(about);
      ASSERT_TRUE(made.ok()) << made.status();
      Mark(made->bytes());
      ASSERT_TRUE(step(0).Send("x", 1, made->Finish()).ok());
      const auto received = step(1).Recv("x", 0, {.timeout = kLater});
      ASSERT_TRUE(received.ok()) << received.status();
      ASSERT_EQ(received->tensor.bytes().size(), bytes);
      ExpectMarked(received->tensor.bytes());
    } else {
      const std::span<std::byte> sent = from.first(bytes);
      Mark(sent);
      ASSERT_TRUE(step(0).Send("x", 1, Tensor::Borrow(about, sent.data(), bytes, nullptr)).ok());
      const absl::Status received =
          step(1).RecvInto("x", 0, into.first(bytes), {.timeout = kLater});
      ASSERT_TRUE(received.ok()) << received;
      ExpectMarked(into.first(bytes));
      EXPECT_EQ(std::memcmp(into.first(bytes).data(), sent.data(), bytes), 0);
    }
  }
}

}  // namespace
}  // namespace lockstep

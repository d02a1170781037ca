// What a rendezvous takes of memory, at both ends together, for receives that wait, values that
// nobody has received and steps that come and go; and that it gives all of it back.
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/client/rendezvous.h"
#include "tests/native/native_testing.h"

namespace lockstep {
namespace {

// The sanitizers have allocators of their own, which count nothing, and are slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounted = false;
constexpr int kShare = 50;
#else
constexpr bool kCounted = true;
constexpr int kShare = 1;
#endif

constexpr int kParked = 10'000 / kShare;
constexpr int kKeys = 1'000'000 / kShare;
constexpr int kSteps = 100'000 / kShare;
constexpr absl::Duration kSoon = absl::Minutes(1);
// What may be left behind: tables that keep the room that they once had, and what the job's own
// threads do meanwhile.
constexpr int64_t kSlackBytes = int64_t{1} << 20;

// Bytes that are allocated and not freed, in the whole process.
int64_t Allocated() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

class RendezvousMemory : public testing::Test {
 protected:
  void SetUp() override {
    server_ = std::make_unique<NativeServer>(JobOf(2));
    members_ = JoinAll(*server_, 2);
    for (auto& member : members_) rendezvous_.push_back(*Rendezvous::Open(*member));
    // Both know each other, and have what they need for it.
    Exchange(0, 0);
  }

  Step Open(size_t member, int64_t number) { return *rendezvous_[member]->OpenStep(number); }
  void Exchange(size_t sender, int64_t number) {
    const size_t receiver = 1 - sender;
    Step from = Open(sender, number);
    Step to = Open(receiver, number);
    ASSERT_TRUE(from.Send("x", static_cast<int32_t>(receiver), Tensor::Copy("hello")).ok());
    const auto received = to.Recv("x", static_cast<int32_t>(sender), {.timeout = kSoon});
    ASSERT_TRUE(received.ok()) << received.status();
    ASSERT_EQ(received->tensor.text(), "hello");
    from.Close();
    to.Close();
  }

  // What members say to each other of steps that are closed comes behind; what is sent both ways
  // now comes later still.
  void FlushBetween() {
    for (const size_t from : {0, 1}) Exchange(from, 1'000'000 + static_cast<int64_t>(from));
  }

  // What `count` things took, at both ends, since `before`, each.
  static double Each(int64_t before, int count) {
    return static_cast<double>(Allocated() - before) / count;
  }
  static void ExpectSmall(const char* what, double bytes) {
    if (!kCounted) return;
    std::printf("%-40s %8.0f B\n", what, bytes);
    EXPECT_LT(bytes, 1536) << what;
  }
  static void ExpectGivenBack(int64_t before) {
    if (!kCounted) return;
    EXPECT_LT(Allocated() - before, kSlackBytes);
  }

  std::unique_ptr<NativeServer> server_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Rendezvous>> rendezvous_;
};

TEST_F(RendezvousMemory, ParkedReceivesAreSmall) {
  std::atomic<int> ended = 0;
  std::promise<void> all;
  const int64_t before = Allocated();
  {
    Step step = Open(1, 1);
    for (int i = 0; i < kParked; ++i) {
      step.RecvAsync(absl::StrCat("gradient/layer", i), 0, {.timeout = absl::Minutes(10)},
                     [&](const absl::StatusOr<Received>& received) {
                       EXPECT_FALSE(received.ok());
                       if (++ended == kParked) all.set_value();
                     });
    }
    const double each = Each(before, kParked);
    ExpectSmall("a parked receive", each);
    step.Close();
  }
  ASSERT_EQ(all.get_future().wait_for(absl::ToChronoSeconds(kSoon)), std::future_status::ready)
      << ended;
  FlushBetween();
  ExpectGivenBack(before);
}

TEST_F(RendezvousMemory, AMillionKeysAreHeldAndLetGoOf) {
  const Tensor value = Tensor::Copy(std::string(64, 'x'));
  const int64_t before = Allocated();
  {
    Step from = Open(0, 1);
    Step to = Open(1, 1);
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(from.Send(absl::StrCat("gradient/layer", i), 1, value).ok()) << i;
    }
    const double each = Each(before, kKeys);
    ExpectSmall("a key with a value of 64 B", each);
    // They are all there, the last one too.
    for (const int i : {0, kKeys / 2, kKeys - 1}) {
      const auto received = to.Recv(absl::StrCat("gradient/layer", i), 0, {.timeout = kSoon});
      ASSERT_TRUE(received.ok()) << received.status();
    }
    to.Close();
    from.Close();
  }
  FlushBetween();
  ExpectGivenBack(before);
}

TEST_F(RendezvousMemory, StepsThatAreOverTakeNothing) {
  for (int i = 1; i <= 1000; ++i) Exchange(0, i);
  const int64_t before = Allocated();
  for (int i = 1001; i <= kSteps; ++i) {
    for (const size_t member : {0, 1}) Open(member, i).Close();
  }
  FlushBetween();
  ExpectSmall("a step that is over", Each(before, kSteps));
  ExpectGivenBack(before);
}

}  // namespace
}  // namespace lockstep

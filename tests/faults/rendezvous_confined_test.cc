// Members from whom the system keeps something: system calls, descriptors, memory. Values come
// another way, and who asks is told why; or the error says what was lacking, and the value can be
// received when it is there.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/faulty_job.h"

namespace lockstep::faults {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Of whether memory may be read; without them it takes everything for broken.
constexpr char kNeedsDescriptors[] = "the undefined-behaviour sanitizer asks the system by a pipe";

// Over the stream that is up, and nothing of the arena yet.
void Meet(FaultyJob& job) {
  job[0].Expect("send 1 hello 1 1 64");
  job[1].Expect("recv 1 hello 0 1 64");
}

TEST(RendezvousConfined, RendezvousRow105_WhoMayNotMakeSharedMemoryGoesByTheNetwork) {
  for (const std::vector<int>& confined : {std::vector<int>{0}, {1}, {0, 1}}) {
    FaultyJob job(2);
    for (const int member : confined) job[member].Expect("forbid memfd_create");
    job.Begin(/*shared_memory=*/true);
    job.Transfer(0, 1);
    job.Transfer(1, 0);
    for (int member = 0; member < 2; ++member) {
      const std::string transports = job[member].Ask("transports");
      EXPECT_THAT(transports, Not(HasSubstr("=shm")));
      const bool is_confined = std::count(confined.begin(), confined.end(), member) > 0;
      EXPECT_THAT(transports, HasSubstr(is_confined ? "memfd_create" : "the other member"));
    }
    job.AwaitNothingHeld(0);
    job.AwaitNothingHeld(1);
  }
}

TEST(RendezvousConfined, RendezvousRow105_WhoMayNotReadOthersMemoryGetsValuesAnyway) {
  for (const bool memory : {true, false}) {
    FaultyJob job(2);
    for (int member = 0; member < 2; ++member) {
      job[member].Expect("forbid process_vm_readv");
      if (!memory) job[member].Expect("forbid memfd_create");
    }
    job.Begin(/*shared_memory=*/true);
    job.Transfer(0, 1);
    job.Transfer(1, 0);
    EXPECT_THAT(job[0].Ask("transports"), Not(HasSubstr("=cma")));
  }
}

TEST(RendezvousConfined, AReceiverWithoutDescriptorsIsToldSoAndReceivesWhenItHasSome) {
  if (kSanitized) GTEST_SKIP() << kNeedsDescriptors;
  FaultyJob job(2);
  job.Begin(/*shared_memory=*/true);
  Meet(job);
  job[1].Expect("descriptors 3");
  job[0].Expect("send 1 x 1 1 100000");
  const std::string refused = job[1].Ask("recv 1 x 0 1 100000");
  EXPECT_THAT(refused, StartsWith("error RESOURCE_EXHAUSTED quota_exceeded "));
  EXPECT_THAT(refused, HasSubstr("RLIMIT_NOFILE"));
  job[1].Expect("descriptors 1024");
  job[1].Expect("recv 1 x 0 1 100000");
  EXPECT_THAT(job[1].Ask("transports"), HasSubstr("RLIMIT_NOFILE"));
  job[1].Expect("drop");
  job.AwaitNothingHeld(0);
}

TEST(RendezvousConfined, ASenderWithoutDescriptorsSendsAndIsFetchedFromWhenItHasSome) {
  if (kSanitized) GTEST_SKIP() << kNeedsDescriptors;
  FaultyJob job(2);
  job.Begin(/*shared_memory=*/true);
  Meet(job);
  job[0].Expect("descriptors 3");
  job[0].Expect("send 1 x 1 1 100000");
  job[1].Expect("timeout 300");
  const std::string late = job[1].Ask("recv 1 x 0 1 100000");
  EXPECT_THAT(late, StartsWith("error DEADLINE_EXCEEDED receive_timed_out "));
  EXPECT_THAT(late, HasSubstr("trainer/0"));
  job[0].Expect("descriptors 1024");
  job[1].Expect("timeout 20000");
  job[1].Expect("recv 1 x 0 1 100000");
  EXPECT_THAT(job[0].Ask("transports"), HasSubstr("no memory that other processes can see"));
  job[1].Expect("drop");
  job.AwaitNothingHeld(0);
}

TEST(RendezvousConfined, AMemberThatIsMetWithoutDescriptorsIsReachedWhenItHasSome) {
  if (kSanitized) GTEST_SKIP() << kNeedsDescriptors;
  FaultyJob job(2);
  job.Begin(/*shared_memory=*/true);
  job[1].Expect("descriptors 3");
  job[0].Expect("send 1 x 1 1 64");
  job[1].Expect("timeout 300");
  EXPECT_THAT(job[1].Ask("recv 1 x 0 1 64"),
              StartsWith("error DEADLINE_EXCEEDED receive_timed_out "));
  job[1].Expect("descriptors 1024");
  job[1].Expect("timeout 20000");
  job[1].Expect("recv 1 x 0 1 64");
}

TEST(RendezvousConfined, AValueThatTheArenaHasNoRoomForIsRefusedByName) {
  FaultyJob job(2);
  job.Begin(/*shared_memory=*/true, " arena=1000000");
  const std::string refused = job[0].Ask("send 1 x 1 1 2000000");
  EXPECT_THAT(refused, StartsWith("error RESOURCE_EXHAUSTED quota_exceeded "));
  EXPECT_THAT(refused, HasSubstr("arena_bytes_max"));
  job[0].Expect("send 1 x 1 1 500000");
  job[1].Expect("recv 1 x 0 1 500000");
}

TEST(RendezvousConfined, AReceiverWithoutRoomForAMappingFetches) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need more address space than there may be";
  FaultyJob job(2);
  job.Begin(/*shared_memory=*/true);
  Meet(job);
  job[1].Expect("memory 40000000");
  job[0].Expect("send 1 x 1 1 3000000");
  job[1].Expect("recv 1 x 0 1 3000000");
  EXPECT_THAT(job[1].Ask("transports"), HasSubstr("mmap of"));

  job[0].Expect("send 1 x 1 2 60000000");
  const std::string refused = job[1].Ask("recv 1 x 0 2 60000000");
  EXPECT_THAT(refused, StartsWith("error RESOURCE_EXHAUSTED quota_exceeded "));
  EXPECT_THAT(refused, HasSubstr("no memory for a value of 60000000 bytes"));
  job[1].Expect("memory 4000000000");
  job[1].Expect("recv 1 x 0 2 60000000");
  job[1].Expect("drop");
  job.AwaitNothingHeld(0);
}

// Each value needs a segment of its own, and the one before is given back to the system: also where
// it is mapped by the receiver.
TEST(RendezvousConfined, MemoryThatTheSenderGaveBackIsNotKeptByTheReceiver) {
  FaultyJob job(2);
  job.Begin(/*shared_memory=*/true, " arena=100000000");
  std::map<std::string, int64_t> before;
  for (int i = 1; i <= 5; ++i) {
    const int bytes = 70'000'000 + i * 1'000'000;
    job[0].Expect(absl::StrCat("send 1 x 1 ", i, " ", bytes));
    job[1].Expect(absl::StrCat("recv 1 x 0 ", i, " ", bytes));
    job[1].Expect("drop");
    job.AwaitNothingHeld(0);
    if (i == 1) before = job[1].Stats();
  }
  job.AwaitNothingHeld(1, before);
}

}  // namespace
}  // namespace lockstep::faults

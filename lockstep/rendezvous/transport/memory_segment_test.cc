#include "lockstep/rendezvous/transport/memory_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;
using Access = MemorySegment::Access;

constexpr uint64_t kBytes = 64 << 10;

// What a peer gets: the same file by another descriptor.
runtime::UniqueFd Passed(int fd) { return runtime::UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(MemorySegment, ShowsThePeerWhatIsWrittenHere) {
  auto ours = MemorySegment::Create(kBytes);
  ASSERT_TRUE(ours.ok()) << ours.status();
  auto theirs = MemorySegment::Map(Passed((*ours)->fd()), kBytes, Access::kReadOnly);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  std::memcpy((*ours)->mutable_data() + kBytes - 5, "hello", 5);
  EXPECT_EQ(std::memcmp((*theirs)->data() + kBytes - 5, "hello", 5), 0);
  EXPECT_EQ((*theirs)->bytes(), kBytes);
}

TEST(MemorySegment, CannotBeMappedForWritingByThePeer) {
  auto ours = MemorySegment::Create(kBytes);
  ASSERT_TRUE(ours.ok()) << ours.status();
  auto theirs = MemorySegment::Map(Passed((*ours)->fd()), kBytes, Access::kReadWrite);
  EXPECT_EQ(theirs.status().code(), absl::StatusCode::kPermissionDenied) << theirs.status();
  EXPECT_THAT(std::string(theirs.status().message()), HasSubstr("mmap"));
  void* read_only = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, (*ours)->fd(), 0);
  ASSERT_NE(read_only, MAP_FAILED);
  EXPECT_NE(::mprotect(read_only, kBytes, PROT_READ | PROT_WRITE), 0);
  ::munmap(read_only, kBytes);
  EXPECT_LT(::pwrite((*ours)->fd(), "x", 1, 0), 0);
}

TEST(MemorySegment, CannotChangeItsLengthNorItsSeals) {
  for (auto create : {&MemorySegment::Create, &MemorySegment::CreateShared}) {
    auto segment = create(kBytes);
    ASSERT_TRUE(segment.ok()) << segment.status();
    EXPECT_NE(::ftruncate((*segment)->fd(), 1), 0);
    EXPECT_NE(::ftruncate((*segment)->fd(), 2 * kBytes), 0);
    EXPECT_NE(::fcntl((*segment)->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  }
}

TEST(MemorySegment, IsWrittenByBothEndsWhenItIsShared) {
  auto ours = MemorySegment::CreateShared(kBytes);
  ASSERT_TRUE(ours.ok()) << ours.status();
  auto theirs = MemorySegment::Map(Passed((*ours)->fd()), kBytes, Access::kReadWrite);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  (*theirs)->mutable_data()[7] = std::byte{42};
  EXPECT_EQ((*ours)->data()[7], std::byte{42});
}

TEST(MemorySegment, RefusesMemoryThatThePeerCouldShorten) {
  runtime::UniqueFd fd(::memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), kBytes), 0);
  const int number = fd.get();
  auto theirs = MemorySegment::Map(std::move(fd), kBytes, Access::kReadOnly);
  EXPECT_EQ(theirs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(theirs.status().message()), HasSubstr("F_SEAL_SHRINK"));
  EXPECT_FALSE(IsOpen(number));
}

TEST(MemorySegment, RefusesMemoryThatIsShorterThanThePeerSaid) {
  auto ours = MemorySegment::Create(kBytes);
  ASSERT_TRUE(ours.ok()) << ours.status();
  auto theirs = MemorySegment::Map(Passed((*ours)->fd()), kBytes + 1, Access::kReadOnly);
  EXPECT_EQ(theirs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(theirs.status().message()), HasSubstr("65536 bytes"));
  for (const uint64_t lie : {uint64_t{0}, ~uint64_t{0}}) {
    theirs = MemorySegment::Map(Passed((*ours)->fd()), lie, Access::kReadOnly);
    EXPECT_EQ(theirs.status().code(), absl::StatusCode::kInvalidArgument) << lie;
  }
}

TEST(MemorySegment, RefusesADescriptorThatIsNoMemory) {
  runtime::UniqueFd fd(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  auto theirs = MemorySegment::Map(std::move(fd), kBytes, Access::kReadOnly);
  EXPECT_EQ(theirs.status().code(), absl::StatusCode::kInvalidArgument) << theirs.status();
}

TEST(MemorySegment, CannotBeEmptyOrEndless) {
  EXPECT_EQ(MemorySegment::Create(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MemorySegment::Create(~uint64_t{0}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MemorySegment, NamesTheSystemCallThatFailed) {
  auto segment = MemorySegment::Create(uint64_t{1} << 60);
  ASSERT_FALSE(segment.ok());
  EXPECT_THAT(std::string(segment.status().message()), HasSubstr("mmap of 1152921504606846976"));
}

TEST(MemorySegment, ClosesThePeersDescriptorAndKeepsTheMapping) {
  auto ours = MemorySegment::Create(kBytes);
  ASSERT_TRUE(ours.ok()) << ours.status();
  runtime::UniqueFd fd = Passed((*ours)->fd());
  const int number = fd.get();
  auto theirs = MemorySegment::Map(std::move(fd), kBytes, Access::kReadOnly);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_FALSE(IsOpen(number));
  (*ours)->mutable_data()[0] = std::byte{1};
  ours->reset();
  EXPECT_EQ((*theirs)->data()[0], std::byte{1});
}

TEST(MemorySegment, TakesThePagesOfARangeFromTheSystem) {
  auto segment = MemorySegment::Create(kBytes);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  ASSERT_TRUE((*segment)->Populate(page + 1, 1).ok());
  unsigned char resident[kBytes / 4096] = {};
  ASSERT_EQ(::mincore((*segment)->mutable_data(), kBytes, resident), 0);
  EXPECT_EQ(resident[0] & 1, 0);
  EXPECT_EQ(resident[1] & 1, 1);
  EXPECT_EQ(resident[2] & 1, 0);
}

}  // namespace
}  // namespace lockstep::transport

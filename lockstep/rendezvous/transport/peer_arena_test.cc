#include "lockstep/rendezvous/transport/peer_arena.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/mutex.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/memory_segment.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kForever = std::numeric_limits<uint64_t>::max();

void Nothing() {}

// Both ends in one process: `arena` is the peer, `view` what we see of it.
class PeerArenaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    block_ = arena_.Allocate(1000).value();
    ASSERT_TRUE(Pass().ok());
  }

  absl::Status Pass() {
    const SegmentSize segment = arena_.segments().back();
    return theirs_.AddSegment(segment.id, arena_.DescriptorOf(segment.id).value(), segment.bytes);
  }

  void ExpectRefused(const Place& place, const std::string& text) {
    const auto view = theirs_.View(place, [] { ADD_FAILURE() << "there was no lease to end"; });
    EXPECT_EQ(view.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(view.status().message()), HasSubstr(text));
  }

  Arena arena_{{.first_segment_bytes = kMiB}};
  PeerArena theirs_{{.segments_max = 2, .bytes_max = 3 * kMiB, .views_max = 3}};
  std::shared_ptr<Block> block_;
};

TEST_F(PeerArenaTest, ShowsThePeersBytesUntilTheViewGoes) {
  std::memset(block_->mutable_data(), 7, 1000);
  int gone = 0;
  auto view = theirs_.View(block_->place(), [&gone] { ++gone; });
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ((*view)->bytes(), 1000u);
  EXPECT_NE((*view)->data(), block_->data());
  EXPECT_EQ(std::memcmp((*view)->data(), block_->data(), 1000), 0);
  rendezvous::MemoryPtr copy = *view;
  view->reset();
  EXPECT_EQ(gone, 0);
  copy.reset();
  EXPECT_EQ(gone, 1);
}

// Its parent's threads may hold the locks of what it was made of, and the loan is the parent's.
TEST_F(PeerArenaTest, AForkedChildDropsViewsWithoutALock) {
  Mutex mutex;
  int gone = 0;
  auto view = theirs_.View(block_->place(), [&] {
    const MutexLock lock(mutex);
    ++gone;
  });
  ASSERT_TRUE(view.ok()) << view.status();
  mutex.lock();  // as another thread would
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    view->reset();
    ::_exit(gone);
  }
  mutex.unlock();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  view->reset();
  EXPECT_EQ(gone, 1);
}

// Of the memory only those pages are taken that are touched.
TEST(PeerArena, RendezvousRow97_ViewsMayBeLongerThanTwoGigabytes) {
  constexpr uint64_t kBytes = (uint64_t{1} << 33) + 4096;
  const auto segment = MemorySegment::Create(kBytes);
  ASSERT_TRUE(segment.ok()) << segment.status();
  PeerArena theirs{{}};
  const absl::Status added =
      theirs.AddSegment(1, runtime::UniqueFd(::dup((*segment)->fd())), kBytes);
  ASSERT_TRUE(added.ok()) << added;
  for (const uint64_t bytes :
       {(uint64_t{1} << 31) - 1, uint64_t{1} << 31, (uint64_t{1} << 32) + 1}) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{4096}, kBytes - bytes}) {
      SCOPED_TRACE(std::to_string(bytes) + " at " + std::to_string(offset));
      std::byte* const first = (*segment)->mutable_data() + offset;
      first[0] = std::byte{1};
      first[bytes - 1] = std::byte{2};
      const auto view =
          theirs.View({.segment = 1, .offset = offset, .bytes = bytes, .generation = 1}, Nothing);
      ASSERT_TRUE(view.ok()) << view.status();
      EXPECT_EQ((*view)->bytes(), bytes);
      EXPECT_EQ((*view)->data()[0], std::byte{1});
      EXPECT_EQ((*view)->data()[bytes - 1], std::byte{2});
      first[0] = first[bytes - 1] = std::byte{0};
    }
    EXPECT_FALSE(
        theirs.View({.segment = 1, .offset = kBytes - bytes + 1, .bytes = bytes}, Nothing).ok());
  }
}

TEST_F(PeerArenaTest, RefusesPlacesOutsideTheSegment) {
  const uint32_t segment = block_->place().segment;
  for (const auto& [offset, bytes] :
       std::initializer_list<std::pair<uint64_t, uint64_t>>{{kMiB, 1},
                                                            {kMiB - 1, 2},
                                                            {kMiB + 1, 0},
                                                            {0, kMiB + 1},
                                                            {kForever, 1},
                                                            {1, kForever},
                                                            {kForever, kForever},
                                                            {kForever - 5, 6}}) {
    ExpectRefused({segment, offset, bytes, 1}, "the segment has 1048576 bytes");
  }
  EXPECT_TRUE(theirs_.View({segment, kMiB, 0, 1}, Nothing).ok());
  EXPECT_TRUE(theirs_.View({segment, 0, kMiB, 1}, Nothing).ok());
}

TEST_F(PeerArenaTest, RefusesASegmentThatItWasNeverSent) {
  ExpectRefused({99, 0, 1, 1}, "it sent no such segment");
}

TEST_F(PeerArenaTest, LendsABlockTwiceAsOneGenerationOnly) {
  Place place = block_->place();
  const auto first = theirs_.View(place, Nothing);
  const auto second = theirs_.View(place, Nothing);
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(second.ok());
  ++place.generation;
  ExpectRefused(place, "are still lent to us as generation");
}

TEST_F(PeerArenaTest, TakesAnotherGenerationWhenTheFirstHasGone) {
  Place place = block_->place();
  EXPECT_TRUE(theirs_.View(place, Nothing).ok());
  ++place.generation;
  EXPECT_TRUE(theirs_.View(place, Nothing).ok());
}

TEST_F(PeerArenaTest, RefusesABlockThatOverlapsAnotherThatIsLent) {
  const uint32_t segment = block_->place().segment;
  const auto low = theirs_.View({segment, 0, 1000, 1}, Nothing);
  const auto high = theirs_.View({segment, 4096, 1000, 2}, Nothing);
  ASSERT_TRUE(low.ok() && high.ok());
  ExpectRefused({segment, 999, 1, 3}, "bytes 0 to 1000");
  ExpectRefused({segment, 2000, 2097, 3}, "bytes 4096 to 5096");
  ExpectRefused({segment, 0, 4097, 1}, "bytes 4096 to 5096");
  EXPECT_TRUE(theirs_.View({segment, 1000, 3096, 3}, Nothing).ok());
  EXPECT_TRUE(theirs_.View({segment, 0, 4096, 1}, Nothing).ok());
}

TEST_F(PeerArenaTest, NamesTheLimitOfViews) {
  std::vector<rendezvous::MemoryPtr> views;
  for (int i = 0; i < 3; ++i) views.push_back(theirs_.View(block_->place(), Nothing).value());
  const auto view = theirs_.View(block_->place(), Nothing);
  EXPECT_EQ(view.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(view.status().message()), HasSubstr("peer_views_max"));
}

TEST_F(PeerArenaTest, RefusesASegmentTwiceAndMoreThanTheLimits) {
  EXPECT_EQ(Pass().code(), absl::StatusCode::kInvalidArgument);
  const auto shared = [](uint64_t bytes) {
    auto segment = MemorySegment::Create(bytes);
    return runtime::UniqueFd(::dup((*segment)->fd()));
  };
  absl::Status status = theirs_.AddSegment(50, shared(kMiB), 3 * kMiB);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("peer_arena_bytes_max"));
  EXPECT_EQ(theirs_.AddSegment(50, shared(kMiB), 2 * kMiB).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(theirs_.AddSegment(50, shared(kMiB), kMiB).ok());
  status = theirs_.AddSegment(51, shared(kMiB), kMiB);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("peer_segments_max"));
  EXPECT_EQ(theirs_.segments(), 2u);
}

TEST_F(PeerArenaTest, KeepsARemovedSegmentMappedWhileItIsViewed) {
  std::memset(block_->mutable_data(), 7, 1000);
  auto view = theirs_.View(block_->place(), Nothing);
  ASSERT_TRUE(view.ok());
  ASSERT_TRUE(theirs_.RemoveSegment(block_->place().segment).ok());
  EXPECT_EQ((*view)->data()[999], std::byte{7});
  ExpectRefused(block_->place(), "it sent no such segment");
  EXPECT_EQ(theirs_.RemoveSegment(block_->place().segment).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PeerArenaTest, EndsLeasesAfterItWentItself) {
  int gone = 0;
  rendezvous::MemoryPtr view;
  {
    PeerArena theirs({});
    const SegmentSize segment = arena_.segments().back();
    ASSERT_TRUE(
        theirs.AddSegment(segment.id, arena_.DescriptorOf(segment.id).value(), segment.bytes).ok());
    view = theirs.View(block_->place(), [&gone] { ++gone; }).value();
  }
  EXPECT_EQ(view->data()[0], block_->data()[0]);
  view.reset();
  EXPECT_EQ(gone, 1);
}

}  // namespace
}  // namespace lockstep::transport

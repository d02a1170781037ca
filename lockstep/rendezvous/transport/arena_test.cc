#include "lockstep/rendezvous/transport/arena.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/rendezvous/transport/memory_segment.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;

ArenaOptions Small() {
  return {.first_segment_bytes = kMiB,
          .segment_bytes_max = 4 * kMiB,
          .bytes_max = 32 * kMiB,
          .small_block_bytes_max = 64 * kKiB,
          .kept_free_bytes_max = 2 * kMiB};
}

std::shared_ptr<Block> Allocated(Arena& arena, uint64_t bytes) {
  auto block = arena.Allocate(bytes);
  EXPECT_TRUE(block.ok()) << block.status();
  return block.ok() ? *block : nullptr;
}

TEST(Arena, GivesOutAlignedMemoryThatLiesWhereThePlaceSays) {
  Arena arena(Small());
  std::vector<std::shared_ptr<Block>> blocks;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{100}, 4 * kKiB, 5000ul, 64 * kKiB,
                               64 * kKiB + 1, 3 * kMiB, 9 * kMiB}) {
    blocks.push_back(Allocated(arena, bytes));
    const Block& block = *blocks.back();
    EXPECT_EQ(block.bytes(), bytes);
    EXPECT_EQ(block.place().bytes, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % (bytes < 4 * kKiB ? 64 : 4 * kKiB), 0u);
    std::memset(block.mutable_data(), static_cast<int>(blocks.size()), bytes);
  }
  for (const SegmentSize& segment : arena.segments()) {
    auto fd = arena.DescriptorOf(segment.id);
    ASSERT_TRUE(fd.ok()) << fd.status();
    auto theirs =
        MemorySegment::Map(*std::move(fd), segment.bytes, MemorySegment::Access::kReadOnly);
    ASSERT_TRUE(theirs.ok()) << theirs.status();
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Place& place = blocks[i]->place();
      if (place.segment != segment.id) continue;
      const std::byte* const begin = (*theirs)->data() + place.offset;
      EXPECT_TRUE(std::all_of(begin, begin + place.bytes,
                              [&](std::byte b) { return b == std::byte(i + 1); }));
    }
  }
}

TEST(Arena, GivesMemoryOutAgainAsAnotherGeneration) {
  Arena arena(Small());
  for (const uint64_t bytes : {100 * uint64_t{1}, 128 * kKiB, 6 * kMiB}) {
    const Place first = Allocated(arena, bytes)->place();
    const Place second = Allocated(arena, bytes)->place();
    EXPECT_EQ(first.offset, second.offset);
    EXPECT_LT(first.generation, second.generation);
  }
}

TEST(Arena, HasABlockOfNoBytes) {
  Arena arena(Small());
  const auto block = Allocated(arena, 0);
  EXPECT_EQ(block->bytes(), 0u);
  EXPECT_NE(block->data(), nullptr);
}

TEST(Arena, NamesTheLimitWhenItIsFullAndHasRoomAgainAfterwards) {
  Arena arena(Small());
  std::vector<std::shared_ptr<Block>> blocks;
  absl::Status status;
  while (status.ok() && blocks.size() < 100) {
    auto block = arena.Allocate(kMiB);
    status = block.status();
    if (block.ok()) blocks.push_back(*std::move(block));
  }
  EXPECT_EQ(blocks.size(), 32u);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("arena_bytes_max"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("by 32 values"));
  blocks.pop_back();
  EXPECT_TRUE(arena.Allocate(kMiB).ok());
}

TEST(Arena, RefusesWhatCanNeverFit) {
  Arena arena(Small());
  for (const uint64_t bytes : {33 * kMiB, ~uint64_t{0}, ~uint64_t{0} - 4095}) {
    const absl::Status status = arena.Allocate(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("arena_bytes_max"));
  }
  EXPECT_EQ(arena.stats().segments, 0u);
}

TEST(Arena, NamesTheLimitOfSegments) {
  ArenaOptions options = Small();
  options.segments_max = 1;
  Arena arena(options);
  const auto block = Allocated(arena, 5 * kMiB);
  const absl::Status status = arena.Allocate(5 * kMiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("arena_segments_max"));
}

TEST(Arena, MakesRoomOfSegmentsThatItKeptFree) {
  ArenaOptions options = Small();
  options.kept_free_bytes_max = options.bytes_max;
  Arena arena(options);
  Allocated(arena, 20 * kMiB);
  EXPECT_EQ(arena.segments_removed(), 0u);
  const auto block = Allocated(arena, 30 * kMiB);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(arena.segments_removed(), 1u);
}

TEST(Arena, KeepsSomeFreeMemoryAndReturnsTheRest) {
  Arena arena(Small());
  const Place kept = Allocated(arena, 2 * kMiB)->place();
  EXPECT_EQ(arena.stats().segments, 1u);
  EXPECT_EQ(arena.stats().bytes_free, 2 * kMiB);
  EXPECT_EQ(Allocated(arena, 2 * kMiB)->place().segment, kept.segment);
  const Place large = Allocated(arena, 10 * kMiB)->place();
  EXPECT_EQ(arena.segments_removed(), 1u);
  EXPECT_EQ(arena.DescriptorOf(large.segment).status().code(), absl::StatusCode::kNotFound);
  EXPECT_LE(arena.stats().bytes_free, 2 * kMiB);
  EXPECT_GT(Allocated(arena, 10 * kMiB)->place().segment, large.segment) << "ids are used once";
}

TEST(Arena, KeepsWhatWasUsedLast) {
  ArenaOptions options = Small();
  options.kept_free_bytes_max = 12 * kMiB;
  Arena arena(options);
  const uint32_t first = Allocated(arena, 5 * kMiB)->place().segment;
  const uint32_t second = Allocated(arena, 10 * kMiB)->place().segment;
  EXPECT_NE(first, second);
  EXPECT_EQ(arena.segments_removed(), 1u);
  EXPECT_EQ(Allocated(arena, 10 * kMiB)->place().segment, second);
  Allocated(arena, 13 * kMiB);
  EXPECT_EQ(arena.segments_removed(), 2u) << "too large to be kept";
  EXPECT_EQ(Allocated(arena, 10 * kMiB)->place().segment, second);
}

TEST(Arena, CountsWhatIsInUse) {
  Arena arena(Small());
  const auto small = Allocated(arena, 1025);
  const auto large = Allocated(arena, 100 * kKiB + 1);
  EXPECT_EQ(arena.stats().blocks, 2u);
  EXPECT_EQ(arena.stats().bytes_in_use, 1280 + 104 * kKiB);
  EXPECT_EQ(arena.stats().bytes_reserved, kMiB);
}

TEST(Arena, LeavesBlocksAliveThatAreStillHeld) {
  std::shared_ptr<Block> block;
  {
    Arena arena(Small());
    block = Allocated(arena, 3 * kMiB);
  }
  std::memset(block->mutable_data(), 1, block->bytes());
  EXPECT_EQ(block->data()[3 * kMiB - 1], std::byte{1});
}

// Fills blocks with a number of their own and finds it unchanged when they go.
void UseAtRandom(Arena& arena, uint32_t seed, int rounds) {
  std::mt19937 random(seed);
  std::vector<std::pair<std::shared_ptr<Block>, std::byte>> held;
  for (int round = 0; round < rounds; ++round) {
    if (random() % 2 == 0 && held.size() < 60) {
      const uint64_t bytes = (uint64_t{1} << (random() % 20)) + random() % 1000;
      auto block = arena.Allocate(bytes);
      if (!block.ok()) continue;
      const auto mark = static_cast<std::byte>(random());
      std::memset((*block)->mutable_data(), static_cast<int>(mark), bytes);
      held.emplace_back(*std::move(block), mark);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      const auto& [block, mark] = held.back();
      const std::byte expected = mark;
      ASSERT_TRUE(std::all_of(block->data(), block->data() + block->bytes(),
                              [expected](std::byte b) { return b == expected; }));
      held.pop_back();
    }
  }
}

TEST(Arena, NeverGivesOutMemoryTwiceAtATime) {
  Arena arena(Small());
  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&arena, seed] { UseAtRandom(arena, seed, 3000); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.stats().blocks, 0u);
  EXPECT_EQ(arena.stats().bytes_in_use, 0u);
  EXPECT_LE(arena.stats().bytes_free, Small().kept_free_bytes_max);
}

}  // namespace
}  // namespace lockstep::transport

#include "lockstep/data/worker/chunk_maker.h"

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/data/engine/engine_testing.h"
#include "lockstep/data/worker/engine_source.h"
#include "lockstep/data/worker/segment_cache.h"

namespace lockstep::data {
namespace {

constexpr size_t kChunkBytes = 4096;

class ChunkMakerTest : public testing::Test {
 protected:
  // A frame of the maker's memory, full of `fill`.
  std::string_view Born(uint64_t bytes, char fill) {
    auto memory = allocate_(bytes);
    EXPECT_TRUE(memory.ok());
    std::memset((*memory)->data(), fill, bytes);
    kept_.push_back(*memory);
    return {reinterpret_cast<const char*>((*memory)->data()), bytes};
  }
  StoredChunkPtr Finish() { return maker_.Finish({.next = 1000}); }
  static std::string At(const StoredChunkPtr& chunk, uint32_t i) {
    return std::string(chunk->view.element(i));
  }

  const std::shared_ptr<transport::Arena> arena_ =
      std::make_shared<transport::Arena>(transport::ArenaOptions{});
  ChunkMaker maker_{arena_, kChunkBytes, engine::HeapAllocator()};
  const engine::Allocator allocate_ = maker_.allocator();
  std::vector<std::shared_ptr<engine::Memory>> kept_;
};

TEST_F(ChunkMakerTest, ElementsAreReadWhereTheyWereBorn) {
  const std::string_view a = Born(1000, 'a');
  const std::string_view b = Born(1500, 'b');
  ASSERT_TRUE(maker_.Add(a));
  ASSERT_TRUE(maker_.Add(b));
  const StoredChunkPtr chunk = Finish();
  ASSERT_EQ(chunk->head().count, 2U);
  EXPECT_EQ(chunk->view.element(0).data(), a.data());
  EXPECT_EQ(chunk->view.element(1).data(), b.data());
  EXPECT_TRUE(maker_.empty());
}

TEST_F(ChunkMakerTest, WhatDoesNotFitIsBornInTheNextChunk) {
  ASSERT_TRUE(maker_.Add(Born(3000, 'a')));
  const std::string_view b = Born(3000, 'b');
  EXPECT_FALSE(maker_.Add(b));
  EXPECT_EQ(At(Finish(), 0), std::string(3000, 'a'));
  ASSERT_TRUE(maker_.Add(b));
  const StoredChunkPtr second = Finish();
  EXPECT_EQ(second->view.element(0).data(), b.data());
  // Longer than a chunk, again and again.
  for (const char fill : {'c', 'd', 'e'}) {
    const std::string_view large = Born(3 * kChunkBytes, fill);
    ASSERT_TRUE(maker_.Add(large));
    EXPECT_EQ(Finish()->view.element(0).data(), large.data());
  }
}

TEST_F(ChunkMakerTest, OrderIsThatOfAdding) {
  const std::string_view a = Born(500, 'a');
  Born(500, 'x');  // never added
  const std::string_view b = Born(500, 'b');
  const std::string other(600, 'o');
  ASSERT_TRUE(maker_.Add(b));
  ASSERT_TRUE(maker_.Add(other));
  ASSERT_TRUE(maker_.Add(a));
  const StoredChunkPtr chunk = Finish();
  ASSERT_EQ(chunk->head().count, 3U);
  EXPECT_EQ(At(chunk, 0), b);
  EXPECT_EQ(At(chunk, 1), other);
  EXPECT_EQ(At(chunk, 2), a);
}

// A chunk that goes out early leaves some behind that were born in it.
TEST_F(ChunkMakerTest, WhatWasBornInAFinishedChunkIsCopied) {
  ASSERT_TRUE(maker_.Add(Born(1000, 'a')));
  const std::string_view late = Born(1000, 'l');
  const StoredChunkPtr first = Finish();
  ASSERT_TRUE(maker_.Add(late));
  EXPECT_EQ(At(Finish(), 0), std::string(1000, 'l'));
  EXPECT_EQ(first->head().count, 1U);
  EXPECT_EQ(At(first, 0), std::string(1000, 'a'));
}

TEST_F(ChunkMakerTest, GapsAloneMakeNoChunk) {
  for (int i = 0; i < 10; ++i) Born(1000, 'x');
  EXPECT_TRUE(maker_.empty());
  const std::string other(kChunkBytes, 'o');
  ASSERT_TRUE(maker_.Add(other));
  EXPECT_EQ(At(Finish(), 0), other);
}

TEST_F(ChunkMakerTest, WithoutAnArenaElementsAreCopied) {
  ChunkMaker maker(nullptr, kChunkBytes, engine::HeapAllocator());
  auto memory = maker.allocator()(1000);
  ASSERT_TRUE(memory.ok());
  std::memset((*memory)->data(), 'a', 1000);
  ASSERT_TRUE(maker.Add({reinterpret_cast<const char*>((*memory)->data()), 1000}));
  EXPECT_FALSE(maker.Add(std::string(kChunkBytes, 'b')));
  const StoredChunkPtr chunk = maker.Finish({.next = 1});
  EXPECT_EQ(chunk->block, nullptr);
  EXPECT_EQ(At(chunk, 0), std::string(1000, 'a'));
}

std::vector<std::string> Through(SegmentCache& cache,
                                 const std::shared_ptr<const SegmentSource>& source,
                                 int64_t segment, int64_t from) {
  std::vector<std::string> all;
  for (;;) {
    std::promise<absl::StatusOr<SegmentCache::Found>> promise;
    cache.Read({.dataset = "d", .source = source, .segment = segment, .from = from},
               [&](absl::StatusOr<SegmentCache::Found> found) { promise.set_value(found); });
    const auto found = promise.get_future().get();
    EXPECT_TRUE(found.ok());
    if (!found.ok()) return all;
    const wire::native::ChunkView& view = found->chunk->view;
    for (uint32_t i = 0; i < view.head().count; ++i) {
      if (view.index_of(i) >= from) all.emplace_back(view.element(i));
    }
    from = view.head().next;
    if (found->ended && from >= found->known) return all;
  }
}

// Frames are the same bytes wherever they are born, and from wherever a run is kept.
TEST(ChunkMaker, ElementsThroughTheCacheAreThoseOfALocalRun) {
  const auto arena = std::make_shared<transport::Arena>(transport::ArenaOptions{});
  for (const int shape : {0, 1, 2, 3}) {
    plan::Builder builder;
    builder.Range(20'000).Shuffle(1);
    if (shape == 1 || shape == 3) builder.Expression("filter", "(eq (mod _ 3) 0)");
    if (shape == 2 || shape == 3) builder.Count("batch", 700);
    const auto dataset = *engine::OpenDataset(builder);
    const auto source = MakeEngineSource(dataset);
    SegmentCache cache({.threads = 1, .chunk_bytes = 16 << 10, .arena = arena});
    const int64_t last = dataset->plan().segments() - 1;
    for (const int64_t segment : {int64_t{0}, last}) {
      std::vector<std::string> expected;
      auto run = *engine::SegmentRun::Start(dataset, segment);
      for (auto element = run->Next(); element->has_value(); element = run->Next()) {
        const auto frame = (*element)->frame();
        expected.emplace_back(reinterpret_cast<const char*>(frame.data()), frame.size());
      }
      ASSERT_FALSE(expected.empty());
      EXPECT_EQ(Through(cache, source, segment, 0), expected) << shape;
      const size_t half = expected.size() / 2;
      EXPECT_EQ(
          Through(cache, source, segment, static_cast<int64_t>(half)),
          std::vector<std::string>(expected.begin() + static_cast<int64_t>(half), expected.end()))
          << shape;
    }
  }
}

}  // namespace
}  // namespace lockstep::data

#include "lockstep/data/worker/segment_cache.h"

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/worker/read_service.h"
#include "lockstep/wire/native/data_chunk.h"

namespace lockstep::data {
namespace {

// Element i of segment s is "s/i", padded.
class Numbers final : public SegmentSource {
 public:
  Numbers(int64_t elements, size_t bytes, absl::Duration pause = absl::ZeroDuration())
      : elements_(elements), bytes_(bytes), pause_(pause) {}

  static std::string Element(int64_t segment, int64_t i, size_t bytes) {
    std::string text = absl::StrCat(segment, "/", i, " ");
    text.resize(std::max(bytes, text.size()), '.');
    return text;
  }

  absl::StatusOr<std::unique_ptr<ElementStream>> Start(
      int64_t segment, engine::Allocator /*frames*/,
      const std::atomic<bool>& /*stop*/) const override {
    ++runs;
    if (segment == 13) return absl::DataLossError("poisoned");
    return std::make_unique<Stream>(*this, segment);
  }
  mutable std::atomic<int> runs = 0;
  mutable std::atomic<int64_t> made = 0;

 private:
  class Stream final : public ElementStream {
   public:
    Stream(const Numbers& of, int64_t segment) : of_(of), segment_(segment) {}
    absl::StatusOr<std::optional<std::string_view>> Next() override {
      if (next_ == of_.elements_) return std::nullopt;
      if (of_.pause_ > absl::ZeroDuration()) {
        std::this_thread::sleep_for(absl::ToChronoMicroseconds(of_.pause_));
      }
      ++of_.made;
      element_ = Element(segment_, next_++, of_.bytes_);
      return element_;
    }

   private:
    const Numbers& of_;
    const int64_t segment_;
    int64_t next_ = 0;
    std::string element_;
  };

  const int64_t elements_;
  const size_t bytes_;
  const absl::Duration pause_;
};

// As a consumer reads: all elements of its stride.
std::vector<std::string> ReadAll(SegmentCache& cache, std::shared_ptr<const SegmentSource> source,
                                 int64_t segment, int64_t from, uint32_t stride, uint64_t ahead = 0,
                                 int64_t elements_max = 1000) {
  std::vector<std::string> all;
  for (;;) {
    std::promise<absl::StatusOr<SegmentCache::Found>> promise;
    const ReadRequest request = {.dataset = "d",
                                 .source = source,
                                 .segment = segment,
                                 .from = from,
                                 .stride = stride,
                                 .ahead = static_cast<int64_t>(ahead),
                                 .elements_max = elements_max};
    cache.Read(request,
               [&](absl::StatusOr<SegmentCache::Found> found) { promise.set_value(found); });
    const auto found = promise.get_future().get();
    if (!found.ok()) {
      all.push_back(std::string(found.status().message()));
      return all;
    }
    uint64_t elements = 0;
    const link::Payload payload = AnswerOf(*found, request, elements);
    const std::string& bytes = payload.shared != nullptr ? *payload.shared : payload.bytes;
    const auto answer = wire::native::ParseReadAnswer(bytes);
    EXPECT_TRUE(answer.ok());
    const auto view = wire::native::ChunkView::Parse(answer->chunk);
    EXPECT_TRUE(view.ok()) << view.status();
    for (uint32_t i = 0; i < view->head().count; ++i) {
      if (view->index_of(i) < from) continue;
      all.emplace_back(view->element(i));
    }
    EXPECT_TRUE(view->head().count > 0 || view->head().ended);
    from = view->head().next;
    if (view->head().ended) return all;
  }
}

std::vector<std::string> Expected(int64_t segment, int64_t elements, size_t bytes, int64_t from,
                                  int64_t stride) {
  std::vector<std::string> all;
  for (int64_t i = from; i < elements; i += stride) {
    all.push_back(Numbers::Element(segment, i, bytes));
  }
  return all;
}

TEST(SegmentCache, GivesAllElementsInOrder) {
  SegmentCache cache({.threads = 2, .chunk_bytes = 1024});
  const auto source = std::make_shared<Numbers>(100, 100);
  EXPECT_EQ(ReadAll(cache, source, 0, 0, 1), Expected(0, 100, 100, 0, 1));
  EXPECT_EQ(ReadAll(cache, source, 1, 37, 1), Expected(1, 100, 100, 37, 1));
  EXPECT_EQ(source->runs, 2);
}

TEST(SegmentCache, StridesShareOneRun) {
  SegmentCache cache({.threads = 2, .chunk_bytes = 1024});
  const auto source = std::make_shared<Numbers>(100, 100);
  std::vector<std::future<std::vector<std::string>>> readers;
  for (int64_t i = 0; i < 3; ++i) {
    readers.push_back(
        std::async(std::launch::async, [&, i] { return ReadAll(cache, source, 5, i, 3); }));
  }
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(readers[static_cast<size_t>(i)].get(), Expected(5, 100, 100, i, 3)) << i;
  }
  EXPECT_EQ(cache.stats().chunks, 0U);
}

TEST(SegmentCache, RunsAgainWhatWasReadAlready) {
  SegmentCache cache({.threads = 1, .chunk_bytes = 1024});
  const auto source = std::make_shared<Numbers>(100, 100);
  const auto first = ReadAll(cache, source, 0, 0, 1);
  EXPECT_EQ(ReadAll(cache, source, 0, 0, 1), first);
  EXPECT_EQ(ReadAll(cache, source, 0, 50, 1), Expected(0, 100, 100, 50, 1));
  EXPECT_EQ(source->runs, 3);
}

// A reader that takes a part of a chunk comes back for the rest: that is there.
TEST(SegmentCache, PartsOfAChunkAreReadOfOneRun) {
  SegmentCache cache({.threads = 1, .chunk_bytes = 4096});
  const auto source = std::make_shared<Numbers>(100, 100);
  EXPECT_EQ(ReadAll(cache, source, 0, 0, 1, 0, 3), Expected(0, 100, 100, 0, 1));
  EXPECT_EQ(source->runs, 1);
  EXPECT_EQ(cache.stats().chunks, 0U);
  EXPECT_EQ(ReadAll(cache, source, 1, 0, 2, 0, 3), Expected(1, 100, 100, 0, 2));
  EXPECT_EQ(ReadAll(cache, source, 1, 1, 2, 0, 3), Expected(1, 100, 100, 1, 2));
  EXPECT_EQ(source->runs, 2);
  EXPECT_EQ(cache.stats().chunks, 0U);
}

TEST(SegmentCache, StaysWithinItsBytes) {
  SegmentCache cache({.threads = 2, .bytes_max = 8 << 10, .chunk_bytes = 1024});
  const auto source = std::make_shared<Numbers>(200, 100);
  for (int64_t segment = 0; segment < 8; ++segment) {
    cache.Prepare({.dataset = "d", .source = source, .segment = segment});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(cache.stats().bytes, size_t{12} << 10);
  for (int64_t segment = 7; segment >= 0; --segment) {
    EXPECT_EQ(ReadAll(cache, source, segment, 0, 1), Expected(segment, 200, 100, 0, 1));
  }
  EXPECT_EQ(cache.stats().bytes, 0U);
}

TEST(SegmentCache, WhoWaitsGetsWhatThereIs) {
  SegmentCache cache({.threads = 1});
  const auto source = std::make_shared<Numbers>(1000, 10, absl::Milliseconds(3));
  const auto start = std::chrono::steady_clock::now();
  std::promise<int64_t> next;
  cache.Read({.dataset = "d", .source = source, .segment = 0},
             [&](absl::StatusOr<SegmentCache::Found> found) {
               next.set_value(found->chunk->head().next);
             });
  EXPECT_LT(next.get_future().get(), 100);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(SegmentCache, AnElementMayBeLongerThanAChunk) {
  SegmentCache cache({.threads = 1, .chunk_bytes = 64});
  const auto source = std::make_shared<Numbers>(5, 1000);
  EXPECT_EQ(ReadAll(cache, source, 0, 0, 1), Expected(0, 5, 1000, 0, 1));
}

TEST(SegmentCache, WaitsUntilEnoughIsKnownToBeBehind) {
  SegmentCache cache({.threads = 1, .chunk_bytes = 200});
  const auto source = std::make_shared<Numbers>(10, 100);
  EXPECT_EQ(ReadAll(cache, source, 0, 2, 4, 3), Expected(0, 10, 100, 2, 4));
}

// A turn that goes on in the next segment: element 8 is not in the last chunk, and only 9 is behind
// it.
TEST(SegmentCache, GivesWhatHasTooFewBehindItBeforeTheEnd) {
  SegmentCache cache({.threads = 1, .chunk_bytes = 200});
  const auto source = std::make_shared<Numbers>(10, 100);
  EXPECT_EQ(ReadAll(cache, source, 0, 0, 4, 3), Expected(0, 10, 100, 0, 4));
}

TEST(SegmentCache, AnEmptySegmentEnds) {
  SegmentCache cache({.threads = 1});
  const auto source = std::make_shared<Numbers>(0, 10);
  EXPECT_TRUE(ReadAll(cache, source, 0, 0, 1).empty());
  EXPECT_TRUE(ReadAll(cache, source, 0, 0, 4, 3).empty());
}

TEST(SegmentCache, FailsWhoWaitsAndTriesAgainForTheNext) {
  SegmentCache cache({.threads = 1});
  const auto source = std::make_shared<Numbers>(10, 10);
  EXPECT_THAT(ReadAll(cache, source, 13, 0, 1), testing::ElementsAre("poisoned"));
  EXPECT_THAT(ReadAll(cache, source, 13, 0, 1), testing::ElementsAre("poisoned"));
  EXPECT_EQ(source->runs, 2);
}

TEST(SegmentCache, EndsWhileSomebodyWaits) {
  const auto source = std::make_shared<Numbers>(1000, 10, absl::Milliseconds(1));
  bool called = false;
  {
    SegmentCache cache({.threads = 1, .flush_after = absl::Seconds(10)});
    cache.Read({.dataset = "d", .source = source, .segment = 0, .from = 900, .reader = 7},
               [&](const auto&) { called = true; });
    cache.Forget(7);
  }
  EXPECT_FALSE(called);
}

// A worker lives long, and datasets come and go.
TEST(SegmentCache, NothingIsLeftOfADatasetThatWasDropped) {
  SegmentCache cache({.threads = 1, .chunk_bytes = 1024});
  const auto source = std::make_shared<Numbers>(100, 100);
  EXPECT_EQ(ReadAll(cache, source, 0, 0, 1).size(), 100U);
  EXPECT_EQ(cache.totals().at("d").elements, 100);
  cache.Drop("d");
  EXPECT_TRUE(cache.totals().empty());
  EXPECT_EQ(cache.stats().segments, 0U);
}

// One that skips to a far element, or makes one that takes long, is not waited for.
TEST(SegmentCache, EndsWhileARunSkips) {
  const auto source = std::make_shared<Numbers>(100'000, 10, absl::Milliseconds(1));
  const auto start = std::chrono::steady_clock::now();
  {
    SegmentCache cache({.threads = 1});
    cache.Read({.dataset = "d", .source = source, .segment = 0, .from = 90'000},
               [](const auto&) { ADD_FAILURE() << "it is not there"; });
    while (source->made == 0) std::this_thread::yield();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace lockstep::data

#include "lockstep/data/engine/element.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/engine/frame.h"

namespace lockstep::engine {
namespace {

using plan::DType;
using ::testing::ElementsAre;

// An int32[2] and two texts.
std::vector<std::byte> MakeFrame() {
  const std::vector<FrameLeaf> leaves = {{.type = DType::kInt32, .dims = {2}, .bytes = 8},
                                         {.type = DType::kText, .dims = {2}, .bytes = 24 + 5}};
  const FrameLayout layout = LayOut(leaves);
  std::vector<std::byte> frame(layout.bytes, std::byte{0xEE});
  const int32_t numbers[] = {7, -1};
  const int64_t offsets[] = {0, 2, 5};
  std::memcpy(frame.data() + layout.offsets[0], numbers, sizeof(numbers));
  std::memcpy(frame.data() + layout.offsets[1], offsets, sizeof(offsets));
  std::memcpy(frame.data() + layout.offsets[1] + sizeof(offsets), "abcde", 5);
  WriteHead(frame.data(), leaves, layout, 17, 3, 4);
  return frame;
}

TEST(Element, WhatWasWrittenIsRead) {
  const auto frame = MakeFrame();
  const auto view = ElementView::Parse(frame);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->spec_hash(), 17u);
  EXPECT_EQ(view->segment(), 3);
  EXPECT_EQ(view->index(), 4);
  ASSERT_EQ(view->leaves(), 2u);
  EXPECT_THAT(view->leaf(0).dims, ElementsAre(2));
  EXPECT_EQ(reinterpret_cast<const int32_t*>(view->leaf(0).bytes.data())[1], -1);
  EXPECT_EQ(view->leaf(1).item(0), "ab");
  EXPECT_EQ(view->leaf(1).item(1), "cde");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((view->leaf(i).bytes.data() - frame.data()) % 64, 0);
  }
}

// The same element is the same bytes.
TEST(Element, NothingIsLeftOfWhatTheMemoryHeld) {
  const auto frame = MakeFrame();
  EXPECT_EQ(frame.back(), std::byte{0});
  EXPECT_EQ(frame.size() % 64, 0u);
}

TEST(Element, DamageIsSeen) {
  const auto frame = MakeFrame();
  for (size_t length = 0; length < frame.size(); ++length) {
    EXPECT_FALSE(ElementView::Parse({frame.data(), length}).ok());
  }
  // Header and meta are under the checksum, leaves are not.
  const size_t meta = 64 + 2 * 32 + 2 * 8;
  for (size_t i = 0; i < meta; ++i) {
    auto damaged = frame;
    damaged[i] ^= std::byte{1};
    EXPECT_FALSE(ElementView::Parse(damaged).ok()) << i;
  }
  auto damaged = frame;
  damaged[256 + 8] = std::byte{200};  // an offset of the texts
  EXPECT_FALSE(ElementView::Parse(damaged).ok());
}

TEST(HeapAllocator, IsAlignedAndKeepsLargeBlocks) {
  const Allocator allocate = HeapAllocator();
  for (const uint64_t bytes : {0, 1, 100, 65536, 100'000, 8 << 20}) {
    const std::byte* first = nullptr;
    {
      const auto memory = allocate(bytes);
      ASSERT_TRUE(memory.ok());
      first = (*memory)->data();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
      std::memset((*memory)->data(), 1, bytes);
    }
    if (bytes < 65536) continue;
    EXPECT_EQ((*allocate(bytes))->data(), first);
  }
}

}  // namespace
}  // namespace lockstep::engine

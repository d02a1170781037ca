#include "lockstep/rendezvous/transport/slab_table.h"

#include <gtest/gtest.h>

namespace lockstep::transport::internal {
namespace {

const Run kRun = {.segment = 1, .offset = 4096, .bytes = 256};

TEST(SlabTable, GivesBlocksOutUntilASlabIsFull) {
  SlabTable slabs;
  EXPECT_EQ(slabs.WithRoom(128), nullptr);
  Slab* slab = slabs.Add(kRun, nullptr, 128);
  EXPECT_EQ(slabs.WithRoom(128), slab);
  EXPECT_EQ(slabs.TakeBlock(slab), 0);
  EXPECT_EQ(slabs.TakeBlock(slab), 1);
  EXPECT_EQ(slabs.WithRoom(128), nullptr) << "both are given out";
  EXPECT_FALSE(slabs.GiveBlock(slab, 0));
  EXPECT_EQ(slabs.WithRoom(128), slab);
  EXPECT_EQ(slabs.TakeBlock(slab), 0) << "one that was used before";
}

TEST(SlabTable, RemovesASlabThatNobodyUses) {
  SlabTable slabs;
  Slab* first = slabs.Add(kRun, nullptr, 128);
  Slab* second = slabs.Add(kRun, nullptr, 128);
  slabs.TakeBlock(first);
  EXPECT_TRUE(slabs.GiveBlock(first, 0));
  EXPECT_EQ(slabs.Remove(first).offset, kRun.offset);
  EXPECT_EQ(slabs.WithRoom(128), second);
}

}  // namespace
}  // namespace lockstep::transport::internal

#include "lockstep/platform/etcd/layout.h"

#include "gtest/gtest.h"

namespace lockstep::etcd {
namespace {

TEST(Layout, RowsAreInTheOrderOfTheirNumbers) {
  const Layout layout("a/b");
  EXPECT_EQ(layout.row(1), "a/b/log/0000000000000001");
  EXPECT_LT(layout.row(9), layout.row(10));
  EXPECT_LT(layout.row(0xff), layout.row(0x100));
  EXPECT_LT(layout.row(~uint64_t{0}), layout.rows_end());
  EXPECT_EQ(layout.SequenceOf(layout.row(77)), 77u);
  for (const char* none : {"a/b/log/1", "a/b/log/000000000000000G", "a/b/log/00000000000000AB",
                           "a/c/log/0000000000000001", "a/b/log/00000000000000011", ""}) {
    EXPECT_EQ(layout.SequenceOf(none), std::nullopt) << none;
  }
}

TEST(Layout, ALineageIsReadAsItWasWritten) {
  const auto lineage = DecodeLineage(Encode({.id = "0123abc"}));
  ASSERT_TRUE(lineage.ok());
  EXPECT_EQ(lineage->format, kFormat);
  EXPECT_EQ(lineage->id, "0123abc");
  for (const char* wrong : {"", "lockstep state ", "lockstep state 1\n", "lockstep state 1\nabc",
                            "lockstep state x\nabc\n", "another\n1\n"}) {
    EXPECT_FALSE(DecodeLineage(wrong).ok()) << wrong;
  }
}

TEST(Layout, ASnapshotIsNamedAsItWasWritten) {
  const SnapshotName name = {.epoch = 77, .through = 1234};
  EXPECT_EQ(*DecodeSnapshotName(Encode(name)), name);
  for (const char* wrong :
       {"", "1 2", "000000000000004d", "000000000000004d ", "f00000000000004d 000000000000004d"}) {
    EXPECT_FALSE(DecodeSnapshotName(wrong).ok()) << wrong;
  }
  const Layout layout("a");
  EXPECT_LT(layout.piece(name, 9), layout.piece({.epoch = 78, .through = 1}, 0));
}

TEST(Layout, ARowFitsOnlyBehindTheOneItWasWrittenBehind) {
  const std::string value = EncodeRow(7, 3, true, "bytes");
  const auto row = DecodeRow(7, 3, value);
  ASSERT_TRUE(row.ok());
  EXPECT_TRUE(row->head.more);
  EXPECT_EQ(row->bytes, "bytes");
  EXPECT_FALSE(DecodeRow(8, 3, value).ok());
  EXPECT_FALSE(DecodeRow(7, 4, value).ok());
  EXPECT_FALSE(DecodeRow(7, 3, value.substr(0, 5)).ok());
  EXPECT_FALSE(DecodePiece(7, 3, 0, value).ok());
}

}  // namespace
}  // namespace lockstep::etcd

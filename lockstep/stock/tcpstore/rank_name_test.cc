#include "lockstep/stock/tcpstore/rank_name.h"

#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

TEST(RankOfKey, IsTheNumberAtTheEnd) {
  EXPECT_EQ(RankOfKey("/default_pg/0//cpu//0/3"), 3);
  EXPECT_EQ(RankOfKey("/x/rank_12"), 12);
  EXPECT_EQ(RankOfKey("/0"), 0);
}

TEST(RankOfKey, IsNothingElse) {
  EXPECT_EQ(RankOfKey(""), std::nullopt);
  EXPECT_EQ(RankOfKey("3"), std::nullopt) << "no name before it";
  EXPECT_EQ(RankOfKey("/store_based_barrier_key:1"), std::nullopt);
  EXPECT_EQ(RankOfKey("/weights3"), std::nullopt);
  EXPECT_EQ(RankOfKey("/x/"), std::nullopt);
  EXPECT_EQ(RankOfKey("/x/131072"), std::nullopt) << "no job has so many members";
  EXPECT_EQ(RankOfKey("/x/99999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::tcpstore

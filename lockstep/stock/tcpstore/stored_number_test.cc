#include "lockstep/stock/tcpstore/stored_number.h"

#include <limits>

#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(StoredNumber, IsReadAsFarAsThereAreDigits) {
  EXPECT_EQ(NumberIn("12"), 12);
  EXPECT_EQ(NumberIn(" \t-3rest"), -3);
  EXPECT_EQ(NumberIn("+4"), 4);
  EXPECT_EQ(NumberIn(""), std::nullopt);
  EXPECT_EQ(NumberIn("-"), std::nullopt);
  EXPECT_EQ(NumberIn("x1"), std::nullopt);
}

TEST(StoredNumber, HasSixtyFourBits) {
  EXPECT_EQ(NumberIn("9223372036854775807"), kMost);
  EXPECT_EQ(NumberIn("-9223372036854775808"), kLeast);
  EXPECT_EQ(NumberIn("9223372036854775808"), std::nullopt);
  EXPECT_EQ(NumberIn("-9223372036854775809"), std::nullopt);
}

TEST(StoredNumber, GoesRoundPastTheLastOne) {
  EXPECT_EQ(AddAround(kMost, 1), kLeast);
  EXPECT_EQ(AddAround(kLeast, -1), kMost);
  EXPECT_EQ(AddAround(2, -5), -3);
}

}  // namespace
}  // namespace lockstep::tcpstore

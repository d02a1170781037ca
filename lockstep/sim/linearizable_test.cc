#include "lockstep/sim/linearizable.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;
using Kind = KeyOperation::Kind;

KeyOperation Write(int64_t asked, std::optional<int64_t> answered, std::string value) {
  return {.kind = Kind::kSet,
          .value = std::move(value),
          .asked = asked,
          .answered = answered,
          .done = true};
}

KeyOperation Read(int64_t asked, int64_t answered, std::optional<std::string> result) {
  return {.kind = Kind::kRead,
          .asked = asked,
          .answered = answered,
          .done = result.has_value(),
          .result = std::move(result)};
}

TEST(Linearizable, TakesWhatHappenedInOrder) {
  EXPECT_EQ(CheckLinearizable({Write(1, 2, "a"), Read(3, 4, "a"), Read(5, 6, "a")}), "");
}

TEST(Linearizable, TakesEitherOrderOfWhatOverlaps) {
  EXPECT_EQ(CheckLinearizable({Write(1, 5, "a"), Read(2, 3, std::nullopt)}), "");
  EXPECT_EQ(CheckLinearizable({Write(1, 5, "a"), Read(2, 3, "a")}), "");
}

TEST(Linearizable, FindsAWriteThatWasLost) {
  EXPECT_THAT(CheckLinearizable({Write(1, 2, "a"), Read(3, 4, std::nullopt)}),
              HasSubstr("fit no order"));
}

TEST(Linearizable, FindsAValueThatWasTakenBack) {
  EXPECT_NE(CheckLinearizable({Write(1, 10, "a"), Read(2, 3, "a"), Read(4, 5, std::nullopt)}), "");
}

TEST(Linearizable, FindsAnAdditionThatHappenedTwice) {
  const KeyOperation once{
      .kind = Kind::kAdd, .number = 3, .asked = 1, .answered = 2, .done = true, .result = "3"};
  EXPECT_EQ(CheckLinearizable({once, Read(3, 4, "3")}), "");
  EXPECT_NE(CheckLinearizable({once, Read(3, 4, "6")}), "");
}

TEST(Linearizable, WhatWasNeverAnsweredMayHaveHappenedOrNot) {
  EXPECT_EQ(CheckLinearizable({Write(1, std::nullopt, "a"), Read(3, 4, "a")}), "");
  EXPECT_EQ(CheckLinearizable({Write(1, std::nullopt, "a"), Read(3, 4, std::nullopt)}), "");
  EXPECT_NE(CheckLinearizable({Write(9, std::nullopt, "a"), Read(3, 4, "a")}), "");
}

TEST(Linearizable, OnlyOneOfTwoSwapsFromTheSameValueHappens) {
  const auto swap = [](std::string to, bool done, std::string result) {
    return KeyOperation{.kind = Kind::kCompareAndSet,
                        .value = std::move(to),
                        .asked = 1,
                        .answered = 9,
                        .done = done,
                        .result = std::move(result)};
  };
  EXPECT_EQ(CheckLinearizable({swap("a", true, "a"), swap("b", false, "a")}), "");
  EXPECT_NE(CheckLinearizable({swap("a", true, "a"), swap("b", true, "b")}), "");
}

}  // namespace
}  // namespace lockstep::sim

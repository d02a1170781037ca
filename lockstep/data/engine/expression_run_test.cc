#include "lockstep/data/engine/expression_run.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/data/engine/engine_testing.h"
#include "lockstep/data/engine/half.h"

namespace lockstep::engine {
namespace {

using ::testing::ElementsAre;

// Of -3, -2, .. 3.
template <class T>
std::vector<T> Of(const std::string& expression) {
  plan::Builder builder;
  builder.Add("range", {}, {{"start", int64_t{-3}}, {"stop", int64_t{4}}});
  builder.Expression("map", expression);
  const auto dataset = OpenDataset(builder);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  auto values = All<T>(*dataset);
  EXPECT_TRUE(values.ok()) << values.status();
  return *values;
}

// As Python has them.
TEST(ExpressionRun, WholeNumbersRoundDown) {
  EXPECT_THAT(Of<int64_t>("(floordiv _ 2)"), ElementsAre(-2, -1, -1, 0, 0, 1, 1));
  EXPECT_THAT(Of<int64_t>("(mod _ 2)"), ElementsAre(1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(Of<int64_t>("(mod _ -2)"), ElementsAre(-1, 0, -1, 0, -1, 0, -1));
  EXPECT_THAT(Of<double>("(mod (cast _ \"float64\") 2)"), ElementsAre(1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(Of<double>("(div _ 2)"), ElementsAre(-1.5, -1, -0.5, 0, 0.5, 1, 1.5));
}

TEST(ExpressionRun, Everything) {
  EXPECT_THAT(Of<int64_t>("(abs _)"), ElementsAre(3, 2, 1, 0, 1, 2, 3));
  EXPECT_THAT(Of<int64_t>("(neg _)"), ElementsAre(3, 2, 1, 0, -1, -2, -3));
  EXPECT_THAT(Of<int64_t>("(min _ 0)"), ElementsAre(-3, -2, -1, 0, 0, 0, 0));
  EXPECT_THAT(Of<int64_t>("(max 1 _)"), ElementsAre(1, 1, 1, 1, 1, 2, 3));
  EXPECT_THAT(Of<int64_t>("(sub 1 _)"), ElementsAre(4, 3, 2, 1, 0, -1, -2));
  EXPECT_THAT(Of<int64_t>("(where (lt _ 0) 0 (mul _ _))"), ElementsAre(0, 0, 0, 0, 1, 4, 9));
  EXPECT_THAT(Of<uint8_t>("(or (eq _ 1) (not (le _ 2)))"), ElementsAre(0, 0, 0, 0, 1, 0, 1));
  EXPECT_THAT(Of<uint8_t>("(cast _ \"bool\")"), ElementsAre(1, 1, 1, 0, 1, 1, 1));
  EXPECT_THAT(Of<uint8_t>("(cast _ \"uint8\")"), ElementsAre(253, 254, 255, 0, 1, 2, 3));
  EXPECT_THAT(Of<int8_t>("(add (cast _ \"int8\") 126)"),
              ElementsAre(123, 124, 125, 126, 127, -128, -127));
  EXPECT_THAT(Of<int64_t>("7"), ElementsAre(7, 7, 7, 7, 7, 7, 7));
}

TEST(ExpressionRun, ArraysAreCutAndReduced) {
  plan::Builder builder;
  builder.Add("array", {},
              {{"names", std::vector<std::string>{""}},
               {"dtypes", std::vector<std::string>{"float32"}},
               {"shapes", std::vector<std::string>{"2,3"}},
               {"data", std::vector<std::string>{BytesOfItems<float>({1, 2, 3, 4, 5, 6})}}});
  const auto of = [&](const std::string& expression) {
    plan::Builder mapped = builder;
    mapped.Expression("map", expression);
    return *All<float>(*OpenDataset(mapped));
  };
  EXPECT_THAT(of("(slice _ 1 9)"), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(of("(index _ -1)"), ElementsAre(3, 6));
  EXPECT_THAT(of("(sum _)"), ElementsAre(6, 15));
  EXPECT_THAT(of("(mean _)"), ElementsAre(2, 5));
  EXPECT_THAT(of("(sub _ (index _ 0))"), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(Half, GoesBothWays) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(FloatOfHalf(half))) {
      EXPECT_EQ(HalfOfFloat(FloatOfHalf(half)), half);
    }
    if (!std::isnan(FloatOfBFloat16(half))) {
      EXPECT_EQ(BFloat16OfFloat(FloatOfBFloat16(half)), half);
    }
  }
  EXPECT_EQ(HalfOfFloat(65520.0F), 0x7C00);
  EXPECT_EQ(HalfOfFloat(65519.0F), 0x7BFF);
  EXPECT_EQ(HalfOfFloat(0x1p-25F), 0);
  EXPECT_EQ(HalfOfFloat(0x1.8p-25F), 1);
}

}  // namespace
}  // namespace lockstep::engine

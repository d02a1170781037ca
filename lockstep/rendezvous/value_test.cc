#include "lockstep/rendezvous/value.h"

#include <limits>

#include "gtest/gtest.h"

namespace lockstep::rendezvous {
namespace {

constexpr ElementType kFloat32 = {.code = 2, .bits = 32, .lanes = 1};
constexpr ElementType kFloat4 = {.code = 17, .bits = 4, .lanes = 1};

using Shape = std::vector<int64_t>;

uint64_t Bytes(ElementType type, const Shape& shape) {
  const auto bytes = BytesOf(type, shape);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.value_or(std::numeric_limits<uint64_t>::max());
}

TEST(Value, NamesElementTypesAsProgramsOfTensorsDo) {
  EXPECT_EQ(NameOf({}), "uint8");
  EXPECT_EQ(NameOf(kFloat32), "float32");
  EXPECT_EQ(NameOf({.code = 4, .bits = 16}), "bfloat16");
  EXPECT_EQ(NameOf({.code = 0, .bits = 4}), "int4");
  EXPECT_EQ(NameOf({.code = 5, .bits = 128}), "complex128");
  EXPECT_EQ(NameOf({.code = 6, .bits = 8}), "bool");
  EXPECT_EQ(NameOf({.code = 12, .bits = 8}), "float8_e5m2");
  EXPECT_EQ(NameOf(kFloat4), "float4_e2m1fn");
  EXPECT_EQ(NameOf({.code = 2, .bits = 32, .lanes = 4}), "float32x4");
  EXPECT_EQ(NameOf({.code = 200, .bits = 7}), "code200_7");
}

TEST(Value, TakesItsElementsTimesTheirSize) {
  EXPECT_EQ(Bytes(kFloat32, {}), 4u);
  EXPECT_EQ(Bytes(kFloat32, {3, 5}), 60u);
  EXPECT_EQ(Bytes({.code = 2, .bits = 32, .lanes = 4}, {2}), 32u);
}

TEST(Value, RoundsEachElementUpToWholeBytes) {
  EXPECT_EQ(Bytes(kFloat4, {3}), 3u);
  EXPECT_EQ(Bytes({.code = 0, .bits = 12, .lanes = 1}, {3}), 6u);
  EXPECT_EQ(Bytes({.code = 17, .bits = 4, .lanes = 2}, {3}), 3u);
}

TEST(Value, WithAnEmptyDimensionHasNoBytesHoweverLongTheOthersAre) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Bytes(kFloat32, {huge, huge, 0}), 0u);
}

TEST(Value, HasNoMoreBytesThanAreCounted) {
  const int64_t half = int64_t{1} << 61;
  EXPECT_EQ(Bytes({}, {half, 3}), 3 * static_cast<uint64_t>(half));
  EXPECT_FALSE(BytesOf({}, Shape{half, 4}).ok());
  EXPECT_FALSE(BytesOf(kFloat32, Shape{half}).ok());
  EXPECT_FALSE(BytesOf({}, Shape(32, 4)).ok());  // 2^64, which is 0 in 64 bits
}

TEST(Value, IsRefusedWithoutBitsLanesOrWithAWrongShape) {
  EXPECT_FALSE(BytesOf({.bits = 0}, Shape{1}).ok());
  EXPECT_FALSE(BytesOf({.lanes = 0}, Shape{1}).ok());
  EXPECT_FALSE(BytesOf({}, Shape{-1}).ok());
  EXPECT_FALSE(BytesOf({}, Shape{0, -1}).ok());
  EXPECT_TRUE(BytesOf({}, Shape(kRankMax, 1)).ok());
  EXPECT_FALSE(BytesOf({}, Shape(kRankMax + 1, 1)).ok());
}

}  // namespace
}  // namespace lockstep::rendezvous

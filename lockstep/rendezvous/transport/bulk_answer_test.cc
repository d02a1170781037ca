#include <algorithm>
#include <array>
#include <string>

#include "gtest/gtest.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"

namespace lockstep::transport {
namespace {

TEST(BulkAnswer, OfEachCodeComesBackAsItWas) {
  for (const BulkCode code : {BulkCode::kBytes, BulkCode::kUnknown, BulkCode::kRange,
                              BulkCode::kPlace, BulkCode::kNoPlace}) {
    const auto header = DecodeBulkHeader(EncodeBulkHeader(
        {.code = code, .lease = UINT64_MAX - 1, .offset = uint64_t{3} << 40, .bytes = 77}));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->code, code);
    EXPECT_EQ(header->lease, UINT64_MAX - 1);
    EXPECT_EQ(header->offset, uint64_t{3} << 40);
    EXPECT_EQ(header->bytes, 77);
  }
}

TEST(BulkAnswer, OfAnUnknownCodeIsRefused) {
  BulkHeaderBytes bytes = EncodeBulkHeader({});
  bytes[4] = 5;
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeBulkHeader(bytes).status()));
}

TEST(BulkAnswer, SaysAPlace) {
  const std::string text = EncodeBulkPlace(0x0123'4567'89ab'cdef);
  ASSERT_EQ(text.size(), kBulkPlaceBytes);
  EXPECT_EQ(text[0], static_cast<char>(0xef));
  std::array<char, kBulkPlaceBytes> bytes;
  std::copy(text.begin(), text.end(), bytes.begin());
  EXPECT_EQ(DecodeBulkPlace(bytes), 0x0123'4567'89ab'cdef);
}

}  // namespace
}  // namespace lockstep::transport

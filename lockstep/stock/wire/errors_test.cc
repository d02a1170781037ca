#include "lockstep/stock/wire/errors.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/stock/wire/hex_testing.h"
#include "proto/compat/stock/error_payloads.pb.h"

namespace lockstep::wire::stock {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Pair;
using ::testing::StartsWith;

const std::string kService(kServiceErrorUrl);
const std::string kBarrier(kBarrierErrorUrl);
const std::string kMismatch(kServiceMismatchUrl);

std::map<std::string, std::string> Payloads(const coord::Error& error) {
  ::tensorflow::distributed_runtime::GrpcPayloadContainer container;
  EXPECT_TRUE(container.ParseFromString(EncodeError(error, "").details));
  return {container.payloads().begin(), container.payloads().end()};
}

TEST(GoldenErrors, PlainCoordinationErrorTrailer) {
  EXPECT_EQ(EncodeError({.message = "no"}, "").details,
            FromHex("0a 3b 0a 37") + kService + FromHex("12 00"));
}

TEST(GoldenErrors, BarrierErrorEntryOfBCounter0) {
  coord::Error error{.from_service = false, .barrier = coord::BarrierRef{"b", 0}};
  EXPECT_EQ(EncodeError(error, "").details,
            FromHex("0a 32 0a 2b") + kBarrier + FromHex("12 03 0a 01 62"));
}

TEST(GoldenErrors, ServiceMismatchEntry) {
  coord::Error error{.from_service = false,
                     .right_service = ServiceIncarnation(kServiceIncarnation)};
  EXPECT_EQ(EncodeError(error, "").details,
            FromHex("0a 40 0a 33") + kMismatch + FromHex("12 09 09 18 17 16 15 14 13 12 11"));
}

// Row 156: what each kind of error is tagged with; see also the tests of the families.
TEST(Errors, Row156PayloadsOfEachKind) {
  EXPECT_THAT(Payloads({}), ElementsAre(Pair(kService, "")));
  EXPECT_THAT(Payloads({.from_service = false}), ElementsAre());
  EXPECT_THAT(Payloads({.barrier = coord::BarrierRef{"b", 2}}),
              ElementsAre(Pair(kBarrier, FromHex("0a 01 62 10 02")), Pair(kService, "")));
  EXPECT_THAT(
      Payloads({.right_service = ServiceIncarnation(kServiceIncarnation)}),
      ElementsAre(Pair(kService, ""), Pair(kMismatch, FromHex("09 18 17 16 15 14 13 12 11"))));
}

TEST(Errors, TheFamilysPayloadIsHandedOn) {
  ::tensorflow::distributed_runtime::GrpcPayloadContainer container;
  ASSERT_TRUE(container.ParseFromString(EncodeError({}, "of the family").details));
  EXPECT_EQ(container.payloads().at(kService), "of the family");
}

TEST(Errors, CodeTextAndReasonAreHandedOn) {
  EncodedError encoded = EncodeError({.code = absl::StatusCode::kDeadlineExceeded,
                                      .reason = coord::Reason::kBarrierTimedOut,
                                      .message = "Barrier timed out."},
                                     "");
  EXPECT_EQ(encoded.code, absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(encoded.message, "Barrier timed out.");
  EXPECT_EQ(encoded.reason, "barrier_timed_out");
}

TEST(Errors, SameErrorSameBytes) {
  coord::Error error{.origin = MemberIndex(1),
                     .barrier = coord::BarrierRef{"b", 7},
                     .right_service = ServiceIncarnation(5)};
  const std::string bytes = EncodeError(error, "").details;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(EncodeError(error, "").details, bytes);
}

TEST(Errors, TextIsCutWithAMark) {
  const std::string longest(kErrorTextBytesMax, 'x');
  EXPECT_EQ(CutErrorText(longest), longest);
  const std::string cut = CutErrorText(longest + "y");
  EXPECT_EQ(cut.size(), kErrorTextBytesMax);
  EXPECT_THAT(cut, StartsWith("xxxx"));
  EXPECT_THAT(cut, EndsWith("... [truncated]"));
}

TEST(Errors, TextIsNotCutInsideACharacter) {
  std::string text;
  while (text.size() <= kErrorTextBytesMax) text += "x\xc3\xa9\xe2\x82\xac";  // 1, 2, 3 bytes
  for (int shift = 0; shift < 6; ++shift) {
    const std::string cut = CutErrorText(std::string(static_cast<size_t>(shift), '-') + text);
    const std::string kept = cut.substr(0, cut.find("... [trunc"));
    const unsigned char last = static_cast<unsigned char>(kept.back());
    const bool whole =
        last == 'x' || last == '-' || kept.ends_with("\xc3\xa9") || kept.ends_with("\xe2\x82\xac");
    EXPECT_TRUE(whole) << shift;
    EXPECT_LE(cut.size(), kErrorTextBytesMax);
  }
}

}  // namespace
}  // namespace lockstep::wire::stock

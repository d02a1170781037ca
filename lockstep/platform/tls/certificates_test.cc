#include "lockstep/platform/tls/certificates.h"

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::tls {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

CertificateOptions Options(std::vector<std::string> names) {
  const absl::Time now = absl::Now();
  return {
      .name = "test", .holds_for = std::move(names), .from = now, .until = now + absl::Hours(1)};
}

TEST(Certificates, HaveFingerprintsOfTheirOwn) {
  const auto one = MakeSelfSigned(Options({"host1"}));
  const auto other = MakeSelfSigned(Options({"host1"}));
  ASSERT_TRUE(one.ok() && other.ok()) << one.status();
  const std::string fingerprint = *FingerprintOf(one->certificates);
  EXPECT_THAT(fingerprint, MatchesRegex("[0-9a-f]{64}"));
  EXPECT_EQ(fingerprint, *FingerprintOf(one->certificates + other->certificates));
  EXPECT_NE(fingerprint, *FingerprintOf(other->certificates));
}

TEST(Certificates, TakeNamesThatAreNames) {
  EXPECT_TRUE(
      MakeSelfSigned(Options({"a.b-c_d", "*.pod", "::1", "10.1.2.3", "spiffe://x/job/j"})).ok());
  for (const char* name : {"", "a b", "a,DNS:b", "a\nb", "a;b", "\xff"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(MakeSelfSigned(Options({name})).status())) << name;
  }
  EXPECT_FALSE(MakeSelfSigned(Options({std::string(256, 'a')})).ok());
  EXPECT_FALSE(MakeSelfSigned(Options(std::vector<std::string>(101, "a"))).ok());
}

TEST(Certificates, AreSignedOnlyWithAnAuthority) {
  EXPECT_THAT(std::string(MakeSigned(Options({}), UsedBy::kServer, {}).status().message()),
              HasSubstr("no certificate"));
}

}  // namespace
}  // namespace lockstep::tls

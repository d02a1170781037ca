#include "lockstep/platform/runtime/address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

TEST(ParseAddress, TakesNamesNumbersAndBrackets) {
  EXPECT_EQ(*ParseAddress("127.0.0.1:7070"), (Address{.host = "127.0.0.1", .port = 7070}));
  EXPECT_EQ(*ParseAddress("host7:0"), (Address{.host = "host7", .port = 0}));
  EXPECT_EQ(*ParseAddress("[::1]:65535"), (Address{.host = "::1", .port = 65535}));
}

TEST(ParseAddress, SaysWhatIsWrong) {
  const auto error = [](std::string_view text) {
    return std::string(ParseAddress(text).status().message());
  };
  EXPECT_EQ(error("host"),
            "address 'host': has no port; write HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070");
  EXPECT_THAT(error(":5"), testing::HasSubstr("has no host"));
  EXPECT_THAT(error("::1:5"), testing::HasSubstr("needs brackets"));
  for (const char* text : {"h:", "h:x", "h:-1", "h:+1", "h: 1", "h:65536", "h:100000000000"}) {
    EXPECT_THAT(error(text), testing::HasSubstr("not a number from 0 to 65535")) << text;
  }
}

TEST(ParseAddress, ReadsWhatToStringWrites) {
  for (const char* text : {"127.0.0.1:1", "[fe80::1]:7070"}) {
    EXPECT_EQ(ToString(*ParseAddress(text)), text);
  }
}

constexpr char kDigits[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

TEST(ParseJoinString, TakesEachOfItsParts) {
  const std::string host = "lockstep://h:7070";
  const std::string certificate = std::string("#sha256=") + kDigits;
  EXPECT_EQ(ParseJoinString("h:7070")->address, (Address{.host = "h", .port = 7070}));
  EXPECT_EQ(ParseJoinString(host)->address, (Address{.host = "h", .port = 7070}));
  EXPECT_EQ(ParseJoinString(host + "/digits")->job, "digits");
  const auto all = ParseJoinString(host + "/digits" + certificate);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->job, "digits");
  EXPECT_EQ(all->address, (Address{.host = "h", .port = 7070, .fingerprint = kDigits}));
  EXPECT_EQ(ParseAddress(host + "/digits" + certificate)->fingerprint, kDigits);
  EXPECT_EQ(ParseJoinString("lockstep://[::1]:1" + certificate)->address.host, "::1");
}

TEST(ParseJoinString, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    return std::string(ParseJoinString(text).status().message());
  };
  const std::string digits = kDigits;
  // A certificate must never be lost on the way, or the connection would be made without TLS.
  EXPECT_THAT(error("h:1#sha256=" + digits), testing::HasSubstr("needs lockstep://"));
  EXPECT_THAT(error("lockstep://h:1#sha256="), testing::HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(error("lockstep://h:1#sha256=" + digits + "0"), testing::HasSubstr("64 hex"));
  EXPECT_THAT(error("lockstep://h:1#sha256=" + digits.substr(1) + "g"),
              testing::HasSubstr("64 hex"));
  EXPECT_THAT(error("lockstep://h:1#sha1=" + digits), testing::HasSubstr("only sha256="));
  EXPECT_THAT(error("lockstep://h:1#"), testing::HasSubstr("only sha256="));
  EXPECT_THAT(error("lockstep://h/job"), testing::HasSubstr("has no port"));
}

TEST(ParseJoinString, ReadsWhatToStringWrites) {
  for (const std::string& text : {std::string("h:1"), std::string("lockstep://h:1/j"),
                                  std::string("lockstep://[::1]:1#sha256=") + kDigits,
                                  std::string("lockstep://h:1/j#sha256=") + kDigits}) {
    EXPECT_EQ(ToString(*ParseJoinString(text)), text);
  }
}

}  // namespace
}  // namespace lockstep::runtime

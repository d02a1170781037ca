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

}  // namespace
}  // namespace lockstep::runtime

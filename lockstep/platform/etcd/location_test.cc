#include "lockstep/platform/etcd/location.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::etcd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Location, IsReadAndWrittenAlike) {
  const std::string text = "etcd://ops@h1:2379,[::1]:2379/lockstep/prod";
  const auto location = ParseLocation(text);
  ASSERT_TRUE(location.ok()) << location.status();
  EXPECT_THAT(location->endpoints, ElementsAre("h1:2379", "[::1]:2379"));
  EXPECT_EQ(location->user, "ops");
  EXPECT_EQ(location->prefix, "lockstep/prod");
  EXPECT_EQ(ToString(*location), text);
  EXPECT_TRUE(IsLocation(text));
  EXPECT_FALSE(IsLocation("/var/lib/lockstep"));
}

TEST(Location, SaysWhatIsWrong) {
  const auto why = [](const std::string& text) {
    return std::string(ParseLocation(text).status().message());
  };
  EXPECT_THAT(why("etcd://h1:2379"), HasSubstr("no prefix"));
  EXPECT_THAT(why("etcd://h1:2379/"), HasSubstr("prefix"));
  EXPECT_THAT(why("etcd://h1:2379/a/"), HasSubstr("prefix"));
  EXPECT_THAT(why("etcd://h1:2379/a b"), HasSubstr("prefix"));
  EXPECT_THAT(why("etcd://h1/a"), HasSubstr("'h1' is no HOST:PORT"));
  EXPECT_THAT(why("etcd://::1:2379/a"), HasSubstr("no HOST:PORT"));
  EXPECT_THAT(why("etcd://h1:0/a"), HasSubstr("no HOST:PORT"));
  EXPECT_THAT(why("etcd://h1:2379,/a"), HasSubstr("no HOST:PORT"));
  EXPECT_THAT(why("etcd://u:secret@h1:2379/a"), HasSubstr("without a password"));
  EXPECT_THAT(why("http://h1:2379/a"), HasSubstr("etcd://"));
  std::string many = "etcd://h:1";
  for (int i = 0; i < 16; ++i) many += ",h:1";
  EXPECT_THAT(why(many + "/a"), HasSubstr("more than 16"));
}

}  // namespace
}  // namespace lockstep::etcd

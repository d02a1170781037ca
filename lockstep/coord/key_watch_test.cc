// Following the changes of keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/coord/key_harness.h"

namespace lockstep::coord {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using KeyWatches = NativeKeys;

TEST_F(KeyWatches, BeginWithAllThatIsThere) {
  EXPECT_EQ(Text(Watch("", 0)), "r1 snapshot") << "even when it is nothing";
  for (const char* key : {"a", "a/x", "ab", "b"}) Set(key, "1");
  EXPECT_EQ(Text(Watch("a", 0)), "a=1@2 a/x=1@3 r5 snapshot");
  EXPECT_EQ(Text(Watch("", 0)), "a=1@2 a/x=1@3 ab=1@4 b=1@5 r5 snapshot");
  EXPECT_EQ(Text(Watch("none", 0)), "r5 snapshot");
}

TEST_F(KeyWatches, GoOnWithTheNextChange) {
  const CallId watch = Watch("a", 1);
  EXPECT_EQ(Text(watch), "waits");
  EXPECT_EQ(keys_.waits(), 1u);
  Set("b", "1");
  EXPECT_EQ(Text(watch), "waits");
  Set("a/x", "1");
  EXPECT_EQ(Text(watch), "a/x=1@3 r3");
  EXPECT_EQ(keys_.waits(), 0u);
  const CallId next = Watch("a", 3);
  Delete("a/x");
  EXPECT_EQ(Text(next), "a/x=nil@4 r4");
}

TEST_F(KeyWatches, EndAtAComponentOfTheKey) {
  const CallId directory = Watch("/a/b/", 1);
  const CallId key = Watch("a/b/c", 1);
  const CallId all = Watch("", 1);
  const CallId below = Watch("a/b/c/d", 1);
  Set("a/bc", "1");
  EXPECT_EQ(Text(all), "a/bc=1@2 r2");
  EXPECT_EQ(Text(directory), "waits");
  Set("a/b/c", "2");
  EXPECT_EQ(Text(directory), "a/b/c=2@3 r3");
  EXPECT_EQ(Text(key), Text(directory));
  EXPECT_EQ(Text(below), "waits");
}

TEST_F(KeyWatches, TellWhoIsBehindEachKeyOnceAsItIsNow) {
  Set("a", "1");
  Set("b", "1");
  Set("a", "2");
  Set("c", "1");
  Delete("c");
  Delete("b");
  Set("b", "3");
  EXPECT_EQ(Text(Watch("", 2)), "a=2@4 c=nil@6 b=3@8 r8");
  EXPECT_EQ(Text(Watch("", 4)), "c=nil@6 b=3@8 r8");
  EXPECT_EQ(Text(Watch("a", 4)), "waits");
}

TEST_F(KeyWatches, TellWhatOneEventDidAtOnce) {
  for (const char* key : {"a/x", "a/y", "b"}) Set(key, "1", {}, 1);
  const CallId all = Watch("", 4);
  const CallId some = Watch("a", 4);
  const CallId one = Watch("a/y", 4);
  Delete("a", /*below=*/true);
  EXPECT_EQ(Text(all), "a/x=nil@5 a/y=nil@5 r5");
  EXPECT_EQ(Text(some), Text(all));
  EXPECT_EQ(Text(one), "a/y=nil@5 r5");

  Set("a/x", "1", {}, 1);
  const CallId lost = Watch("", 6);
  keys_.MemberGone(MemberIndex(1), out_);
  EXPECT_EQ(Text(lost), "a/x=nil@7 b=nil@8 r8");

  Set("t", "1", {.ttl = absl::Seconds(1)});
  const CallId expired = Watch("t", 9);
  keys_.ReachDeadline(At(1), out_);
  EXPECT_EQ(Text(expired), "t=nil@10 r10");
}

TEST_F(KeyWatches, FromTheFutureBeginAnew) {
  Set("a", "1");
  EXPECT_EQ(Text(Watch("", 99)), "a=1@2 r2 snapshot");
  EXPECT_EQ(Text(Watch("", -1)), "a=1@2 r2 snapshot");
}

TEST_F(KeyWatches, AreForgottenWithTheirCallerAndFailWithTheRest) {
  const CallId left = Watch("a", 1);
  const CallId stays = Watch("a", 1);
  EXPECT_TRUE(keys_.Forget(left));
  EXPECT_FALSE(keys_.Forget(left));
  keys_.FailAll(MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped, "stopped"), out_);
  EXPECT_EQ(Text(left), "waits");
  EXPECT_EQ(Text(stays), "ABORTED: stopped");
  Set("a", "1");
  EXPECT_EQ(Text(stays), "ABORTED: stopped");
}

TEST_F(KeyWatches, ShareTheValueAmongAll) {
  std::vector<CallId> watches;
  for (int i = 0; i < 256; ++i) watches.push_back(Watch("a", 1));
  out_ = {};
  Set("a", std::string(1000, 'v'));
  ASSERT_EQ(out_.replies.size(), 257u);
  const auto& first = std::get<KeysChanged>(out_.replies[0].answer).changes.at(0).value;
  for (int i = 0; i < 256; ++i) {
    const Reply& reply = out_.replies[i];
    EXPECT_EQ(reply.call, watches[i]);
    EXPECT_EQ(std::get<KeysChanged>(reply.answer).changes.at(0).value, first);
  }
}

TEST_F(KeyWatches, RefuseAKeyThatCannotBe) {
  EXPECT_EQ(Why(Watch(std::string("a\0", 2), 0)), Reason::kKeyInvalid);
  EXPECT_EQ(Why(Watch(std::string(options_.key_bytes_max + 1, 'k'), 0)), Reason::kLimitExceeded);
}

class ShortHistory : public NativeKeys {
 protected:
  ShortHistory() : NativeKeys({.page_bytes_max = 10, .kept_key_changes_max = 3}) {}
};

TEST_F(ShortHistory, GivesAllToWhoIsTooFarBehind) {
  Set("a", "1");
  Set("b", "1");
  Set("b", "2");
  EXPECT_EQ(Text(Watch("", 1)), "a=1@2 b=2@4 r4");
  Set("b", "3");
  EXPECT_EQ(Text(Watch("", 1)), "a=1@2 b=3@5 r5 snapshot");
  EXPECT_EQ(Text(Watch("", 2)), "b=3@5 r5");
}

TEST_F(ShortHistory, GivesWhatIsTooMuchInParts) {
  Set("a", "12345");
  Set("b", "12345");
  Set("c", "1");
  EXPECT_EQ(Text(Watch("", 1)), "a=12345@2 r2");
  EXPECT_EQ(Text(Watch("", 2)), "b=12345@3 c=1@4 r4");
  EXPECT_THAT(Text(Watch("", 0)),
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("page_bytes_max"),
                    HasSubstr("watch a smaller part")));
}

TEST_F(ShortHistory, GivesAKeyThatIsMoreThanAPageAlone) {
  Set("a", "1234567890123");
  EXPECT_EQ(Text(Watch("", 0)), "a=1234567890123@2 r2 snapshot");
  EXPECT_EQ(Text(Watch("a", 0)), "a=1234567890123@2 r2 snapshot");
  Set("b", "1234567890123");
  EXPECT_EQ(Text(Watch("", 1)), "a=1234567890123@2 r2");
  EXPECT_EQ(Text(Watch("", 2)), "b=1234567890123@3 r3");
}

}  // namespace
}  // namespace lockstep::coord

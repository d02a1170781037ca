// Rows 58-79: the keys of a job.
#include <limits>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::Succeeded;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A job of one member, which reads and writes.
class Keys : public ::testing::Test {
 protected:
  Keys() : h({.size = 1}) { h.RegisterAll(); }

  void Put(const std::string& key, const std::string& value) {
    EXPECT_THAT(h.Reply(h.Set(0, key, value)), Succeeded());
  }
  std::string Read(const std::string& key) { return h.Value(h.TryGet(0, key)); }
  std::vector<std::string> List(const std::string& directory) {
    return h.Entries(h.List(0, directory));
  }

  CoordinatorHarness h;
};

// The rows, apart from what is only ours.
using ConformanceKeys = Keys;

TEST_F(ConformanceKeys, Row058_AKeyIsNotReplacedUnlessAsked) {
  Put("k", "old");

  EXPECT_THAT(h.Reply(h.Set(0, "k", "new")),
              HasError(StatusCode::kAlreadyExists, Reason::kKeyExists));
  EXPECT_EQ(Read("k"), "old");
}

TEST_F(ConformanceKeys, Row059_AKeyIsReplacedWhenAsked) {
  Put("k", "old");

  EXPECT_THAT(h.Reply(h.Set(0, "k", "new", /*overwrite=*/true)), Succeeded());
  EXPECT_EQ(Read("k"), "new");
}

TEST_F(ConformanceKeys, Row060_OneKeyHasSeveralSpellings) {
  Put("/path//to/key///", "v");

  for (const std::string spelling :
       {"path/to/key", "/path/to/key", "path//to///key", "path/to/key/"}) {
    const CallId call = h.Get(0, spelling);
    EXPECT_EQ(h.Value(call), "v") << spelling;
    EXPECT_EQ(std::get<KeyRead>(h.Reply(call).answer).entry.key, spelling)
        << "the reply echoes the key as it was asked for";
  }
  EXPECT_THAT(h.Reply(h.Set(0, "path/to/key", "w")), HasError(StatusCode::kAlreadyExists));
}

TEST_F(ConformanceKeys, Row060_ValuesAreAnyBytes) {
  const std::string bytes("\0\xff\n\x80", 4);
  Put("k", bytes);
  Put("empty", "");

  EXPECT_EQ(Read("k"), bytes);
  EXPECT_EQ(Read("empty"), "");
}

TEST_F(ConformanceKeys, Row061_DeletingAKeyLeavesOthersAndItsWaiters) {
  Put("a", "1");
  Put("b", "2");
  const CallId waiter = h.Get(0, "c");

  EXPECT_THAT(h.Reply(h.Delete(0, "a")), Succeeded());
  EXPECT_THAT(h.Reply(h.Delete(0, "c")), Succeeded());

  EXPECT_EQ(Read("b"), "2");
  const CallId after = h.Get(0, "a");
  EXPECT_TRUE(h.Pending(after));
  EXPECT_TRUE(h.Pending(waiter));
  Put("a", "3");
  Put("c", "4");
  EXPECT_EQ(h.Value(after), "3");
  EXPECT_EQ(h.Value(waiter), "4");
}

TEST_F(ConformanceKeys, Row062_DeletingADirectoryDeletesAllBelow) {
  Put("dir", "itself");
  Put("dir/a", "1");
  Put("dir/sub/b", "2");
  Put("dir_key", "sibling");

  EXPECT_THAT(h.Reply(h.Delete(0, "dir/")), Succeeded());

  for (const std::string key : {"dir", "dir/a", "dir/sub/b"}) {
    EXPECT_THAT(h.Reply(h.TryGet(0, key)), HasError(StatusCode::kNotFound)) << key;
  }
  EXPECT_EQ(Read("dir_key"), "sibling");
}

TEST_F(ConformanceKeys, Row063_TryingToGetAbsentPresentDeleted) {
  EXPECT_THAT(h.Reply(h.TryGet(0, "k")), HasError(StatusCode::kNotFound, Reason::kKeyNotFound));
  Put("k", "v");
  EXPECT_EQ(Read("k"), "v");
  h.Delete(0, "k");
  EXPECT_THAT(h.Reply(h.TryGet(0, "k")), HasError(StatusCode::kNotFound, Reason::kKeyNotFound));
}

TEST_F(ConformanceKeys, Row064_IncrementAddsToTheDecimalText) {
  Put("n", "1");

  EXPECT_EQ(h.Value(h.Increment(0, "n", 3)), "4");
  EXPECT_EQ(h.Value(h.Increment(0, "absent", 10)), "10");
  EXPECT_EQ(h.Value(h.Increment(0, "absent", 1)), "11");
  EXPECT_EQ(h.Value(h.Increment(0, "absent", -15)), "-4");
  EXPECT_EQ(Read("absent"), "-4");
}

TEST_F(ConformanceKeys, Row064_IncrementAnswersThoseWhoWaitForTheKey) {
  const CallId waiter = h.Get(0, "n");

  h.Increment(0, "n", 7);

  EXPECT_EQ(h.Value(waiter), "7");
}

TEST_F(ConformanceKeys, Row065_IncrementOfWhatIsNoNumberIsRefused) {
  for (const std::string value : {"hello", "", "1.5", "12 apples", "0x10"}) {
    h.Set(0, "k", value, /*overwrite=*/true);
    EXPECT_THAT(h.Reply(h.Increment(0, "k", 1)),
                HasError(StatusCode::kFailedPrecondition, Reason::kKeyNotANumber))
        << value;
    EXPECT_EQ(Read("k"), value);
  }
}

TEST_F(ConformanceKeys, Row066_ADirectoryOfOneKey) {
  Put("dir/path", "v");

  EXPECT_THAT(List("dir"), ElementsAre("dir/path=v"));
}

TEST_F(ConformanceKeys, Row067_ADirectoryOfSeveralAndNestedKeysInOrder) {
  Put("dir/b", "2");
  Put("dir/a", "1");
  Put("/dir//sub/c/", "3");

  EXPECT_THAT(List("dir"), ElementsAre("dir/a=1", "dir/b=2", "dir/sub/c=3"));
  EXPECT_THAT(List("/dir/"), ElementsAre("dir/a=1", "dir/b=2", "dir/sub/c=3"));
  EXPECT_THAT(List("dir/sub"), ElementsAre("dir/sub/c=3"));
}

TEST_F(ConformanceKeys, Row068_ADirectoryThatIsNotThereIsEmpty) {
  EXPECT_THAT(List("dir"), IsEmpty());
}

TEST_F(ConformanceKeys, Row069_ADirectoryWithoutKeysAmongOthersIsEmpty) {
  Put("dir0/path", "v");

  EXPECT_THAT(List("dir"), IsEmpty());
}

TEST_F(ConformanceKeys, Row070_ADirectoryNameInTheMiddleOfAPathIsNotMatched) {
  Put("path/dir/key", "v");

  EXPECT_THAT(List("dir"), IsEmpty());
}

TEST_F(ConformanceKeys, Row071_ASiblingThatStartsWithTheDirectoryNameIsNotMatched) {
  Put("dir_key", "1");
  Put("dir!", "2");
  Put("dir/a", "3");

  EXPECT_THAT(List("dir"), ElementsAre("dir/a=3"));
}

TEST_F(ConformanceKeys, Row072_AKeyThatIsTheDirectoryNameIsNotMatched) {
  Put("dir", "v");

  EXPECT_THAT(List("dir"), IsEmpty());
}

TEST_F(ConformanceKeys, Row073_ListingReadsWhatIsBelowAPrefix) {
  EXPECT_THAT(List("a/b"), IsEmpty());
  Put("a/b", "exact");
  EXPECT_THAT(List("a/b"), IsEmpty());
  Put("a/b/c", "below");
  EXPECT_THAT(List("a/b"), ElementsAre("a/b/c=below"));
  EXPECT_THAT(List("///a//b///"), ElementsAre("a/b/c=below"));
  EXPECT_THAT(List(""), IsEmpty()) << "the root cannot be listed, as upstream";
}

TEST_F(ConformanceKeys, Row074_WaitersBeforeAndAfterTheKeyAreAnswered) {
  const CallId before = h.Get(0, "k");
  const CallId also_before = h.Get(0, "/k/");
  EXPECT_TRUE(h.Pending(before));

  Put("k", "v");
  const CallId after = h.Get(0, "k");

  for (CallId call : {before, also_before, after}) EXPECT_EQ(h.Value(call), "v");
}

TEST_F(ConformanceKeys, Row075_DeletingAlwaysSucceeds) {
  EXPECT_THAT(h.Reply(h.Delete(0, "missing")), Succeeded());
  EXPECT_THAT(h.Reply(h.Delete(0, "missing/below/")), Succeeded());
  Put("a/b", "exact");
  EXPECT_THAT(h.Reply(h.Delete(0, "a/b")), Succeeded());
  Put("a/b/c", "below");
  EXPECT_THAT(h.Reply(h.Delete(0, "a/b")), Succeeded());
  EXPECT_THAT(h.Reply(h.TryGet(0, "a/b/c")), HasError(StatusCode::kNotFound));
}

TEST_F(ConformanceKeys, Row076_AStopCancelsThoseWhoWait) {
  const CallId first = h.Get(0, "a");
  const CallId second = h.Get(0, "b");

  h.Stop();

  EXPECT_THAT(h.Reply(first), HasError(StatusCode::kCancelled));
  EXPECT_THAT(h.Reply(second), HasError(StatusCode::kCancelled));
}

TEST_F(ConformanceKeys, Row077_KeysAreNormalised) {
  Put("x/foo", "1");
  Put("x//foo/bar/", "2");
  Put("///x/a/b/c///", "3");

  EXPECT_THAT(List("x"), ElementsAre("x/a/b/c=3", "x/foo=1", "x/foo/bar=2"));
}

TEST_F(ConformanceKeys, Row077_SlashesAloneAreTheEmptyKey) {
  Put("/", "root");

  EXPECT_EQ(Read(""), "root");
  EXPECT_EQ(Read("///"), "root");
}

TEST_F(ConformanceKeys, Row079_ADirectoryOfTenKeysOfAMebibyteIsReadInOneCall) {
  const std::string value(1 << 20, 'x');
  for (int i = 0; i < 10; ++i) Put(absl::StrCat("big/", i), value);

  const std::vector<std::string> entries = List("big");

  ASSERT_EQ(entries.size(), 10u);
  EXPECT_EQ(entries[9], "big/9=" + value);
}

TEST_F(Keys, AreThereForAMemberInError) {
  Put("k", "v");
  h.Report(0, StatusCode::kInternal, "broken");

  EXPECT_EQ(Read("k"), "v");
  Put("k2", "v2");
}

TEST_F(Keys, AWaiterThatHangsUpIsForgotten) {
  const CallId call = h.Get(0, "k");
  EXPECT_EQ(h.View().key_waits.size(), 1u);

  h.Hangup(call);

  EXPECT_TRUE(h.View().key_waits.empty());
  EXPECT_EQ(h.View().waits, 0u);
  Put("k", "v");
}

TEST_F(Keys, TheViewCountsThemAndNamesWhoWaits) {
  Put("abc", "12345");
  h.Advance(absl::Seconds(3));
  const Time asked = h.now();
  h.Get(0, "never");
  h.Advance(absl::Seconds(4));
  h.Get(0, "never");

  const CoordinatorView view = h.View();

  EXPECT_EQ(view.keys, 1u);
  EXPECT_EQ(view.key_bytes, 8u);
  ASSERT_EQ(view.key_waits.size(), 1u);
  EXPECT_EQ(view.key_waits[0].key, "never");
  EXPECT_EQ(view.key_waits[0].waiters, 2u);
  EXPECT_EQ(view.key_waits[0].since, asked);
  EXPECT_THAT(view.key_waits[0].members, ElementsAre(MemberIndex(0)));
}

// JAX asks for it as long as it lives, on a thread of its own.
TEST_F(Keys, UseA03_TheStandingQuestionForANoticeOfAPreemptionIsNoWait) {
  const CallId notice = h.Get(0, "RECEIVED_PREEMPTION_NOTICE");
  h.Advance(absl::Seconds(4));
  CoordinatorView view = h.View();
  EXPECT_TRUE(view.key_waits.empty());
  EXPECT_EQ(view.keys_awaited, 0u);
  EXPECT_EQ(view.members[0].doing, "");
  EXPECT_EQ(view.waits, 1u) << "a parked call it is";

  h.Get(0, "never");
  view = h.View();
  ASSERT_EQ(view.key_waits.size(), 1u);
  EXPECT_EQ(view.key_waits[0].key, "never");
  EXPECT_EQ(view.keys_awaited, 1u);
  EXPECT_THAT(view.members[0].doing, HasSubstr("'never'"));

  const CallId another = h.Get(0, "RECEIVED_PREEMPTION_NOTICE");
  h.Hangup(another);
  EXPECT_EQ(h.View().keys_awaited, 1u);
  Put("RECEIVED_PREEMPTION_NOTICE", "2026-01-01T00:00:00+00:00");
  EXPECT_EQ(h.Value(notice), "2026-01-01T00:00:00+00:00");
}

TEST_F(Keys, WithANulAreRefusedNotCut) {
  const std::string cut("ab\0cd", 5);

  for (CallId call : {h.Set(0, cut, "v"), h.Get(0, cut), h.TryGet(0, cut), h.Increment(0, cut, 1),
                      h.Delete(0, cut), h.List(0, cut)}) {
    EXPECT_THAT(h.Reply(call), HasError(StatusCode::kInvalidArgument, Reason::kKeyInvalid));
  }
  EXPECT_EQ(h.View().keys, 0u);
}

}  // namespace
}  // namespace lockstep::coord

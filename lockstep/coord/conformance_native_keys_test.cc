// Keys and agreements of native clients in a job: what happens to them when members leave, die and
// come back, when the server does, and when it stops.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::Native;
using lockstep::testing::Succeeded;
using lockstep::testing::Who;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Native kFirst(1);
const Native kSecond(2);
const Native kThird(3);
const Native kTool(9);

SetKey With(const std::string& key, KeyLifetime lifetime) {
  return {.key = key, .value = "v", .overwrite = true, .lifetime = lifetime};
}
AgreeOnIndex At(int64_t index, int64_t counter = 0) {
  return {.name = "save", .counter = counter, .index = index};
}

class NativeKeysInAJob : public ::testing::Test {
 protected:
  explicit NativeKeysInAJob(CoordinatorOptions options = {.size = 3, .shutdown_timeout = {}})
      : h(std::move(options)) {
    h.JoinAll();
    h.Open(kTool);
  }

  std::vector<std::string> Keys() { return h.Entries(h.Ask(kTool, ListKeys{})); }

  CoordinatorHarness h;
};

TEST_F(NativeKeysInAJob, AMembersKeyGoesWhenItLeaves) {
  h.Ask(kFirst, With("alive/0", {.with_member = true}));
  h.Ask(kSecond, With("alive/1", {.with_member = true}));
  const CallId watch = h.Ask(kTool, WatchKeys{.key = "alive", .after = 3});
  EXPECT_TRUE(h.Pending(watch));

  h.Ask(kFirst, LeaveJob{});

  EXPECT_THAT(Keys(), ElementsAre("alive/1=v"));
  const KeysChanged changed = h.Brought<KeysChanged>(watch);
  ASSERT_EQ(changed.changes.size(), 1u);
  EXPECT_EQ(changed.changes[0].key, "alive/0");
  EXPECT_EQ(changed.changes[0].value, nullptr);
}

TEST_F(NativeKeysInAJob, AMembersKeyGoesWhenItIsLost) {
  h.Ask(kFirst, With("alive/0", {.with_member = true}));
  h.Ask(kFirst, SetKey{.key = "result", .value = "v"});

  h.BreakLink(kFirst);
  h.Advance(absl::Milliseconds(250));
  EXPECT_THAT(Keys(), ElementsAre("alive/0=v", "result=v")) << "it may come back";
  h.Advance(absl::Milliseconds(100));

  EXPECT_THAT(Keys(), ElementsAre("result=v"));
}

TEST_F(NativeKeysInAJob, OnlyAMemberHasKeysThatGoWithIt) {
  EXPECT_THAT(h.Reply(h.Ask(kTool, With("k", {.with_member = true}))),
              HasError(StatusCode::kFailedPrecondition, Reason::kNotAMember));
  EXPECT_THAT(h.Reply(h.Ask(kTool, CompareAndSetKey{.key = "k",
                                                    .expected = {.absent = true},
                                                    .lifetime = {.with_member = true}})),
              HasError(StatusCode::kFailedPrecondition, Reason::kNotAMember));
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(NativeKeysInAJob, AKeyGoesWhenItsTimeIsUpExactly) {
  h.Ask(kTool, With("lease", {.ttl = absl::Seconds(5)}));
  const CallId watch = h.Ask(kFirst, WatchKeys{.key = "lease", .after = 2});
  h.Advance(absl::Seconds(5) - absl::Nanoseconds(1));
  EXPECT_TRUE(h.Pending(watch));
  h.Advance(absl::Nanoseconds(1));
  EXPECT_FALSE(h.Pending(watch));
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(NativeKeysInAJob, AWaitForManyKeysIsAWait) {
  const CallId many = h.Ask(kFirst, GetKeys{.keys = {"a", "b"}});
  EXPECT_EQ(h.View().waits, 2u);
  EXPECT_EQ(h.View().keys_awaited, 1u);
  h.Ask(kTool, SetKey{.key = "a", .value = "1"});
  h.Ask(kTool, SetKey{.key = "b", .value = "2"});
  EXPECT_THAT(h.Entries(many), ElementsAre("a=1", "b=2"));
  EXPECT_EQ(h.View().waits, 0u);
}

TEST_F(NativeKeysInAJob, StockAndNativeCallersShareTheKeys) {
  const CallId wait = h.Ask(kFirst, GetKeys{.keys = {"/a", "b"}});
  const auto stock = Who(0).As(501).In(h.service());
  for (const char* key : {"a", "b"}) EXPECT_THAT(h.Reply(h.Set(stock, key, "1")), Succeeded());
  EXPECT_THAT(h.Entries(wait), ElementsAre("/a=1", "b=1"));
}

TEST_F(NativeKeysInAJob, TheStateSurvivesTheServerEitherWay) {
  for (const bool from_snapshot : {false, true}) {
    const int64_t before =
        h.Brought<KeyWritten>(h.Ask(kFirst, With("k", {.with_member = true}))).revision;
    h.Ask(kFirst, With("lease", {.ttl = absl::Seconds(20)}));
    h.Ask(kTool, DeleteKey{.key = "lease", .only_key = true});

    h.Restart(from_snapshot);
    for (const Native& who : {kFirst, kSecond, kThird, kTool}) h.Open(who, true);

    EXPECT_EQ(h.Brought<KeyWritten>(h.Ask(kSecond, With("k2", {}))).revision, before + 3)
        << "no revision is given twice";
    EXPECT_THAT(Keys(), ElementsAre("k=v", "k2=v"));
    const CallId agreed = h.Ask(kFirst, At(5, from_snapshot));
    h.Ask(kSecond, At(7, from_snapshot));
    EXPECT_TRUE(h.Pending(agreed));
    h.Ask(kThird, At(6, from_snapshot));
    EXPECT_EQ(h.Brought<IndexAgreed>(agreed).index, 7);
  }
  h.Restart(false);
  for (const Native& who : {kFirst, kSecond, kThird, kTool}) h.Open(who, true);
  EXPECT_EQ(h.Brought<IndexAgreed>(h.Ask(kFirst, At(9, 1))).index, 7) << "the verdict is kept";
  h.Ask(kFirst, LeaveJob{});
  EXPECT_THAT(Keys(), ElementsAre("k2=v")) << "so is whose key it is";
}

TEST_F(NativeKeysInAJob, AMemberThatLeavesIsNotAwaited) {
  const CallId first = h.Ask(kFirst, At(5));
  const CallId second = h.Ask(kSecond, At(7));
  EXPECT_TRUE(h.Pending(first));
  h.Ask(kThird, LeaveJob{});
  EXPECT_EQ(h.Brought<IndexAgreed>(first).index, 7);
  EXPECT_EQ(h.Brought<IndexAgreed>(second).index, 7);
}

TEST_F(NativeKeysInAJob, AMemberThatIsLostIsNotAwaited) {
  // Who is told of the loss is not set to error for it.
  h.Ask(kFirst, PollForError{});
  const CallId first = h.Ask(kFirst, At(5));
  h.Ask(kThird, At(99));
  const CallId second = h.Ask(kSecond, At(7));
  EXPECT_EQ(h.Brought<IndexAgreed>(second).index, 99) << "it was there";

  const CallId third = h.Ask(kFirst, At(5, 1));
  h.Ask(kSecond, At(7, 1));
  h.BreakLink(kThird);
  EXPECT_TRUE(h.Pending(third)) << "it may come back";
  h.Ask(kFirst, AgreeOnIndex{.name = "other"});
  h.BreakLink(kSecond);
  h.Advance(absl::Milliseconds(150));
  h.Open(kSecond, true);
  const CallId again = h.Ask(kSecond, At(7, 1));
  h.Advance(absl::Milliseconds(200));
  EXPECT_EQ(h.Brought<IndexAgreed>(third).index, 7);
  EXPECT_EQ(h.Brought<IndexAgreed>(again).index, 7);
  EXPECT_EQ(h.Brought<IndexAgreed>(first).counter, 0);
}

TEST_F(NativeKeysInAJob, AllThatWaitIsAnsweredWhenTheServerStops) {
  const std::vector<CallId> waits = {
      h.Ask(kFirst, At(5)), h.Ask(kSecond, GetKeys{.keys = {"a", "b"}}),
      h.Ask(kThird, WatchKeys{.after = 1}), h.Ask(kTool, GetKey{.key = "a"})};
  h.Stop();
  EXPECT_THAT(h.Reply(waits[0]), HasError(StatusCode::kAborted, Reason::kServiceStopped));
  for (size_t i = 1; i < waits.size(); ++i) {
    EXPECT_THAT(h.Reply(waits[i]), HasError(StatusCode::kCancelled, Reason::kServiceStopped));
  }
}

class FewWaits : public NativeKeysInAJob {
 protected:
  FewWaits() : NativeKeysInAJob({.size = 2, .waits_max = 1}) {}
};

TEST_F(FewWaits, BoundAllThatCanBeParked) {
  h.Ask(kTool, SetKey{.key = "a", .value = "1"});
  const CallId waits = h.Ask(kFirst, GetKey{.key = "none"});
  for (const CallId call :
       {h.Ask(kSecond, GetKeys{.keys = {"none"}}), h.Ask(kSecond, WatchKeys{.after = 2}),
        h.Ask(kSecond, At(1)), h.Ask(kSecond, GetKey{.key = "none"})}) {
    EXPECT_THAT(h.Reply(call),
                HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "waits_max"));
  }
  EXPECT_THAT(h.Reply(h.Ask(kSecond, GetKeys{.keys = {"a"}})), Succeeded()) << "no wait";
  EXPECT_THAT(h.Reply(h.Ask(kSecond, WatchKeys{.after = 0})), Succeeded());
  EXPECT_TRUE(h.Pending(waits));
}

class RecoverableNativeKeys : public NativeKeysInAJob {
 protected:
  RecoverableNativeKeys() : NativeKeysInAJob({.size = 2, .recoverable = true}) {}
};

TEST_F(RecoverableNativeKeys, AMembersKeyGoesWhenItStartsAnew) {
  const Native again(20);
  h.Ask(kFirst, With("alive/0", {.with_member = true}));
  const CallId waits = h.Ask(kSecond, At(7));
  h.BreakLink(kFirst);
  h.Open(again);
  EXPECT_THAT(h.Reply(h.Join(again, 900, {.index = 0})), Succeeded());

  EXPECT_THAT(Keys(), IsEmpty());
  EXPECT_TRUE(h.Pending(waits)) << "its new life is awaited";
  EXPECT_EQ(h.Brought<IndexAgreed>(h.Ask(again, At(3))).index, 7);
  EXPECT_EQ(h.Brought<IndexAgreed>(waits).index, 7);
}

class NextAttempt : public NativeKeysInAJob {
 protected:
  NextAttempt() : NativeKeysInAJob({.size = 2, .shutdown_timeout = {}}) {
    h.Ask(kTool, SetKey{.key = "a", .value = "old"});
    last = h.Brought<KeyWritten>(h.Ask(kTool, SetKey{.key = "b", .value = "old"})).revision;
  }

  void Begin() {
    h.Ask(kFirst, LeaveJob{});
    h.Ask(kSecond, LeaveJob{});
    h.Open(kThird);
    h.Join(kThird, 700, {.index = 0});
    EXPECT_EQ(h.View().attempt, 2);
  }

  int64_t last = 0;
};

class NextAttemptRestored : public NextAttempt, public ::testing::WithParamInterface<bool> {};

TEST_P(NextAttemptRestored, RevisionsGoOnSoThatAToolKnowsThatItKnowsNothing) {
  Begin();
  if (GetParam()) {
    h.Restart(/*from_snapshot=*/true);
    h.Open(kTool, true);
  }
  const int64_t begins = h.Brought<KeysListed>(h.Ask(kTool, ListKeys{})).revision;
  EXPECT_GT(begins, last);
  // As many changes as the attempt before had.
  h.Ask(kTool, SetKey{.key = "a", .value = "new"});
  h.Ask(kTool, SetKey{.key = "c", .value = "new"});

  for (const int64_t after : {int64_t{1}, last - 1, last}) {
    const KeysChanged all = h.Brought<KeysChanged>(h.Ask(kTool, WatchKeys{.after = after}));
    EXPECT_TRUE(all.snapshot) << after;
    ASSERT_EQ(all.changes.size(), 2u);
    EXPECT_EQ(*all.changes[0].value, "new");
    EXPECT_EQ(all.changes[1].key, "c");
  }
  const KeysChanged since = h.Brought<KeysChanged>(h.Ask(kTool, WatchKeys{.after = begins}));
  EXPECT_FALSE(since.snapshot);
  EXPECT_EQ(since.changes.size(), 2u);
}

TEST_P(NextAttemptRestored, TheLogGivesTheSameRevisionsAgain) {
  Begin();
  const int64_t written =
      h.Brought<KeyWritten>(h.Ask(kTool, SetKey{.key = "a", .value = "new"})).revision;

  h.Restart(GetParam());
  h.Open(kTool, true);

  EXPECT_EQ(h.Brought<KeyWritten>(h.Ask(kTool, SetKey{.key = "z"})).revision, written + 1);
}

INSTANTIATE_TEST_SUITE_P(Restored, NextAttemptRestored, ::testing::Bool());

TEST_F(NextAttempt, AToolsWatchGoesOnThereAndAMembersEnds) {
  const CallId tool = h.Ask(kTool, WatchKeys{.after = last});
  const CallId member = h.Ask(kFirst, WatchKeys{.after = last});
  const CallId waits = h.Ask(kTool, GetKey{.key = "never"});

  Begin();

  const KeysChanged news = h.Brought<KeysChanged>(tool);
  EXPECT_TRUE(news.snapshot);
  EXPECT_THAT(news.changes, IsEmpty());
  EXPECT_THAT(h.Reply(member), HasError(StatusCode::kInternal, Reason::kWrongServiceIncarnation));
  EXPECT_THAT(h.Reply(waits), HasError(StatusCode::kInternal, Reason::kWrongServiceIncarnation));
  const CallId next = h.Ask(kTool, WatchKeys{.after = news.revision});
  EXPECT_TRUE(h.Pending(next));
  h.Ask(kTool, SetKey{.key = "a", .value = "new"});
  EXPECT_FALSE(h.Brought<KeysChanged>(next).snapshot);
}

}  // namespace
}  // namespace lockstep::coord

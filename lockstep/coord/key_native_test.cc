// What native callers do with keys: revisions, conditions, numbers, many keys, pages, lifetimes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/key_harness.h"

namespace lockstep::coord {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class BoundedWaits : public NativeKeys {
 protected:
  BoundedWaits() : NativeKeys({.wait_bytes_max = 5000, .session_wait_bytes_max = 3000}) {}
};

TEST_F(BoundedWaits, Finding15_AreRefusedByNameAndGiveBackWhatTheyHeld) {
  const std::string name(500, 'k');
  const CallId first = GetAll({name + "1", name + "2"});
  EXPECT_EQ(Text(first), "waits");
  EXPECT_GT(keys_.wait_bytes(), 1000u);
  const CallId second = GetAll({name + "3", name + "4"});
  EXPECT_THAT(Text(second), HasSubstr("session_wait_bytes_max"));
  EXPECT_EQ(Why(second), Reason::kLimitExceeded);
  Set(name + "1", "x");
  Set(name + "2", "x");
  EXPECT_NE(Text(first), "waits");
  EXPECT_EQ(keys_.wait_bytes(), 0u);
  EXPECT_EQ(Text(GetAll({name + "3", name + "4"})), "waits");
  keys_.Forget(last_);
  EXPECT_EQ(keys_.wait_bytes(), 0u);
}

TEST_F(BoundedWaits, Finding15_WatchesCountForTheJob) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Text(Watch(std::string(600, static_cast<char>('a' + i)), 1)), "waits");
  }
  EXPECT_THAT(Text(Watch(std::string(600, 'z'), 1)), HasSubstr("wait_bytes_max"));
}

using KeyRevisions = NativeKeys;

TEST_F(KeyRevisions, WhatKeysCostIsKnownAndGivenBack) {
  const size_t before = keys_.memory();
  Set("a", std::string(1000, 'x'));
  Set("a", std::string(10, 'x'));
  Set("b", "1", {.ttl = absl::Seconds(5)});
  EXPECT_GT(keys_.memory(), before + 300);
  Delete("a");
  Delete("b");
  // What is remembered of the changes themselves.
  EXPECT_LT(keys_.memory(), before + 5 * 128);
}

TEST_F(KeyRevisions, EachChangeTakesTheNext) {
  EXPECT_EQ(keys_.table().revision(), 1);
  EXPECT_EQ(Text(Set("a", "1")), "r2");
  EXPECT_EQ(Text(Set("b", "1")), "r3");
  EXPECT_EQ(Text(Set("a", "2")), "r4");
  EXPECT_EQ(Text(Increment("n", 5)), "n=5@5");
  EXPECT_EQ(Text(Delete("b")), "1 deleted, r6");
  EXPECT_EQ(Text(Get("/a/")), "/a/=2@4");
  EXPECT_EQ(Text(List("")), "a=2@4 n=5@5 r6");
}

TEST_F(KeyRevisions, WhatChangesNothingTakesNone) {
  Set("a", "1");
  EXPECT_THAT(Text(Insert("a", "2")), StartsWith("ALREADY_EXISTS"));
  EXPECT_EQ(Text(Delete("b")), "0 deleted, r2");
  EXPECT_EQ(Text(Delete("b", /*below=*/true)), "0 deleted, r2");
  Max("m", 3);
  EXPECT_EQ(Text(Max("m", 2)), "m=3@3");
  EXPECT_EQ(keys_.table().revision(), 3);
  EXPECT_EQ(out_.records.size(), 2u);
}

TEST_F(KeyRevisions, ADeletionOfManyTakesOne) {
  for (const char* key : {"a", "a/x", "a/y", "ab"}) Set(key, "1");

  EXPECT_EQ(Text(Delete("a", /*below=*/true)), "3 deleted, r6");
  EXPECT_EQ(Text(List("")), "ab=1@5 r6");
  Set("a/x", "1");
  Set("a", "1");
  EXPECT_EQ(Text(Delete("a")), "1 deleted, r9") << "the key alone";
  EXPECT_EQ(Text(List("")), "a/x=1@7 ab=1@5 r9");
}

TEST_F(KeyRevisions, AStockCallerIsAnsweredAsByItsOwnService) {
  keys_.Set(Time(), {.caller = {.call = CallId(100)}, .key = "a/b", .value = "1"}, {}, out_);
  keys_.Delete({.caller = {.call = CallId(101)}, .key = "a"}, out_);

  EXPECT_EQ(Text(CallId(100)), "ok");
  EXPECT_EQ(Text(CallId(101)), "ok");
  EXPECT_EQ(keys_.table().size(), 0u);
}

TEST_F(KeyRevisions, WhatIsBelowNoKeyIsEverything) {
  for (const char* key : {"a", "a/x", "b"}) Set(key, "1");

  EXPECT_EQ(Text(Delete("/", /*below=*/true)), "3 deleted, r5");
  EXPECT_EQ(std::get<record::KeyDeleted>(out_.records.back()).key, "/");
  EXPECT_EQ(keys_.table().size(), 0u);
  EXPECT_EQ(Text(Delete("", /*below=*/true)), "0 deleted, r5");

  Set("c", "1");
  EXPECT_TRUE(keys_.Apply(Time(), record::KeyDeleted{"/", true, 7}).ok());
  EXPECT_EQ(keys_.table().size(), 0u);
}

TEST_F(KeyRevisions, ANativeCallerMustNameAKey) {
  for (const CallId call : {Set("", "1"), Get("//"), TryGet("/"), Delete(""), Max("", 1),
                            Increment("/", 1), CompareAndSet("", {.absent = true}, "1")}) {
    EXPECT_EQ(Why(call), Reason::kKeyInvalid);
    EXPECT_THAT(Text(call), AllOf(StartsWith("INVALID_ARGUMENT"), HasSubstr("names nothing")));
  }
}

using KeyConditions = NativeKeys;

TEST_F(KeyConditions, ASwapHappensWhenTheKeyIsAsExpected) {
  EXPECT_EQ(Text(CompareAndSet("/a", {.absent = true}, "1")), "swapped /a=1@2");
  EXPECT_EQ(Text(CompareAndSet("a", {.value = "1"}, "2")), "swapped a=2@3");
  EXPECT_EQ(Text(CompareAndSet("a", {.revision = 3}, "3")), "swapped a=3@4");
}

TEST_F(KeyConditions, OtherwiseTheKeyIsShownAsItIs) {
  EXPECT_EQ(Text(CompareAndSet("a", {.value = ""}, "x")), "kept nothing");
  EXPECT_EQ(Text(CompareAndSet("a", {.revision = 0}, "x")), "kept nothing");
  Set("a", "1");
  EXPECT_EQ(Text(CompareAndSet("a", {.absent = true}, "x")), "kept a=1@2");
  EXPECT_EQ(Text(CompareAndSet("a", {.value = "2"}, "x")), "kept a=1@2");
  EXPECT_EQ(Text(CompareAndSet("a", {.revision = 1}, "x")), "kept a=1@2");
  EXPECT_EQ(out_.records.size(), 1u);
}

TEST_F(KeyConditions, ASwapMustExpectExactlyOneThing) {
  EXPECT_EQ(Why(CompareAndSet("a", {}, "x")), Reason::kInvalidArgument);
  EXPECT_EQ(Why(CompareAndSet("a", {.absent = true, .revision = 1}, "x")),
            Reason::kInvalidArgument);
  EXPECT_EQ(Why(CompareAndSet("a", {.value = "1", .revision = 1}, "x")), Reason::kInvalidArgument);
}

TEST_F(KeyConditions, ASwapWakesWaitersAndTheLimitsHold) {
  const CallId waiter = Get("a");
  CompareAndSet("a", {.absent = true}, "1");
  EXPECT_EQ(Text(waiter), "a=1@2");
  EXPECT_EQ(Why(CompareAndSet(std::string(options_.key_bytes_max + 1, 'k'), {.absent = true}, "")),
            Reason::kLimitExceeded);
  EXPECT_EQ(Why(CompareAndSet("a", {.value = "1"}, std::string(options_.value_bytes_max + 1, 'v'))),
            Reason::kLimitExceeded);
  EXPECT_EQ(Text(TryGet("a")), "a=1@2");
}

TEST_F(KeyConditions, ADeletionMayExpectARevision) {
  Set("a", "1");
  EXPECT_THAT(Text(Delete("a", false, 1)),
              AllOf(StartsWith("FAILED_PRECONDITION"), HasSubstr("written at revision 2")));
  EXPECT_EQ(Why(Delete("a", false, 1)), Reason::kConditionFailed);
  EXPECT_THAT(Text(Delete("b", false, 1)), HasSubstr("there is no such key"));
  EXPECT_EQ(Why(Delete("a", /*below=*/true, 2)), Reason::kInvalidArgument);
  EXPECT_EQ(Text(Delete("a", false, 2)), "1 deleted, r3");
}

using KeyNumbers = NativeKeys;

TEST_F(KeyNumbers, TheMaximumIsTheGreaterOne) {
  EXPECT_EQ(Text(Max("m", -5)), "m=-5@2") << "an absent key is less than any number";
  EXPECT_EQ(Text(Max("m", -7)), "m=-5@2");
  EXPECT_EQ(Text(Max("m", 4)), "m=4@3");
  EXPECT_EQ(Text(Increment("m", 1)), "m=5@4");
  Set("word", "x");
  EXPECT_EQ(Why(Max("word", 1)), Reason::kKeyNotANumber);
  EXPECT_EQ(Why(Increment("word", 1)), Reason::kKeyNotANumber);
  Set("big", "9223372036854775807");
  EXPECT_EQ(Why(Increment("big", 1)), Reason::kNumberOverflow);
}

TEST_F(KeyNumbers, ANumberKeepsTheLifetimeOfItsKey) {
  Set("n", "1", {.ttl = absl::Seconds(10)}, 3, At(0));
  Increment("n", 1, At(4));

  EXPECT_EQ(keys_.NextDeadline(), At(10));
  const auto& set = std::get<record::KeySet>(out_.records.back());
  EXPECT_EQ(set.ttl, absl::Seconds(6)) << "what is left of it";
  EXPECT_EQ(set.owner, MemberIndex(3));
}

using ManyKeys = NativeKeys;

TEST_F(ManyKeys, AreAnsweredAtOnceWhenAllAreThereInTheOrderAsked) {
  Set("b", "2");
  Set("a", "1");
  EXPECT_EQ(Text(GetAll({"b", "/a", "b"})), "b=2@2 /a=1@3 b=2@2 r3");
  EXPECT_EQ(Text(GetAll({})), "r3");
}

TEST_F(ManyKeys, AreAnsweredOnceByTheLast) {
  const CallId call = GetAll({"a", "b", "c"});
  EXPECT_EQ(keys_.waits(), 3u);
  Set("b", "2");
  Set("a", "1");
  EXPECT_EQ(Text(call), "waits");
  Set("c", "3");
  EXPECT_EQ(Text(call), "a=1@3 b=2@2 c=3@4 r4");
  EXPECT_EQ(keys_.waits(), 0u);
}

TEST_F(ManyKeys, WaitForOneThatWasDeletedMeanwhile) {
  const CallId call = GetAll({"a", "b"});
  Set("a", "1");
  Delete("a");
  Set("b", "2");
  EXPECT_EQ(Text(call), "waits");
  Set("a", "3");
  EXPECT_EQ(Text(call), "a=3@5 b=2@4 r5");
}

TEST_F(ManyKeys, AreForgottenWithTheirCallerAndFailWithTheRest) {
  const CallId left = GetAll({"a", "b"});
  const CallId single = Get("b");
  const CallId many = GetAll({"a", "b"});
  Set("a", "1");
  EXPECT_TRUE(keys_.Forget(left));
  EXPECT_FALSE(keys_.Forget(left));
  EXPECT_EQ(keys_.waits(), 3u);
  EXPECT_EQ(keys_.waiting().keys(), 1u);
  EXPECT_EQ(keys_.waiting().First(10).front()->first, "b");
  EXPECT_TRUE(keys_.waiting().First(0).empty());

  keys_.FailAll(MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped, "stopped"), out_);

  EXPECT_EQ(Text(left), "waits");
  EXPECT_EQ(Text(single), "ABORTED: stopped");
  EXPECT_EQ(Text(many), "ABORTED: stopped");
  EXPECT_EQ(keys_.waits(), 0u);
}

TEST_F(ManyKeys, DoNotWaitWhenNobodyMay) {
  EXPECT_FALSE(keys_.Get(Time(), GetKey{.caller = Next(), .key = "a"}, false, out_));
  GetKeys many{.caller = Next(), .keys = {"a"}};
  EXPECT_FALSE(keys_.Get(Time(), many, false, out_));
  EXPECT_EQ(many.keys.size(), 1u) << "taken of a request that was not answered";
  EXPECT_FALSE(keys_.Watch({.caller = Next(), .key = "a", .after = 1}, false, out_));
  EXPECT_TRUE(out_.replies.empty());
  EXPECT_EQ(keys_.waits(), 0u);
}

// More keys than are read at once.
class LongCalls : public NativeKeys {
 protected:
  static constexpr int kKeys = 3000;
  static std::string Key(int i) { return absl::StrCat("k/", i); }

  // All of them, the first once more at the end, spelled otherwise.
  CallId GetThem() {
    std::vector<std::string> keys;
    for (int i = 0; i < kKeys; ++i) keys.push_back(Key(i));
    keys.push_back("//k//0/");
    return GetAll(std::move(keys));
  }
  void SetThem(int from, int to) {
    for (int i = from; i < to; ++i) Set(Key(i), absl::StrCat("v", i));
  }
  int Read() {
    int slices = 0;
    for (; keys_.NextDeadline() <= Time(); ++slices) keys_.ReachDeadline(Time(), out_);
    return slices;
  }
  const KeysListed& Listed(CallId call) const {
    for (const Reply& reply : out_.replies) {
      if (reply.call == call && !reply.error) return std::get<KeysListed>(reply.answer);
    }
    static const KeysListed kNone;
    ADD_FAILURE() << Text(call);
    return kNone;
  }
};

TEST_F(LongCalls, Finding07_AreReadInSlicesInTheOrderAsked) {
  SetThem(0, kKeys);
  const CallId call = GetThem();
  EXPECT_EQ(keys_.waits(), kKeys + 1u);
  EXPECT_EQ(keys_.waiting().keys(), 0u) << "nobody waits for a key that is there";
  EXPECT_EQ(Text(call), "waits");
  EXPECT_EQ(Read(), 3);
  const KeysListed& listed = Listed(call);
  ASSERT_EQ(listed.entries.size(), kKeys + 1u);
  for (int i = 0; i < kKeys; ++i) {
    ASSERT_EQ(listed.entries[i].key, Key(i));
    ASSERT_EQ(*listed.entries[i].value, absl::StrCat("v", i));
  }
  EXPECT_EQ(listed.entries.back().key, "//k//0/");
  EXPECT_EQ(listed.revision, kKeys + 1);
  EXPECT_EQ(keys_.waits(), 0u);
  EXPECT_EQ(keys_.wait_bytes(), 0u);
}

TEST_F(LongCalls, Finding07_SeeAllKeysAtTheSameTimeWhateverIsWrittenMeanwhile) {
  SetThem(0, kKeys);
  const CallId call = GetThem();
  keys_.ReachDeadline(Time(), out_);
  Set(Key(0), "read and written");
  Set(Key(kKeys - 1), "not read yet");
  Read();
  const KeysListed& listed = Listed(call);
  EXPECT_EQ(*listed.entries.front().value, "read and written");
  EXPECT_EQ(*listed.entries.back().value, "read and written");
  EXPECT_EQ(*listed.entries[kKeys - 1].value, "not read yet");
  EXPECT_EQ(listed.revision, kKeys + 3);
}

TEST_F(LongCalls, Finding07_WaitForWhatIsMissingOrGoesMeanwhile) {
  SetThem(0, kKeys - 1);
  const CallId call = GetThem();
  Read();
  EXPECT_EQ(keys_.waiting().First(1).front()->first, Key(kKeys - 1));
  SetThem(kKeys - 1, kKeys);
  EXPECT_EQ(Text(call), "waits");
  keys_.ReachDeadline(Time(), out_);
  Delete(Key(7));
  Read();
  EXPECT_EQ(keys_.waiting().First(1).front()->first, Key(7));
  EXPECT_EQ(keys_.waits(), kKeys + 1u);
  Set(Key(7), "again");
  Read();
  EXPECT_EQ(*Listed(call).entries[7].value, "again");
  EXPECT_EQ(keys_.wait_bytes(), 0u);
}

TEST_F(LongCalls, Finding07_GoOneAfterTheOtherAndAreForgottenOrFail) {
  SetThem(0, kKeys);
  const CallId left = GetThem();
  const CallId answered = GetThem();
  keys_.ReachDeadline(Time(), out_);
  EXPECT_TRUE(keys_.Forget(left));
  EXPECT_FALSE(keys_.Forget(left));
  EXPECT_EQ(Read(), 3);
  EXPECT_EQ(Text(left), "waits");
  EXPECT_EQ(Listed(answered).entries.size(), kKeys + 1u);
  const CallId failed = GetThem();
  keys_.ReachDeadline(Time(), out_);
  keys_.FailAll(MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped, "stopped"), out_);
  EXPECT_EQ(Text(failed), "ABORTED: stopped");
  EXPECT_EQ(keys_.waits(), 0u);
  EXPECT_EQ(keys_.NextDeadline(), Time::Infinite());
}

class SmallPages : public NativeKeys {
 protected:
  SmallPages() : NativeKeys({.page_bytes_max = 10, .keys_per_wait_max = 3}) {}
};

TEST_F(SmallPages, BoundWhatIsAskedForAtOnce) {
  EXPECT_THAT(Text(GetAll({"a", "b", "c", "d"})), HasSubstr("keys_per_wait_max (3)"));
  EXPECT_EQ(Why(GetAll({"a", std::string("\0", 1)})), Reason::kKeyInvalid);
  const CallId call = GetAll({"a", "b", "c"});
  for (const char* key : {"a", "b", "c"}) Set(key, "123");
  EXPECT_EQ(Why(call), Reason::kLimitExceeded);
  EXPECT_THAT(Text(call), HasSubstr("page_bytes_max (10)"));
}

TEST_F(SmallPages, EndBeforeTheLimit) {
  Set("a", std::string(20, 'v'));
  for (const char* key : {"b", "c", "d"}) Set(key, "123");
  EXPECT_THAT(Text(List("")), AllOf(HasSubstr("page_bytes_max"), HasSubstr("in pages")));
  EXPECT_EQ(Text(List("", 9)), "a=vvvvvvvvvvvvvvvvvvvv@2 r5 more") << "one at least";
  EXPECT_EQ(Text(List("", 9, "a")), "b=123@3 c=123@4 r5 more");
  EXPECT_EQ(Text(List("", 9, "c")), "d=123@5 r5");
}

class ShortPages : public NativeKeys {
 protected:
  ShortPages() : NativeKeys({.page_entries_max = 2}) {}
};

TEST_F(ShortPages, Finding07_EndAfterSoManyKeys) {
  for (const char* key : {"a", "b", "c"}) Set(key, "1");
  EXPECT_EQ(Text(List("", 9)), "a=1@2 b=1@3 r4 more");
  EXPECT_EQ(Text(List("", 9, "b")), "c=1@4 r4");
  EXPECT_THAT(Text(List("")), AllOf(HasSubstr("page_entries_max (2)"), HasSubstr("in pages")));
}

TEST_F(ShortPages, Finding07_BoundWhatAWatchIsToldAtFirst) {
  for (const char* key : {"a", "b"}) Set(key, "1");
  EXPECT_EQ(Text(Watch("", 0)), "a=1@2 b=1@3 r3 snapshot");
  Set("c", "1");
  EXPECT_THAT(Text(Watch("", 0)), HasSubstr("page_entries_max (2)"));
  EXPECT_EQ(Text(Watch("c", 0)), "c=1@4 r4 snapshot");
}

TEST_F(ManyKeys, AreListedInPages) {
  for (const char* key : {"d/a", "d/b", "d/c", "e", "d"}) Set(key, "1");
  EXPECT_EQ(Text(List("d")), "d/a=1@2 d/b=1@3 d/c=1@4 r6");
  EXPECT_EQ(Text(List("d", 2)), "d/a=1@2 d/b=1@3 r6 more");
  EXPECT_EQ(Text(List("d", 2, "d/b")), "d/c=1@4 r6");
  EXPECT_EQ(Text(List("/d/", 2, "d/a0")), "d/b=1@3 d/c=1@4 r6") << "after a key that is not there";
  EXPECT_EQ(Text(List("d", 3)), "d/a=1@2 d/b=1@3 d/c=1@4 r6") << "full, and not more";
  EXPECT_EQ(Text(List("", 2)), "d=1@6 d/a=1@2 r6 more");
  EXPECT_EQ(Text(List("", 0, "d/c")), "e=1@5 r6");
  EXPECT_EQ(Text(List("none")), "r6");
}

using KeyLifetimes = NativeKeys;

TEST_F(KeyLifetimes, AKeyGoesWhenItsTimeIsUp) {
  Set("a", "1", {.ttl = absl::Seconds(10)}, std::nullopt, At(5));
  Set("b", "1", {.ttl = absl::Seconds(20)}, std::nullopt, At(5));
  EXPECT_EQ(keys_.NextDeadline(), At(15));

  keys_.ReachDeadline(At(14.9), out_);
  EXPECT_EQ(Text(TryGet("a")), "a=1@2");
  keys_.ReachDeadline(At(15), out_);

  EXPECT_EQ(Why(TryGet("a")), Reason::kKeyNotFound);
  EXPECT_EQ(keys_.table().revision(), 4);
  const auto& gone = std::get<record::KeyDeleted>(out_.records.back());
  EXPECT_EQ(gone.key, "a");
  EXPECT_EQ(gone.revision, 4);
  EXPECT_EQ(keys_.NextDeadline(), At(25));
}

TEST_F(KeyLifetimes, AnotherWriteBeginsAnotherLife) {
  Set("a", "1", {.ttl = absl::Seconds(10)}, std::nullopt, At(0));
  Set("a", "2", {.ttl = absl::Seconds(10)}, std::nullopt, At(5));
  EXPECT_EQ(keys_.NextDeadline(), At(15));
  Set("a", "3");
  EXPECT_EQ(keys_.NextDeadline(), Time::Infinite());
  CompareAndSet("a", {.value = "3"}, "4", {.ttl = absl::Seconds(7)});
  EXPECT_EQ(keys_.NextDeadline(), At(7));
  Delete("a");
  EXPECT_EQ(keys_.NextDeadline(), Time::Infinite());
}

TEST_F(KeyLifetimes, ATimeAboveZeroIsNeeded) {
  EXPECT_EQ(Why(Set("a", "1", {.ttl = absl::ZeroDuration()})), Reason::kInvalidArgument);
  EXPECT_EQ(Why(Set("a", "1", {.ttl = -absl::Seconds(1)})), Reason::kInvalidArgument);
  EXPECT_EQ(Text(Set("a", "1", {.ttl = absl::Hours(24 * 365 * 1000)})), "r2");
  EXPECT_EQ(keys_.NextDeadline(), Time::Infinite()) << "beyond all clocks";
}

TEST_F(KeyLifetimes, AMembersKeysGoWithIt) {
  Set("a", "1", {}, 1);
  Set("b", "1", {}, 2);
  Set("c", "1", {}, 1);
  Set("c", "2") /* taken over */;
  Set("d", "1", {.ttl = absl::Seconds(3)}, 1);
  const CallId waiter = Get("a2");

  keys_.MemberGone(MemberIndex(1), out_);
  keys_.MemberGone(MemberIndex(7), out_);

  EXPECT_EQ(Text(List("")), "b=1@3 c=2@5 r8");
  EXPECT_EQ(keys_.NextDeadline(), Time::Infinite());
  EXPECT_EQ(Text(waiter), "waits");
  EXPECT_EQ(keys_.table().bytes(), 4u);
}

// What one turn wrote down, in keys.
size_t Deleted(const Effects& effects) {
  return static_cast<size_t>(std::count_if(
      effects.records.begin(), effects.records.end(),
      [](const Record& record) { return std::holds_alternative<record::KeyDeleted>(record); }));
}

TEST_F(KeyLifetimes, Finding03_KeysThatAreDueGoInSlices) {
  for (int i = 0; i < 5000; ++i) Set(absl::StrCat("k/", i), "v", {.ttl = absl::Seconds(1)});
  size_t turns = 0;
  for (; keys_.NextDeadline() <= At(2); ++turns) {
    out_ = {};
    keys_.ReachDeadline(At(2), out_);
    EXPECT_LE(Deleted(out_), kDyingKeysSliceMax);
    ASSERT_GT(Deleted(out_), 0u);
  }
  EXPECT_EQ(keys_.table().size(), 0u);
  EXPECT_EQ(turns, 5u);
}

TEST_F(KeyLifetimes, Finding03_ASliceIsBoundedByBytesToo) {
  for (int i = 0; i < 10; ++i) {
    Set(absl::StrCat("k/", i), std::string(kDyingBytesSliceMax, 'v'), {.ttl = absl::Seconds(1)});
  }
  out_ = {};
  keys_.ReachDeadline(At(2), out_);
  EXPECT_EQ(Deleted(out_), 1u);
  EXPECT_LE(keys_.NextDeadline(), At(2)) << "the rest is due at once";
}

TEST_F(KeyLifetimes, Finding03_AMembersKeysGoInSlices) {
  for (int i = 0; i < 3000; ++i) Set(absl::StrCat("k/", i), "v", {}, 1);
  Set("k/taken over", "v", {}, 1);
  Set("other", "v", {}, 2);
  out_ = {};
  keys_.MemberGone(MemberIndex(1), out_);
  EXPECT_EQ(Deleted(out_), kDyingKeysSliceMax);
  EXPECT_LE(keys_.NextDeadline(), Time());
  // Its next life has keys of its own, one of them under a name that is about to go.
  Set("k/2999", "new", {}, 1);
  Set("k/taken over", "kept");
  Increment("k/2998", 1);
  while (keys_.NextDeadline() <= At(1)) keys_.ReachDeadline(At(1), out_);
  EXPECT_EQ(Text(List("")).substr(0, 11), "k/2999=new@") << Text(List(""));
  EXPECT_EQ(keys_.table().size(), 3u);
  EXPECT_EQ(Text(TryGet("k/taken over")).substr(0, 17), "k/taken over=kept");
  out_ = {};
  keys_.MemberGone(MemberIndex(1), out_);
  EXPECT_EQ(Why(TryGet("k/2999")), Reason::kKeyNotFound) << "the new life's key goes with that";
}

TEST_F(KeyLifetimes, Finding03_WhoDiesInTheMidstOfSlicesGoesOnWithThem) {
  Effects all;
  const auto take = [&] {
    for (Record& record : out_.records) all.records.push_back(std::move(record));
    out_ = {};
  };
  for (int i = 0; i < 3000; ++i) Set(absl::StrCat("k/", i), "v", {}, 1);
  keys_.MemberGone(MemberIndex(1), out_);
  Set("mine", "v", {}, 1);  // of its next life
  take();
  for (const bool snapshot : {false, true}) {
    KeyValues again(options_);
    std::vector<TimedRecord> records;
    if (snapshot) {
      keys_.Snapshot(records);
    } else {
      for (const Record& record : all.records) records.push_back({Time(), record});
    }
    for (const TimedRecord& timed : records) {
      if (const auto* set = std::get_if<record::KeySet>(&timed.record)) {
        ASSERT_TRUE(again.Apply(timed.at, *set).ok());
      } else if (const auto* gone = std::get_if<record::KeyDeleted>(&timed.record)) {
        ASSERT_TRUE(again.Apply(timed.at, *gone).ok());
      } else {
        again.Apply(std::get<record::OwnerGone>(timed.record));
      }
    }
    EXPECT_EQ(again.table().size(), keys_.table().size());
    Effects out;
    while (again.NextDeadline() <= At(1)) again.ReachDeadline(At(1), out);
    EXPECT_EQ(again.table().size(), 1u) << "snapshot: " << snapshot;
    out = {};
    again.MemberGone(MemberIndex(1), out);
    EXPECT_EQ(again.table().size(), 0u);
  }
}

TEST_F(KeyLifetimes, Finding03_ManyMembersThatGoInOneEventDoNotMakeItLong) {
  for (int member = 0; member < 5000; ++member) {
    for (int i = 0; i < 3; ++i) Set(absl::StrCat(member, "/", i), "v", {}, member);
  }
  out_ = {};
  for (int member = 0; member < 5000; ++member) keys_.MemberGone(MemberIndex(member), out_);
  EXPECT_LE(Deleted(out_), 2 * kDyingKeysSliceMax);
  while (keys_.NextDeadline() <= At(1)) keys_.ReachDeadline(At(1), out_);
  EXPECT_EQ(keys_.table().size(), 0u);
}

using LongDeletions = NativeKeys;

TEST_F(LongDeletions, Finding07_GoInSlicesAndAreAnsweredAtTheirEnd) {
  for (int i = 0; i < 5000; ++i) Set(absl::StrCat("k/", i), "v");
  Set("k", "itself");
  Set("k-", "beside it");
  out_ = {};
  const CallId call = Delete("k", /*below=*/true);
  EXPECT_EQ(Text(call), "waits");
  size_t turns = 1;
  for (; keys_.NextDeadline() <= Time(); ++turns) {
    EXPECT_EQ(Text(call), "waits");
    EXPECT_LE(Deleted(out_), kDyingKeysSliceMax + 1);
    EXPECT_GT(Deleted(out_), 0u);
    out_ = {};
    keys_.ReachDeadline(Time(), out_);
  }
  EXPECT_EQ(turns, 5u);
  EXPECT_EQ(Text(call), absl::StrCat("5001 deleted, r", keys_.table().revision()));
  EXPECT_EQ(Text(List("")), absl::StrCat("k-=beside it@5003 r", keys_.table().revision()));
  EXPECT_EQ(keys_.NextDeadline(), Time::Infinite());
  EXPECT_EQ(keys_.waits(), 0u);
}

TEST_F(LongDeletions, Finding07_ASliceIsBoundedByBytesToo) {
  for (int i = 0; i < 4; ++i) Set(absl::StrCat("k/", i), std::string(kDyingBytesSliceMax, 'v'));
  out_ = {};
  const CallId call = Delete("", /*below=*/true);
  EXPECT_EQ(Deleted(out_), 1u);
  while (keys_.NextDeadline() <= Time()) keys_.ReachDeadline(Time(), out_);
  EXPECT_THAT(Text(call), StartsWith("4 deleted"));
}

TEST_F(LongDeletions, Finding07_WhatIsWrittenMeanwhileBehindThemStays) {
  for (int i = 0; i < 3000; ++i) Set(absl::StrCat("k/", i), "v");
  const CallId call = Delete("k", /*below=*/true);
  Set("k/0", "new");    // where the deletion has been
  Set("k/999", "new");  // where it has not
  while (keys_.NextDeadline() <= Time()) keys_.ReachDeadline(Time(), out_);
  EXPECT_THAT(Text(call), StartsWith("3000 deleted"));
  EXPECT_THAT(Text(List("")), StartsWith("k/0=new@"));
  EXPECT_EQ(keys_.table().size(), 1u);
}

TEST_F(LongDeletions, Finding07_ComeToTheirEndWhenTheirCallerHasLeft) {
  for (int i = 0; i < 3000; ++i) Set(absl::StrCat("k/", i), "v");
  const Caller caller = Next();
  keys_.Delete({.caller = caller, .key = "k"}, out_);
  EXPECT_EQ(keys_.waits(), 1u);
  EXPECT_TRUE(keys_.Forget(caller.call));
  EXPECT_FALSE(keys_.Forget(caller.call));
  // Asked for again, over another link: it is the same deletion, and counts what went before.
  Caller again = Next();
  again.number = caller.number;
  keys_.Delete({.caller = again, .key = "k"}, out_);
  EXPECT_EQ(keys_.waits(), 1u);
  while (keys_.NextDeadline() <= Time()) keys_.ReachDeadline(Time(), out_);
  EXPECT_EQ(Text(caller.call), "waits");
  EXPECT_THAT(Text(again.call), StartsWith("3000 deleted"));
  const std::vector<KeyDeletions::Ended> ended = keys_.TakeDeleted();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].caller.number, caller.number);
  EXPECT_EQ(std::get<KeysDeleted>(ended[0].answer).deleted, 3000);
  EXPECT_TRUE(keys_.TakeDeleted().empty());
}

TEST_F(LongDeletions, Finding07_HaveALimitAndAnEnd) {
  for (int i = 0; i < 3000; ++i) Set(absl::StrCat("k/", i), "v");
  const CallId first = Delete("k", /*below=*/true);
  for (size_t i = 1; i < KeyDeletions::kLongDeletionsMax; ++i) Delete("k", /*below=*/true);
  EXPECT_THAT(Text(Delete("k", /*below=*/true)), HasSubstr("long_deletions_max (256)"));
  keys_.FailAll(MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped, "stopped"), out_);
  EXPECT_EQ(Text(first), "ABORTED: stopped");
  EXPECT_EQ(keys_.waits(), 0u);
  EXPECT_EQ(keys_.NextDeadline(), Time::Infinite());
}

TEST_F(LongDeletions, Finding07_WhoDiesInTheMidstHasWhatWasWrittenDown) {
  for (int i = 0; i < 3000; ++i) Set(absl::StrCat("k/", i), "v");
  Delete("k", /*below=*/true);
  KeyValues again(options_);
  for (const Record& record : out_.records) {
    if (const auto* set = std::get_if<record::KeySet>(&record)) {
      ASSERT_TRUE(again.Apply(Time(), *set).ok());
    } else {
      ASSERT_TRUE(again.Apply(Time(), std::get<record::KeyDeleted>(record)).ok());
    }
  }
  EXPECT_EQ(again.table().size(), keys_.table().size());
  EXPECT_EQ(again.table().size(), 3000 - kDyingKeysSliceMax);
  EXPECT_EQ(again.table().revision(), keys_.table().revision());
}

TEST_F(KeyLifetimes, AMillionKeysWork) {
  std::vector<std::string> names;
  for (int i = 0; i < 1'000'000; ++i) {
    keys_.Set(Time(), {.caller = Next(), .key = absl::StrCat("k/", i), .value = "v"}, {}, out_);
    if (i % 1000 == 0) out_ = {};
  }
  out_ = {};
  EXPECT_EQ(keys_.table().size(), 1'000'000u);
  EXPECT_EQ(Why(Set("one more", "")), Reason::kLimitExceeded);
  EXPECT_EQ(Text(TryGet("k/777777")), "k/777777=v@777779");
  const CallId deletion = Delete("k", /*below=*/true);
  for (; keys_.NextDeadline() <= Time(); out_.records.clear()) keys_.ReachDeadline(Time(), out_);
  EXPECT_THAT(Text(deletion), StartsWith("1000000 deleted, r"));
  EXPECT_EQ(keys_.table().bytes(), 0u);
}

}  // namespace
}  // namespace lockstep::coord

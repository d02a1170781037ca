// Each command, as torch's own server was seen to answer it; where ours differs, the test says so.
#include "lockstep/stock/tcpstore/store.h"

#include "gmock/gmock.h"
#include "lockstep/stock/tcpstore/store_harness.h"

namespace lockstep::tcpstore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using StoreTest = StoreHarness;

TEST_F(StoreTest, SetIsNotAnsweredAndGetIs) {
  EXPECT_THAT(Do(1, Set{"/a", "x"}), IsEmpty());
  EXPECT_THAT(Do(2, Get{"/a"}), ElementsAre("2: x"));
  EXPECT_THAT(Do(2, Set{"/a", ""}), IsEmpty());
  EXPECT_THAT(Do(1, Get{"/a"}), ElementsAre("1: "));
  EXPECT_THAT(Do(1, Get{"/b"}), ElementsAre("1: -"));
}

TEST_F(StoreTest, KeysAreBytesWithoutDirectories) {
  Do(1, Set{"/a//b", "1"});
  Do(1, Set{absl::string_view("/a\0b", 4), "2"});
  Do(1, Set{"", "3"});
  EXPECT_THAT(Do(1, MultiGet{{"/a/b", "/a//b", absl::string_view("/a\0b", 4), ""}}),
              ElementsAre("1: -,1,2,3"));
  EXPECT_THAT(Do(1, CountKeys{}), ElementsAre("1: 3"));
}

TEST_F(StoreTest, CompareSetStoresWhereTheExpectedIs) {
  EXPECT_THAT(Do(1, CompareSet{"/a", "", "new"}), ElementsAre("1: new"));
  EXPECT_THAT(Do(1, CompareSet{"/a", "new", "newer"}), ElementsAre("1: newer"));
  EXPECT_THAT(Do(1, CompareSet{"/a", "new", "no"}), ElementsAre("1: newer"));
  EXPECT_THAT(Do(1, CompareSet{"/a", "", "no"}), ElementsAre("1: newer"));
  Do(1, Set{"/empty", ""});
  EXPECT_THAT(Do(1, CompareSet{"/empty", "", "full"}), ElementsAre("1: full"));
}

TEST_F(StoreTest, CompareSetOfAMissingKeyGivesTheExpectedBackAndStoresNothing) {
  EXPECT_THAT(Do(1, CompareSet{"/a", "old", "new"}), ElementsAre("1: sent old"));
  EXPECT_THAT(Do(1, Get{"/a"}), ElementsAre("1: -"));
}

TEST_F(StoreTest, AFailedCompareSetWakesNobody) {
  EXPECT_THAT(Do(1, Wait{{"/a"}}), IsEmpty());
  EXPECT_THAT(Do(2, CompareSet{"/a", "old", "new"}), ElementsAre("2: sent old"));
  EXPECT_THAT(Do(2, CompareSet{"/a", "", "new"}), ElementsAre("2: new", "1: ready"));
}

struct NumberCase {
  std::string text;
  std::string after;  // one is added; empty: refused
};

class NumberTest : public StoreHarness, public testing::WithParamInterface<NumberCase> {};

TEST_P(NumberTest, AddReadsWhatCReads) {
  const auto& [text, after] = GetParam();
  Do(1, Set{"/n", text});
  if (after.empty()) {
    EXPECT_THAT(Do(2, Add{"/n", 1}), ElementsAre("2: closed"));
    EXPECT_THAT(why_, HasSubstr("adds to key '/n', whose value is not a number"));
    EXPECT_THAT(Do(1, Get{"/n"}), ElementsAre("1: " + text));
  } else {
    EXPECT_THAT(Do(2, Add{"/n", 1}), ElementsAre("2: " + after));
    EXPECT_THAT(Do(1, Get{"/n"}), ElementsAre("1: " + after));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, NumberTest,
    testing::Values(NumberCase{"12abc", "13"}, NumberCase{" 12", "13"}, NumberCase{"\t\n12", "13"},
                    NumberCase{"+5", "6"}, NumberCase{"-5", "-4"}, NumberCase{"0x10", "1"},
                    NumberCase{"1e3", "2"}, NumberCase{"010", "11"}, NumberCase{"7 8", "8"},
                    NumberCase{"99999999999999999999", ""}, NumberCase{"9223372036854775808", ""},
                    NumberCase{"-9223372036854775808", "-9223372036854775807"},
                    NumberCase{"9223372036854775807", "-9223372036854775808"}, NumberCase{"", ""},
                    NumberCase{"abc", ""}, NumberCase{" ", ""}, NumberCase{"--5", ""},
                    NumberCase{"-", ""}));

TEST_F(StoreTest, AddBeginsAtZeroAndGoesBothWays) {
  EXPECT_THAT(Do(1, Add{"/n", 5}), ElementsAre("1: 5"));
  EXPECT_THAT(Do(1, Add{"/n", -7}), ElementsAre("1: -2"));
  EXPECT_THAT(Do(1, Get{"/n"}), ElementsAre("1: -2"));
}

TEST_F(StoreTest, CheckSaysWhetherAllAreThere) {
  Do(1, Set{"/a", "1"});
  EXPECT_THAT(Do(1, Check{{"/a"}}), ElementsAre("1: ready"));
  EXPECT_THAT(Do(1, Check{{"/a", "/b"}}), ElementsAre("1: not ready"));
  EXPECT_THAT(Do(1, Check{{}}), ElementsAre("1: ready"));
}

TEST_F(StoreTest, WaitIsAnsweredOnceAllExist) {
  Do(1, Set{"/b", "1"});
  EXPECT_THAT(Do(2, Wait{{"/a", "/b", "/c"}}), IsEmpty());
  EXPECT_THAT(Do(1, Set{"/c", "1"}), IsEmpty());
  EXPECT_THAT(Do(1, Set{"/a", "1"}), ElementsAre("2: ready"));
  EXPECT_THAT(Do(1, Set{"/a", "2"}), IsEmpty());
  EXPECT_THAT(Do(2, Wait{{"/a", "/b", "/c"}}), ElementsAre("2: ready"));
  EXPECT_THAT(Do(2, Wait{{}}), ElementsAre("2: ready"));
}

TEST_F(StoreTest, EveryWayToWriteAKeyReleasesAWait) {
  for (const Command& write : {Command(Set{"/a", "1"}), Command(Add{"/a", 1}),
                               Command(Append{"/a", "1"}), Command(MultiSet{{{"/a", "1"}}}),
                               Command(CompareSet{"/a", "", "1"}), Command(Barrier{"/a", 1})}) {
    SCOPED_TRACE(write.index());
    EXPECT_THAT(Do(1, Wait{{"/a"}}), IsEmpty());
    EXPECT_THAT(Do(2, write), testing::Contains("1: ready"));
    EXPECT_THAT(Do(2, DeleteKey{"/a"}), ElementsAre("2: 1"));
  }
}

// Torch's server counts a key that was set and deleted meanwhile; the GET that follows the wait
// then finds nothing.
TEST_F(StoreTest, AKeyThatWasDeletedMeanwhileIsWaitedForAgain) {
  EXPECT_THAT(Do(1, Wait{{"/a", "/b"}}), IsEmpty());
  Do(2, Set{"/a", "1"});
  Do(2, DeleteKey{"/a"});
  EXPECT_THAT(Do(2, Set{"/b", "1"}), IsEmpty());
  EXPECT_THAT(Do(2, Set{"/a", "1"}), ElementsAre("1: ready"));
}

TEST_F(StoreTest, AWaitingConnectionMayDoAnythingElse) {
  EXPECT_THAT(Do(1, Wait{{"/a"}}), IsEmpty());
  EXPECT_THAT(Do(1, Ping{7}), ElementsAre("1: echo 7"));
  EXPECT_THAT(Do(1, Wait{{"/b"}}), IsEmpty());
  EXPECT_THAT(Do(1, Set{"/b", "1"}), ElementsAre("1: ready"));
  EXPECT_THAT(Do(1, Set{"/a", "1"}), ElementsAre("1: ready"));
}

TEST_F(StoreTest, ACancelledWaitIsNotAnsweredAndTheCancelAlwaysIs) {
  EXPECT_THAT(Do(1, CancelWait{}), ElementsAre("1: cancelled"));
  Do(1, Wait{{"/a"}});
  EXPECT_THAT(Do(1, CancelWait{}), ElementsAre("1: cancelled"));
  EXPECT_THAT(Do(2, Set{"/a", "1"}), IsEmpty());
  EXPECT_THAT(Do(1, Wait{{"/a"}}), ElementsAre("1: ready"));
  EXPECT_THAT(Do(1, CancelWait{}), ElementsAre("1: cancelled")) << "it was satisfied first";
}

TEST_F(StoreTest, SaysWhoGaveUpWaitingForWhat) {
  Do(1, Set{"/g/0", "address"});
  Do(1, Wait{{"/g/2"}});
  Do(2, Wait{{"/g/2"}});
  Effects effects;
  store_.Handle(now_ + absl::Seconds(15), Client(1), CancelWait{}, effects);
  ASSERT_EQ(effects.given_up.size(), 1u);
  const AwaitedView& wait = effects.given_up[0].wait;
  EXPECT_EQ(wait.key, "/g/2");
  EXPECT_EQ(wait.rank, 2);
  EXPECT_EQ(wait.waiters, 2u) << "it and another";
  ASSERT_EQ(wait.first_waiters.size(), 1u);
  EXPECT_EQ(wait.first_waiters[0].rank, 0);
  EXPECT_EQ(wait.first_waiters[0].peer, "host:1");
  effects.Clear();
  store_.Handle(now_, Client(1), CancelWait{}, effects);
  EXPECT_TRUE(effects.given_up.empty()) << "it waited for nothing";
}

TEST_F(StoreTest, ABarrierOfNobodyIsOpenWhateverTheNumberIs) {
  Do(1, Add{"/n", -5});
  for (const int64_t size : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_THAT(Do(1, Barrier{"/n", size}), ElementsAre("1: ready")) << size;
    EXPECT_EQ(store_.View().waits, 0u);
    EXPECT_THAT(Do(1, CancelWait{}), ElementsAre("1: cancelled"));
  }
  EXPECT_THAT(Do(1, Get{"/n"}), ElementsAre("1: -2")) << "each of them has arrived";
}

TEST_F(StoreTest, ABarrierUnderANegativeNumberIsGivenUpAsABarrier) {
  Do(2, Wait{{"/n"}});
  Do(1, Add{"/n", -5});
  EXPECT_THAT(Do(1, Barrier{"/n", 1}), IsEmpty());
  ASSERT_EQ(store_.View().awaited.size(), 1u);
  EXPECT_EQ(store_.View().awaited[0].barrier_size, 1);
  EXPECT_EQ(store_.View().awaited[0].arrived, -4);
  Effects effects;
  store_.Handle(now_, Client(1), CancelWait{}, effects);
  ASSERT_EQ(effects.given_up.size(), 1u);
  EXPECT_EQ(effects.given_up[0].wait.barrier_size, 1);
  EXPECT_EQ(effects.given_up[0].wait.waiters, 1u);
}

TEST_F(StoreTest, WhoLeavesIsForgottenWithItsWaits) {
  Do(1, Wait{{"/a"}});
  Do(1, Wait{{"/a", "/b"}});
  Do(1, Barrier{"/a2", 2});
  Do(2, Wait{{"/a"}});
  EXPECT_THAT(Leave(1), IsEmpty());
  EXPECT_EQ(store_.View().waits, 1u);
  EXPECT_THAT(Do(3, Set{"/a", "1"}), ElementsAre("2: ready"));
}

TEST_F(StoreTest, CountAndListTellOfValuesOnly) {
  Do(1, Set{"/b", "1"});
  Do(1, Set{"/a", "1"});
  Do(1, QueuePush{"/q", "1"});
  EXPECT_THAT(Do(1, CountKeys{}), ElementsAre("1: 2"));
  EXPECT_THAT(Do(1, ListKeys{}), ElementsAre("1: /a,/b"));
}

TEST_F(StoreTest, AListOfManyKeysIsMadeInSlicesAndThenAnswered) {
  constexpr size_t kKeys = 2 * KeyListings::kNamesSliceMax + 1;
  for (size_t i = 0; i < kKeys; ++i) Do(1, Set{absl::StrCat("/", i), ""});
  const size_t before = store_.memory();
  Effects effects;
  store_.Handle(now_, Client(1), ListKeys{}, effects);
  EXPECT_THAT(effects.replies, IsEmpty());
  EXPECT_TRUE(store_.lists());
  EXPECT_GT(store_.memory(), before + kKeys * 8) << "its room is taken before it is made";
  size_t slices = 0;
  for (; store_.lists(); ++slices) {
    EXPECT_THAT(effects.replies, IsEmpty());
    store_.ListSome(effects);
    EXPECT_THAT(Do(2, Get{"/1"}), ElementsAre("2: ")) << "others are served between";
  }
  EXPECT_EQ(slices, 3u);
  ASSERT_EQ(effects.replies.size(), 1u);
  EXPECT_EQ(effects.replies[0].to, Client(1));
  EXPECT_EQ(NamesIn(std::get<KeyNames>(effects.replies[0].answer)).size(), kKeys);
}

TEST_F(StoreTest, AListForAClientThatLeavesIsForgotten) {
  for (size_t i = 0; i <= KeyListings::kNamesSliceMax; ++i) Do(1, Set{absl::StrCat("/", i), ""});
  Do(2, Ping{1});
  Effects effects;
  store_.Handle(now_, Client(2), ListKeys{}, effects);
  store_.ListSome(effects);
  EXPECT_TRUE(store_.lists());
  EXPECT_THAT(Leave(2), IsEmpty());
  EXPECT_FALSE(store_.lists());
}

class ShortAnswersTest : public StoreHarness {
 protected:
  ShortAnswersTest() : StoreHarness({.answer_bytes_max = 10'000}) {}
};

TEST_F(ShortAnswersTest, AListThatBecomesTooLongWhileItIsMadeIsRefused) {
  size_t i = 1000;
  while (store_.bytes() < 10'000) Do(1, Set{absl::StrCat("/", i++), ""});
  Effects effects;
  store_.Handle(now_, Client(1), ListKeys{}, effects);
  ASSERT_TRUE(store_.lists());
  Do(2, Set{"/9999", ""});
  while (store_.lists()) store_.ListSome(effects);
  EXPECT_THAT(Told(effects), ElementsAre("1: closed"));
  EXPECT_THAT(why_, HasSubstr("torch_answer_bytes_max (10000)"));
  EXPECT_THAT(Do(2, ListKeys{}), ElementsAre("2: closed")) << "as one that is too long already";
}

TEST_F(StoreTest, DeleteSaysWhetherItWasThere) {
  Do(1, Set{"/a", "1"});
  EXPECT_THAT(Do(1, DeleteKey{"/a"}), ElementsAre("1: 1"));
  EXPECT_THAT(Do(1, DeleteKey{"/a"}), ElementsAre("1: 0"));
  EXPECT_EQ(store_.bytes(), 0u);
}

TEST_F(StoreTest, AppendMakesOrLengthens) {
  EXPECT_THAT(Do(1, Append{"/a", "1"}), IsEmpty());
  EXPECT_THAT(Do(1, Append{"/a", "2"}), IsEmpty());
  EXPECT_THAT(Do(1, Get{"/a"}), ElementsAre("1: 12"));
}

TEST_F(StoreTest, MultiGetAnswersNothingForNoKeys) {
  EXPECT_THAT(Do(1, MultiGet{{}}), ElementsAre("1: ")) << "which is no byte on the wire";
}

TEST_F(StoreTest, MultiSetIsThereWholeBeforeAnybodyIsTold) {
  Do(1, Wait{{"/a", "/b"}});
  Do(2, Wait{{"/a"}});
  EXPECT_THAT(Do(3, MultiSet{{{"/a", "1"}, {"/b", "2"}, {"/a", "3"}}}),
              ElementsAre("1: ready", "2: ready"));
  EXPECT_THAT(Do(3, MultiGet{{"/a", "/b"}}), ElementsAre("3: 3,2"));
  EXPECT_THAT(Do(3, MultiSet{}), IsEmpty());
}

TEST_F(StoreTest, BarrierCountsUnderItsKey) {
  EXPECT_THAT(Do(1, Barrier{"/b", 3}), IsEmpty());
  EXPECT_THAT(Do(2, Barrier{"/b", 3}), IsEmpty());
  EXPECT_THAT(Do(4, Get{"/b"}), ElementsAre("4: 2"));
  EXPECT_THAT(Do(3, Barrier{"/b", 3}), ElementsAre("3: ready", "1: ready", "2: ready"));
  EXPECT_THAT(Do(4, Barrier{"/b", 3}), ElementsAre("4: ready")) << "the count has passed it";
  EXPECT_THAT(Do(4, Barrier{"/none", 0}), ElementsAre("4: ready"));
}

TEST_F(StoreTest, OnlyCountingReleasesABarrier) {
  Do(1, Barrier{"/b", 3});
  EXPECT_THAT(Do(2, Set{"/b", "9"}), IsEmpty()) << "torch's server lets it go";
  Do(2, Set{"/b", "1"});
  EXPECT_THAT(Do(2, Add{"/b", 1}), ElementsAre("2: 2"));
  EXPECT_THAT(Do(2, Add{"/b", 1}), ElementsAre("2: 3", "1: ready"));
}

TEST_F(StoreTest, ABarrierCanBeCancelled) {
  Do(1, Barrier{"/b", 2});
  EXPECT_THAT(Do(1, CancelWait{}), ElementsAre("1: cancelled"));
  EXPECT_THAT(Do(2, Barrier{"/b", 2}), ElementsAre("2: ready")) << "it stays counted";
}

TEST_F(StoreTest, ABarrierOnATextIsRefused) {
  Do(1, Set{"/b", "x"});
  EXPECT_THAT(Do(1, Barrier{"/b", 2}), ElementsAre("1: closed"));
}

class LimitedStoreTest : public StoreHarness {
 protected:
  LimitedStoreTest()
      : StoreHarness({.value_bytes_max = 8,
                      .answer_bytes_max = 10,
                      .keys_max = 3,
                      .store_bytes_max = 2000,
                      .waits_per_connection_max = 2}) {}
};

TEST_F(LimitedStoreTest, RefusesWhatIsOverALimitAndNamesIt) {
  Do(1, MultiSet{{{"/a", "12345678"}, {"/b", "12345678"}}});
  EXPECT_THAT(Do(1, MultiSet{{{"/c", "1"}, {"/d", "1"}}}), ElementsAre("1: closed"));
  EXPECT_THAT(why_, HasSubstr("torch_keys_max"));
  EXPECT_THAT(Do(1, Check{{"/c"}}), ElementsAre("1: not ready")) << "all or nothing";
  EXPECT_THAT(Do(1, Append{"/a", "9"}), ElementsAre("1: closed"));
  EXPECT_THAT(why_, HasSubstr("torch_value_bytes_max"));
  EXPECT_THAT(Do(1, MultiGet{{"/a", "/b"}}), ElementsAre("1: closed"));
  EXPECT_THAT(why_, HasSubstr("torch_answer_bytes_max"));
  EXPECT_THAT(Do(1, Set{std::string(2000, 'k'), ""}), ElementsAre("1: closed"));
  EXPECT_THAT(why_, HasSubstr("torch_store_bytes_max"));
}

TEST_F(LimitedStoreTest, Finding09_WaitsAndBuffersCountForTheStoreAndTheServerHasItsSay) {
  Do(1, Set{"/a", "1"});
  const std::string name(900, 'k');
  EXPECT_THAT(Do(2, Wait{{name + "1", name + "2"}}), ElementsAre("2: closed"));
  EXPECT_THAT(why_, HasSubstr("torch_store_bytes_max"));
  store_.SetSurroundings(/*buffer_bytes=*/2000, /*room_bytes=*/1 << 20);
  EXPECT_THAT(Do(3, Set{"/b", "1"}), ElementsAre("3: closed"));
  EXPECT_THAT(why_, HasSubstr("on their way to and from clients"));
  store_.SetSurroundings(/*buffer_bytes=*/0, /*room_bytes=*/100);
  EXPECT_THAT(Do(4, Set{"/b", "1"}), ElementsAre("4: closed"));
  EXPECT_THAT(why_, HasSubstr("memory_max"));
  EXPECT_THAT(Do(5, Get{"/a"}), ElementsAre("5: 1")) << "reading goes on";
  EXPECT_THAT(Do(5, DeleteKey{"/a"}), ElementsAre("5: 1"));
}

TEST_F(StoreTest, Finding09_KnowsWhatWaitsCost) {
  const size_t before = store_.memory();
  const std::string name(1000, 'k');
  Do(1, Wait{{name + "1", name + "2"}});
  EXPECT_GT(store_.memory(), before + 3000);
  Do(2, Set{name + "1", ""});
  Do(2, Set{name + "2", ""});
  Do(2, DeleteKey{name + "1"});
  Do(2, DeleteKey{name + "2"});
  Do(3, Wait{{name + "3"}});
  Do(3, CancelWait{});
  Leave(1);
  Leave(2);
  Leave(3);
  EXPECT_EQ(store_.memory(), before);
}

TEST_F(LimitedStoreTest, ChangesNothingWhereABarrierMayNotWait) {
  Do(1, Wait{{"/a"}});
  Do(1, Wait{{"/b"}});
  EXPECT_THAT(Do(1, Wait{{"/c"}}), ElementsAre("1: closed"));
  EXPECT_THAT(why_, HasSubstr("torch_waits_per_connection_max"));
  EXPECT_THAT(Do(1, Barrier{"/n", 2}), ElementsAre("1: closed"));
  EXPECT_THAT(Do(1, Get{"/n"}), ElementsAre("1: -"));
}

TEST_F(StoreTest, KnowsItsBytes) {
  Do(1, Set{"/a", "123"});
  Do(1, Set{"/a", "1"});
  Do(1, Add{"/n", 10});
  Do(1, QueuePush{"/q", "xyz"});
  EXPECT_EQ(store_.bytes(), 2u + 1 + 2 + 2 + 2 + 3);
  Do(1, QueuePop{"/q"});
  Do(1, DeleteKey{"/n"});
  EXPECT_EQ(store_.bytes(), 3u);
  Effects effects;
  store_.Clear(effects);
  EXPECT_EQ(store_.bytes(), 0u);
  EXPECT_EQ(store_.size(), 0u);
}

TEST_F(StoreTest, KeysOfTheGroupAreKeysLikeOthers) {
  const Keys both = {"/a", "/default_pg/b"};
  EXPECT_THAT(Do(1, Wait{both}), IsEmpty());
  Do(2, Set{"/a", "1"});
  EXPECT_THAT(Do(2, Set{"/default_pg/b", "2"}), ElementsAre("1: ready"));
  EXPECT_THAT(Do(1, MultiGet{both}), ElementsAre("1: 1,2"));
  EXPECT_THAT(Do(1, ListKeys{}), ElementsAre("1: /a,/default_pg/b"));
  EXPECT_THAT(Do(1, CountKeys{}), ElementsAre("1: 2"));
  EXPECT_EQ(store_.size(), 2u);
  EXPECT_EQ(store_.bytes(), 2u + 1 + 13 + 1);
}

TEST_F(StoreTest, ForgetsTheKeysOfTheGroupAlone) {
  Do(1, Set{"/a", "1"});
  Do(1, Set{"/default_pg/b", "2"});
  Effects effects;
  EXPECT_EQ(store_.ClearGroup(effects), 1u);
  EXPECT_THAT(effects.records, IsEmpty()) << "this one keeps nothing";
  EXPECT_THAT(Do(1, ListKeys{}), ElementsAre("1: /a"));
  EXPECT_THAT(Do(1, Wait{{"/default_pg/b"}}), IsEmpty());
  EXPECT_THAT(Do(2, Set{"/default_pg/b", "3"}), ElementsAre("1: ready"));
}

TEST_F(StoreTest, Finding07_ForgetsAGroupOfAnySizeAtOnceAndFreesItInSlices) {
  constexpr size_t kKeys = 70'000;
  Do(1, Set{"/a", "1"});
  for (size_t i = 0; i < kKeys; ++i) {
    const std::string key = absl::StrCat("/default_pg/", i);
    Do(1, Set{key, "long"});
    Do(1, Set{key, "v"});
  }
  Do(1, DeleteKey{"/default_pg/0"});
  Effects effects;
  EXPECT_EQ(store_.ClearGroup(effects), kKeys - 1);
  EXPECT_EQ(store_.size(), 1u);
  EXPECT_EQ(store_.bytes(), 3u);
  EXPECT_TRUE(store_.has_gone());
  GoneKeys gone = store_.TakeGone();
  EXPECT_FALSE(store_.has_gone());
  size_t slices = 1;
  while (gone.FreeSome()) ++slices;
  EXPECT_EQ(slices, kKeys / GoneKeys::kSliceMax + 1);
}

TEST_F(StoreTest, TellsWhoWaitsForWhoseKeySinceWhen) {
  Do(1, Set{"/default_pg/0//cpu//0/0", "address"});
  Do(2, Set{"/default_pg/0//cpu//0/1", "address"});
  const Time before = now_;
  Do(1, Wait{{"/default_pg/0//cpu//0/2"}});
  Do(2, Wait{{"/default_pg/0//cpu//0/0", "/default_pg/0//cpu//0/2"}});
  Do(3, Barrier{"/done", 4});
  const StoreView view = store_.View();
  EXPECT_EQ(view.connections, 3u);
  EXPECT_EQ(view.waits, 3u);
  ASSERT_EQ(view.awaited.size(), 2u);
  EXPECT_EQ(view.awaited[0].key, "/default_pg/0//cpu//0/2");
  EXPECT_EQ(view.awaited[0].rank, 2);
  EXPECT_EQ(view.awaited[0].waiters, 2u);
  EXPECT_EQ(view.awaited[0].since, before + absl::Seconds(1));
  ASSERT_EQ(view.awaited[0].first_waiters.size(), 2u);
  EXPECT_EQ(view.awaited[0].first_waiters[0].rank, 0);
  EXPECT_EQ(view.awaited[0].first_waiters[1].rank, 1);
  EXPECT_EQ(view.awaited[0].first_waiters[1].peer, "host:2");
  EXPECT_EQ(view.awaited[1].key, "/done");
  EXPECT_EQ(view.awaited[1].barrier_size, 4);
  EXPECT_EQ(view.awaited[1].arrived, 1);
}

TEST_F(StoreTest, ARankIsThatOfTheFirstKeyThatItSet) {
  Do(1, Set{"/default_pg/0//cpu//0/2", "address"});
  Do(1, Set{"/subgroup/0//cpu//1/0", "address"});
  Do(1, Wait{{"/x"}});
  EXPECT_EQ(store_.View().awaited[0].first_waiters[0].rank, 2);
}

}  // namespace
}  // namespace lockstep::tcpstore

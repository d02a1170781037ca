// A store that is made again from its records, or from a snapshot, is the same store.
#include <random>

#include "gmock/gmock.h"
#include "lockstep/stock/tcpstore/store_harness.h"

namespace lockstep::tcpstore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Everything that a client can see of a store's keys and queues.
std::vector<std::string> Shown(Store& store) {
  const ConnectionId reader(99'999);
  store.Connected(reader, "reader:1");
  Effects effects;
  std::vector<std::string> shown = {absl::StrCat(store.size(), " in ", store.bytes())};
  const auto ask = [&](const Command& command) {
    effects.Clear();
    store.Handle(Time(), reader, command, effects);
    shown.push_back(TextOf(effects.replies.back().answer));
  };
  ask(ListKeys{});
  for (int i = 0; i < 6; ++i) {
    const std::string key = absl::StrCat("/k", i);
    ask(Get{key});
    ask(QueueLength{key});
  }
  store.Left(reader, effects);
  return shown;
}

class StoreRecordsTest : public StoreHarness {
 protected:
  StoreRecordsTest() : StoreHarness({.keeps = true}) {}

  // Does it, and keeps what it is recorded by.
  std::vector<std::string> DoKept(uint64_t client, const Command& command) {
    Effects effects;
    store_.Handle(now_, Client(client), command, effects);
    records_.insert(records_.end(), effects.records.begin(), effects.records.end());
    return Told(effects);
  }

  std::unique_ptr<Store> Made(const std::vector<Record>& records) {
    auto made = std::make_unique<Store>(options_);
    for (const Record& record : records) EXPECT_TRUE(made->Apply(record).ok());
    return made;
  }

  const StoreOptions options_ = {.keeps = true};
  std::vector<Record> records_;
};

TEST_F(StoreRecordsTest, EachWriteIsRecordedAndMadeAgain) {
  DoKept(1, Set{"/k0", "a"});
  DoKept(1, Set{"/k0", "b"});
  DoKept(1, Add{"/k1", 5});
  DoKept(1, Add{"/k1", -7});
  DoKept(1, Append{"/k2", "x"});
  DoKept(1, Append{"/k2", "yz"});
  DoKept(1, MultiSet{{{"/k3", "1"}, {"/k4", "2"}, {"/k3", "3"}}});
  DoKept(1, CompareSet{"/k4", "2", "4"});
  DoKept(1, Barrier{"/k5", 3});
  DoKept(1, QueuePush{"/k0", "q1"});
  DoKept(1, QueuePush{"/k0", "q2"});
  DoKept(1, QueuePop{"/k0"});
  DoKept(1, DeleteKey{"/k3"});
  const auto shown = Shown(store_);
  EXPECT_EQ(Shown(*Made(records_)), shown);
  EXPECT_EQ(Shown(*Made(store_.Snapshot())), shown);
}

TEST_F(StoreRecordsTest, WhatChangesNothingIsNotRecorded) {
  DoKept(1, Set{"/text", "x"});
  records_.clear();
  DoKept(1, Get{"/text"});
  DoKept(1, Check{{"/text"}});
  DoKept(1, Wait{{"/never"}});
  DoKept(1, CancelWait{});
  DoKept(1, CountKeys{});
  DoKept(1, ListKeys{});
  DoKept(1, MultiGet{{"/text"}});
  DoKept(1, MultiSet{});
  DoKept(1, Ping{7});
  DoKept(1, QueuePop{"/text"});
  DoKept(1, QueueLength{"/text"});
  DoKept(1, DeleteKey{"/never"});
  DoKept(1, CompareSet{"/text", "y", "z"});
  DoKept(1, CompareSet{"/never", "y", "z"});
  EXPECT_THAT(DoKept(1, Add{"/text", 1}), ElementsAre("1: closed"));
  EXPECT_THAT(records_, IsEmpty());
}

TEST_F(StoreRecordsTest, AnAppendIsRecordedByWhatItAdds) {
  DoKept(1, Set{"/a", std::string(1000, 'x')});
  records_.clear();
  DoKept(1, Append{"/a", "y"});
  ASSERT_EQ(records_.size(), 1u);
  EXPECT_EQ(*std::get<record::ValueAppended>(records_[0]).more, "y");
}

TEST_F(StoreRecordsTest, AStoreThatDoesNotKeepRecordsNothing) {
  Store store({});
  Effects effects;
  store.Connected(ConnectionId(1), "host:1");
  store.Handle(Time(), ConnectionId(1), Set{"/a", "1"}, effects);
  store.Handle(Time(), ConnectionId(1), Append{"/a", "1"}, effects);
  store.Handle(Time(), ConnectionId(1), QueuePush{"/a", "1"}, effects);
  store.Handle(Time(), ConnectionId(1), QueuePop{"/a"}, effects);
  store.Handle(Time(), ConnectionId(1), DeleteKey{"/a"}, effects);
  store.Clear(effects);
  EXPECT_THAT(effects.records, IsEmpty());
}

TEST_F(StoreRecordsTest, ForgettingAllIsRecorded) {
  DoKept(1, Set{"/k0", "a"});
  DoKept(1, QueuePush{"/k1", "q"});
  Effects effects;
  store_.Clear(effects);
  records_.insert(records_.end(), effects.records.begin(), effects.records.end());
  EXPECT_EQ(Shown(*Made(records_)), Shown(store_));
  EXPECT_EQ(store_.size(), 0u);
}

TEST_F(StoreRecordsTest, ForgettingTheGroupsKeysIsRecorded) {
  DoKept(1, Set{"/k0", "a"});
  DoKept(1, Set{"/default_pg/0/a", "b"});
  DoKept(1, Add{"/default_pg/0/n", 7});
  Effects effects;
  EXPECT_EQ(store_.ClearGroup(effects), 2u);
  EXPECT_EQ(effects.records.size(), 1u) << "whatever the group's size";
  records_.insert(records_.end(), effects.records.begin(), effects.records.end());
  EXPECT_EQ(Shown(*Made(records_)), Shown(store_));
  EXPECT_EQ(store_.size(), 1u);
  EXPECT_EQ(store_.bytes(), 4u);
  EXPECT_EQ(store_.ClearGroup(effects), 0u);
}

TEST_F(StoreRecordsTest, ANewStoreBeginsEmpty) {
  const auto value = std::make_shared<const std::string>("v");
  const auto made = Made({record::Opened{.attempt = 1}, record::Used{},
                          record::KeySet{"/k0", value}, record::QueuePushed{"/k1", value},
                          record::Opened{.attempt = 2}, record::KeySet{"/k2", value}});
  EXPECT_EQ(made->size(), 1u);
  EXPECT_EQ(made->bytes(), 4u);
}

TEST_F(StoreRecordsTest, WhatCannotFollowIsRefused) {
  Store store(options_);
  EXPECT_FALSE(store.Apply(record::KeyDeleted{"/a"}).ok());
  EXPECT_FALSE(store.Apply(record::QueuePopped{"/a"}).ok());
}

// Random histories: the records, and a snapshot at any place with the records behind it, make the
// same store.
TEST_F(StoreRecordsTest, AnyHistoryIsMadeAgain) {
  std::mt19937 random(8);
  const auto pick = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::vector<Record> from_snapshot;
  for (int turn = 0; turn < 3000; ++turn) {
    const std::string key = absl::StrCat("/k", pick(6));
    const std::string other = absl::StrCat("/k", pick(6));
    const std::string value = absl::StrCat(pick(100));
    const uint64_t client = 1 + pick(3);
    const std::vector<Command> commands = {Set{key, value},
                                           CompareSet{key, other, value},
                                           Add{key, pick(9) - int64_t{4}},
                                           DeleteKey{key},
                                           Append{key, value},
                                           MultiSet{{{key, value}, {other, value}}},
                                           QueuePush{key, value},
                                           QueuePop{key},
                                           Barrier{key, pick(7) - int64_t{3}},
                                           Wait{{key, other}},
                                           CancelWait{}};
    const size_t before = records_.size();
    // Whoever waits is shown, however small the numbers are.
    ASSERT_EQ(store_.View().waits > 0, store_.View().keys_awaited > 0);
    DoKept(client, commands[pick(static_cast<uint32_t>(commands.size()))]);
    if (turn % 700 == 0) {
      from_snapshot = store_.Snapshot();
    } else {
      from_snapshot.insert(from_snapshot.end(), records_.begin() + static_cast<ptrdiff_t>(before),
                           records_.end());
    }
    if (turn % 100 != 0) continue;
    const auto shown = Shown(store_);
    ASSERT_EQ(Shown(*Made(records_)), shown) << "after turn " << turn;
    ASSERT_EQ(Shown(*Made(from_snapshot)), shown) << "after turn " << turn;
  }
}

}  // namespace
}  // namespace lockstep::tcpstore

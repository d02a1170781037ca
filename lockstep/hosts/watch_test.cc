#include "lockstep/hosts/watch.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace lockstep::hosts {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = HostWatch::News::Kind;

// Hosts that ping as agents do; the test says who is silent.
class WatchTest : public ::testing::Test {
 protected:
  void Join(uint64_t id, OnPartition policy = OnPartition::kStop) {
    ASSERT_EQ(watch_.Join(now_, HostId(id),
                          {.name = absl::StrCat("h", id), .version = "1", .policy = policy}),
              HostWatch::Joined::kYes);
    speaks_.insert(id);
  }

  void Pass(absl::Duration how_long) {
    for (const Time until = now_ + how_long; now_ < until;) {
      now_ = now_ + kTickEvery;
      if (++ticks_ % 5 == 0) {
        for (const uint64_t id : speaks_) Ping1(id);
      }
      for (const HostWatch::News& news : watch_.Tick(now_)) {
        news_.push_back(absl::StrCat(news.kind == Kind::kLost      ? "lost "
                                     : news.kind == Kind::kStopped ? "stopped "
                                                                   : "forgotten ",
                                     news.name));
      }
    }
  }

  void Ping1(uint64_t id) {
    const HostContact::Table table = watch_.TableOf(HostId(id));
    Ping ping{.from = HostId(id),
              .to = kServer,
              .number = ++numbers_[id],
              .heard_ago = hears_.contains(id) ? absl::Milliseconds(500) : absl::InfiniteDuration(),
              .version = table.version,
              .counted = static_cast<uint32_t>(table.peers.size() + 2)};
    for (const auto& [lost, since] : let_go_on_) ping.lost.push_back({HostId(lost), now_ - since});
    const auto ack = watch_.Handle(now_, ping);
    if (ack && !ack->lost) hears_.insert(id);
    if (ack) told_[id] = *ack;
  }

  Time now_ = Time::FromNanoseconds(1'000'000'000);
  HostWatch watch_{1ULL << 40, Terms{}};
  int ticks_ = 0;
  std::set<uint64_t> speaks_;
  std::set<uint64_t> hears_;
  std::map<uint64_t, uint64_t> numbers_;
  std::map<uint64_t, Ack> told_;
  std::map<uint64_t, Time> let_go_on_;  // what peers say of lost hosts
  std::vector<std::string> news_;
};

TEST_F(WatchTest, ASilentHostIsLostWhenItsTimeIsUp) {
  for (const uint64_t id : {1, 2, 3}) Join(id);
  Pass(absl::Seconds(5));
  speaks_.erase(3);
  Pass(absl::Milliseconds(2900));
  EXPECT_THAT(news_, IsEmpty());
  Pass(absl::Milliseconds(600));
  EXPECT_THAT(news_, ElementsAre("lost h3"));
  EXPECT_EQ(watch_.Join(now_, HostId(3), {}), HostWatch::Joined::kLost);
}

TEST_F(WatchTest, ItHasStoppedWhenMostSayThatTheyLetItGoOnNoMore) {
  for (const uint64_t id : {1, 2, 3}) Join(id);
  Pass(absl::Seconds(5));
  speaks_.erase(3);
  const Time silent = now_;
  Pass(absl::Seconds(4));
  ASSERT_THAT(news_, ElementsAre("lost h3"));
  EXPECT_THAT(told_[1].gone, ElementsAre(HostId(3)));
  // Of four, three are more than half: the server and both peers.
  let_go_on_[3] = silent + absl::Milliseconds(2500);
  Pass(absl::Seconds(1));
  EXPECT_THAT(news_, ElementsAre("lost h3"));
  Pass(absl::Seconds(2));
  EXPECT_THAT(news_, ElementsAre("lost h3", "stopped h3"));
}

TEST_F(WatchTest, ALostHostIsToldSoWhenItSpeaksAgain) {
  for (const uint64_t id : {1, 2, 3}) Join(id);
  Pass(absl::Seconds(5));
  speaks_.erase(3);
  Pass(absl::Seconds(4));
  const auto ack = watch_.Handle(now_, Ping{.from = HostId(3), .to = kServer, .number = 1000});
  ASSERT_TRUE(ack);
  EXPECT_TRUE(ack->lost);
}

TEST_F(WatchTest, NobodyIsLostWhileTheServerHearsFew) {
  for (const uint64_t id : {1, 2, 3}) Join(id);
  Pass(absl::Seconds(5));
  const std::set<uint64_t> all = std::exchange(speaks_, {});
  Pass(absl::Seconds(60));
  EXPECT_THAT(news_, IsEmpty());
  // When it hears most again, the others have as long as ever.
  speaks_ = {1, 2};
  Pass(absl::Seconds(3));
  EXPECT_THAT(news_, IsEmpty());
  Pass(absl::Seconds(2));
  EXPECT_THAT(news_, ElementsAre("lost h3"));
}

TEST_F(WatchTest, WhoIsOneOfTwoIsNotLost) {
  Join(1);
  Pass(absl::Seconds(5));
  speaks_.clear();
  Pass(absl::Seconds(60));
  EXPECT_THAT(news_, IsEmpty());
}

TEST_F(WatchTest, AServerThatDidNotLookGivesNobodyUp) {
  for (const uint64_t id : {1, 2, 3}) Join(id);
  Pass(absl::Seconds(5));
  now_ = now_ + absl::Seconds(30);  // stopped
  Pass(absl::Seconds(5));
  EXPECT_THAT(news_, IsEmpty());
}

TEST_F(WatchTest, AHostThatOnlySpeaksIsLost) {
  for (const uint64_t id : {1, 2, 3}) Join(id);
  Pass(absl::Seconds(5));
  const uint64_t version = watch_.TableOf(HostId(3)).version;
  for (int i = 0; i < 20; ++i) {
    speaks_ = {1, 2};
    Pass(absl::Milliseconds(500));
    static_cast<void>(watch_.Handle(now_, Ping{.from = HostId(3),
                                               .to = kServer,
                                               .number = ++numbers_[3],
                                               .heard_ago = absl::Milliseconds(500 * (i + 1)),
                                               .version = version,
                                               .counted = 4}));
  }
  EXPECT_THAT(news_, ElementsAre("lost h3"));
}

TEST_F(WatchTest, WhoWaitsIsNotLost) {
  Join(1);
  Join(2);
  Join(3, OnPartition::kWait);
  Pass(absl::Seconds(5));
  speaks_.erase(3);
  Pass(absl::Seconds(60));
  EXPECT_THAT(news_, IsEmpty());
}

TEST_F(WatchTest, WhoLeftIsNotLostAndNoPeer) {
  for (const uint64_t id : {1, 2, 3}) Join(id);
  Pass(absl::Seconds(5));
  speaks_.erase(3);
  watch_.Leave(HostId(3));
  Pass(absl::Seconds(60));
  EXPECT_THAT(news_, IsEmpty());
  EXPECT_THAT(watch_.TableOf(HostId(1)).peers, ElementsAre(HostId(2)));
}

TEST_F(WatchTest, AHostIsAPeerWhenItHasPinged) {
  Join(1);
  Join(2);
  EXPECT_THAT(watch_.TableOf(HostId(1)).peers, IsEmpty());
  Pass(absl::Seconds(1));
  EXPECT_THAT(watch_.TableOf(HostId(1)).peers, ElementsAre(HostId(2)));
}

TEST_F(WatchTest, WhoPingsLastHearsOfThoseBeforeIt) {
  Join(1);
  Join(2);
  const uint64_t first = watch_.TableOf(HostId(2)).version;
  Ping1(1);
  // The answer to the first ping names another version of the table.
  const auto ack = watch_.Handle(now_, Ping{.from = HostId(2), .to = kServer, .number = 1});
  ASSERT_TRUE(ack);
  EXPECT_NE(ack->version, first);
  EXPECT_THAT(watch_.TableOf(HostId(2)).peers, ElementsAre(HostId(1)));
}

TEST_F(WatchTest, OfManyEachHasSomeAsPeers) {
  for (uint64_t id = 1; id <= 200; ++id) Join(id);
  Pass(absl::Seconds(2));
  std::map<HostId, int> named;
  for (uint64_t id = 1; id <= 200; ++id) {
    const auto peers = watch_.TableOf(HostId(id)).peers;
    EXPECT_EQ(peers.size(), kPeersMax);
    for (const HostId each : peers) {
      EXPECT_NE(each, HostId(id));
      ++named[each];
    }
  }
  // Whoever is my peer has me as its own.
  for (const auto& [id, count] : named) EXPECT_EQ(count, static_cast<int>(kPeersMax));
}

TEST_F(WatchTest, WhatCannotBeIsBelievedOfNoHost) {
  for (const uint64_t id : {1, 2, 3}) Join(id);
  Pass(absl::Seconds(5));
  // It says that it counts more hosts than there are, and falls silent.
  static_cast<void>(watch_.Handle(now_, Ping{.from = HostId(3),
                                             .to = kServer,
                                             .number = ++numbers_[3],
                                             .heard_ago = absl::ZeroDuration(),
                                             .version = watch_.TableOf(HostId(3)).version,
                                             .counted = 1'000'000}));
  speaks_.erase(3);
  Pass(absl::Seconds(60));
  EXPECT_THAT(news_, IsEmpty());
}

TEST_F(WatchTest, WhoIsSilentForeverIsForgotten) {
  Join(1);
  Join(2);
  Pass(absl::Seconds(5));
  speaks_.clear();
  Pass(absl::Minutes(31));
  EXPECT_THAT(news_, ElementsAre("forgotten h1", "forgotten h2"));
  EXPECT_TRUE(watch_.empty());
}

TEST_F(WatchTest, TheViewHasTheLostAndTheSilentFirst) {
  for (const uint64_t id : {3, 1, 2, 4}) Join(id);
  Pass(absl::Seconds(5));
  speaks_.erase(2);
  Pass(absl::Seconds(4));
  speaks_.erase(3);
  Pass(absl::Seconds(1));
  const auto views = watch_.Look(now_, 2);
  EXPECT_EQ(watch_.size(), 4);
  ASSERT_EQ(views.size(), 2);
  EXPECT_EQ(views[0].info.name, "h2");
  EXPECT_TRUE(views[0].lost);
  EXPECT_GE(*views[0].unheard, absl::Seconds(3));
  EXPECT_EQ(views[1].info.name, "h3");
  EXPECT_FALSE(views[1].lost);
  EXPECT_EQ(watch_.Look(now_).size(), 4);
}

}  // namespace
}  // namespace lockstep::hosts

#include "lockstep/hosts/contact.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace lockstep::hosts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr HostId kSelf(1);

// A host whose others answer at once, unless they are silent.
class ContactTest : public ::testing::Test {
 protected:
  ContactTest() { contact_.SetTable({.version = 1, .peers = {HostId(2), HostId(3)}}); }

  void Pass(absl::Duration how_long) {
    for (const Time until = now_ + how_long; now_ < until;) {
      now_ = now_ + kTickEvery;
      for (const Ping& ping : contact_.Tick(now_).pings) {
        if (ping.to == kServer) told_.push_back(ping);
        if (silent_[ping.to]) continue;
        contact_.Handle(now_, Ack{.from = ping.to,
                                  .to = kSelf,
                                  .number = ping.number,
                                  .version = ping.to == kServer ? version_ : 0,
                                  .gone = ping.to == kServer ? gone_ : std::vector<HostId>()});
      }
    }
  }
  bool stops() const { return contact_.stops().has_value(); }

  Time now_ = Time::FromNanoseconds(1'000'000'000);
  HostContact contact_{kSelf, Terms{}, OnPartition::kStop};
  std::map<HostId, bool> silent_;
  std::vector<HostId> gone_;
  uint64_t version_ = 1;
  std::vector<Ping> told_;
};

TEST_F(ContactTest, TellsTheServerWhomItCounts) {
  Pass(absl::Seconds(2));
  EXPECT_EQ(told_.back().version, 1);
  EXPECT_EQ(told_.back().counted, 4);  // itself, the server and two peers
  EXPECT_LT(told_.back().heard_ago, absl::Milliseconds(600));
  EXPECT_EQ(contact_.Look(now_).heard, 4);
}

TEST_F(ContactTest, DoesNotCountWhomItNeverReached) {
  silent_[HostId(2)] = true;
  Pass(absl::Seconds(5));
  EXPECT_EQ(told_.back().counted, 3);
  silent_[HostId(3)] = true;  // which it reached before
  Pass(absl::Seconds(5));
  EXPECT_EQ(told_.back().counted, 3);
}

TEST_F(ContactTest, StopsWhenItIsHeardByLessThanHalf) {
  Pass(absl::Seconds(2));
  silent_[kServer] = silent_[HostId(2)] = silent_[HostId(3)] = true;
  Pass(absl::Milliseconds(2400));
  EXPECT_FALSE(stops());
  Pass(absl::Milliseconds(700));
  EXPECT_THAT(contact_.stops(), Optional(HasSubstr("heard by 0 of 3 others")));
  // Whatever it hears later.
  silent_.clear();
  Pass(absl::Seconds(2));
  EXPECT_TRUE(stops());
}

TEST_F(ContactTest, GoesOnWithHalf) {
  Pass(absl::Seconds(2));
  silent_[kServer] = silent_[HostId(2)] = true;
  Pass(absl::Seconds(60));
  EXPECT_FALSE(stops());
}

TEST_F(ContactTest, AServerThatIsAwayStopsNobody) {
  HostContact alone(kSelf, Terms{}, OnPartition::kStop);
  alone.SetTable({.version = 1, .peers = {}});
  for (const Ping& ping : alone.Tick(now_).pings) {
    alone.Handle(now_, Ack{.from = kServer, .to = kSelf, .number = ping.number, .version = 1});
  }
  for (int i = 0; i < 1000; ++i) alone.Tick(now_ = now_ + kTickEvery);
  EXPECT_FALSE(alone.stops());
}

TEST_F(ContactTest, AnAnswerCountsFromWhenItWasAskedFor) {
  Pass(absl::Seconds(2));
  silent_[kServer] = silent_[HostId(2)] = silent_[HostId(3)] = true;
  told_.clear();
  Pass(absl::Milliseconds(600));
  const uint64_t asked = told_.front().number;
  // Two answers that were under way for long.
  Pass(absl::Milliseconds(1700));
  for (const HostId late : {HostId(2), HostId(3)}) {
    contact_.Handle(now_, Ack{.from = late, .to = kSelf, .number = asked});
  }
  Pass(absl::Milliseconds(600));
  EXPECT_FALSE(stops());
  Pass(absl::Milliseconds(800));
  EXPECT_TRUE(stops());
}

TEST_F(ContactTest, StopsWhenAPeerSaysThatItIsGivenUp) {
  contact_.Handle(now_, Ack{.from = HostId(2), .to = kSelf, .number = 1, .lost = true});
  EXPECT_TRUE(stops());
}

TEST_F(ContactTest, LetsALostPeerGoOnNoMoreAndSaysSinceWhen) {
  Pass(absl::Seconds(2));
  const auto ack = contact_.Handle(now_, Ping{.from = HostId(2), .to = kSelf, .number = 1});
  ASSERT_TRUE(ack);
  EXPECT_FALSE(ack->lost);
  gone_ = {HostId(2), HostId(9)};
  Pass(absl::Seconds(2));
  const auto later = contact_.Handle(now_, Ping{.from = HostId(2), .to = kSelf, .number = 2});
  ASSERT_TRUE(later);
  EXPECT_TRUE(later->lost);
  Pass(absl::Seconds(1));
  ASSERT_EQ(told_.back().lost.size(), 2);
  const LastAnswer& never = told_.back().lost[1];
  EXPECT_EQ(never.host, HostId(9));
  EXPECT_EQ(never.ago, absl::InfiniteDuration());
  const LastAnswer& last = told_.back().lost[0];
  EXPECT_EQ(last.host, HostId(2));
  EXPECT_GE(last.ago, absl::Milliseconds(2400));
  EXPECT_LE(last.ago, absl::Milliseconds(3200));
}

TEST_F(ContactTest, AnswersAPingOnce) {
  EXPECT_TRUE(contact_.Handle(now_, Ping{.from = HostId(2), .to = kSelf, .number = 4}));
  EXPECT_FALSE(contact_.Handle(now_, Ping{.from = HostId(2), .to = kSelf, .number = 4}));
  EXPECT_FALSE(contact_.Handle(now_, Ping{.from = HostId(2), .to = kSelf, .number = 3}));
  EXPECT_FALSE(contact_.Handle(now_, Ping{.from = HostId(2), .to = HostId(5), .number = 9}));
}

TEST_F(ContactTest, WhoWaitsNeverStops) {
  HostContact waits(kSelf, Terms{}, OnPartition::kWait);
  waits.SetTable({.version = 1, .peers = {HostId(2), HostId(3)}});
  for (int i = 0; i < 100; ++i) {
    const auto round = waits.Tick(now_ = now_ + kTickEvery);
    if (i > 20) continue;
    for (const Ping& ping : round.pings) {
      waits.Handle(now_, Ack{.from = ping.to, .to = kSelf, .number = ping.number, .version = 1});
    }
  }
  EXPECT_FALSE(waits.stops());
}

TEST_F(ContactTest, AsksForATableThatHasChanged) {
  Pass(absl::Seconds(2));
  version_ = 2;
  Pass(absl::Seconds(1));
  bool asked = false;
  for (int i = 0; i < 20 && !asked; ++i) asked = contact_.Tick(now_ = now_ + kTickEvery).ask;
  EXPECT_TRUE(asked);
  contact_.SetTable({.version = 2, .peers = {HostId(3)}});
  Pass(absl::Seconds(1));
  EXPECT_EQ(told_.back().version, 2);
  EXPECT_EQ(told_.back().counted, 3);
}

// By the old electorate it is half of four, by the new one less than half of three.
TEST_F(ContactTest, UntilTheServerKnowsAnElectorateBothCount) {
  Pass(absl::Seconds(2));
  silent_[kServer] = silent_[HostId(3)] = true;
  contact_.SetTable({.version = 2, .peers = {HostId(3)}});
  Pass(absl::Milliseconds(3300));
  EXPECT_TRUE(stops());
}

}  // namespace
}  // namespace lockstep::hosts

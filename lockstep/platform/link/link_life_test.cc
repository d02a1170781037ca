#include "lockstep/platform/link/link_life.h"

#include "gtest/gtest.h"

namespace lockstep::link {
namespace {

const Time kStart = Time() + absl::Hours(1);
const LinkOptions kOptions = {};

TEST(LinkLife, GivesUpAGreetingAfterTheHelloTimeout) {
  const LinkLife life(kOptions, kStart);
  EXPECT_TRUE(life.converses());
  EXPECT_EQ(life.NextDue(), kStart + kOptions.hello_timeout);
}

TEST(LinkLife, PingsBeforeItGivesUpAnOpenLink) {
  LinkLife life(kOptions, kStart);
  life.Open(kStart);
  const Time ping = kStart + kOptions.ping_interval;
  EXPECT_EQ(life.NextDue(), ping);
  EXPECT_TRUE(life.IsPingDue(ping));
  EXPECT_FALSE(life.IsSilent(ping));
  const Time silent = kStart + kOptions.silence_timeout;
  life.Sent(silent);
  EXPECT_EQ(life.NextDue(), silent);
  EXPECT_TRUE(life.IsSilent(silent));
  life.Heard(silent);
  EXPECT_FALSE(life.IsSilent(silent));
}

TEST(LinkLife, BlamesNobodyForATimeInWhichItSleptItself) {
  LinkLife life(kOptions, kStart);
  life.Open(kStart);
  life.BeganWriting(kStart);
  const Time due = life.NextDue();
  const Time woke = due + absl::Minutes(1);
  EXPECT_TRUE(life.IsWriteLate(woke));
  life.Woke(woke, due);
  EXPECT_FALSE(life.IsSilent(woke));
  EXPECT_FALSE(life.IsWriteLate(woke));
  EXPECT_FALSE(life.TakeLook(woke));
}

TEST(LinkLife, LooksAtUnfinishedMessagesTwiceInAMessageTimeout) {
  LinkLife life(kOptions, kStart);
  const Time look = kStart + kOptions.message_timeout / 2;
  EXPECT_FALSE(life.TakeLook(look - absl::Milliseconds(1)));
  EXPECT_TRUE(life.TakeLook(look));
  EXPECT_FALSE(life.TakeLook(look));
}

TEST(LinkLife, KeepsTheReasonForWhichItBeganToClose) {
  LinkLife life(kOptions, kStart);
  life.BeginClosing(kStart, absl::UnavailableError("drained"));
  EXPECT_FALSE(life.converses());
  EXPECT_EQ(life.NextDue(), kStart + absl::Seconds(1));
  life.End(absl::UnavailableError("broken"));
  EXPECT_EQ(life.why().message(), "drained");
  EXPECT_TRUE(life.NextDue().is_infinite());
}

}  // namespace
}  // namespace lockstep::link

#include "lockstep/launch/user_signals.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Notice = UserSignals::Notice;

constexpr Time kNow = Time::FromNanoseconds(1'000'000'000);

TEST(UserSignals, TheFirstOfANoticeSignalIsOneAndALaterOneIsPassedOn) {
  SupervisorOptions options;
  options.notice_signals = {SIGTERM};
  UserSignals signals(options);
  EXPECT_EQ(signals.TakeAsNotice(kNow, SIGINT), Notice::kNo);
  EXPECT_EQ(signals.TakeAsNotice(kNow, SIGTERM), Notice::kFirst);
  EXPECT_EQ(signals.HeedUntil(), kNow + options.notice_ack_timeout);
  EXPECT_EQ(signals.TakeAsNotice(kNow, SIGTERM), Notice::kRepeated);
  EXPECT_EQ(signals.TakeAsNotice(kNow + absl::Seconds(1), SIGTERM), Notice::kNo);
  EXPECT_TRUE(signals.HeedUntil().is_infinite());
  EXPECT_THAT(signals.PassOn(), IsEmpty());
}

TEST(UserSignals, ANoticeIsPassedOnOnce) {
  SupervisorOptions options;
  options.notice_signals = {SIGTERM};
  UserSignals signals(options);
  signals.TakeAsNotice(kNow, SIGTERM);
  EXPECT_THAT(signals.PassOn(), ElementsAre(SIGTERM));
  EXPECT_THAT(signals.PassOn(), IsEmpty());
}

TEST(UserSignals, ASecondInterruptWithinTheWindowKills) {
  const SupervisorOptions options;
  UserSignals signals(options);
  EXPECT_FALSE(signals.Interrupt(kNow).has_value());
  const Time late = kNow + kSecondInterruptWindow + absl::Nanoseconds(1);
  EXPECT_FALSE(signals.Interrupt(late).has_value());
  EXPECT_EQ(signals.Interrupt(late + kSecondInterruptWindow), late);
}

}  // namespace
}  // namespace lockstep::launch

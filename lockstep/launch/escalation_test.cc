#include "lockstep/launch/escalation.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr MemberIndex kFirst(0);

class EscalationTest : public testing::Test {
 protected:
  EscalationTest() : processes_("task", 0, 1), escalation_(options_) {
    Effects out;
    processes_.Take(now_, ProcessStarted{kFirst, 100}, out);
  }
  std::vector<SignalGroup> Pass(absl::Duration duration) {
    now_ = now_ + duration;
    Effects out;
    gave_up_ = escalation_.Advance(now_, /*to_restart=*/false, processes_, out);
    return out.signals;
  }

  Time now_ = Time::FromNanoseconds(1'000'000'000);
  SupervisorOptions options_;
  ProcessTable processes_;
  Escalation escalation_;
  bool gave_up_ = false;
};

TEST_F(EscalationTest, NothingIsDueBeforeItHasBegun) {
  EXPECT_TRUE(escalation_.deadline().is_infinite());
  EXPECT_THAT(Pass(absl::Hours(1)), IsEmpty());
}

TEST_F(EscalationTest, ItGoesFromTheGraceToSigtermToSigkillAndEnds) {
  escalation_.GraceUntil(now_ + absl::Seconds(1));
  EXPECT_TRUE(escalation_.in_grace());
  EXPECT_THAT(Pass(absl::Seconds(1)),
              ElementsAre(SignalGroup{kFirst, SIGTERM}, SignalGroup{kFirst, SIGCONT}));
  EXPECT_FALSE(escalation_.before_sigterm());
  EXPECT_THAT(Pass(options_.terminate_grace), ElementsAre(SignalGroup{kFirst, SIGKILL}));
  EXPECT_THAT(Pass(options_.kill_grace), IsEmpty());
  EXPECT_TRUE(gave_up_);
  EXPECT_TRUE(escalation_.deadline().is_infinite());
  EXPECT_TRUE(processes_.At(kFirst).given_up);
}

TEST_F(EscalationTest, AGraceThatIsHeldEndsAsItWasMeantOnceItIsNot) {
  const Time meant = now_ + absl::Milliseconds(200);
  escalation_.GraceUntil(meant);
  escalation_.HoldUntil(now_ + absl::Seconds(1));
  EXPECT_EQ(escalation_.deadline(), now_ + absl::Seconds(1));
  escalation_.Unhold(now_);
  EXPECT_EQ(escalation_.deadline(), meant);
}

TEST_F(EscalationTest, AShorterGraceCounts) {
  escalation_.GraceUntil(now_ + absl::Seconds(5));
  escalation_.GraceAtMostUntil(now_ + absl::Seconds(9));
  EXPECT_EQ(escalation_.deadline(), now_ + absl::Seconds(5));
  escalation_.GraceAtMostUntil(now_ + absl::Seconds(1));
  EXPECT_EQ(escalation_.deadline(), now_ + absl::Seconds(1));
}

}  // namespace
}  // namespace lockstep::launch

#include "lockstep/launch/server_loss.h"

#include <csignal>

#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

constexpr absl::Duration kExplains = absl::Minutes(1);
constexpr absl::Duration kSurvived = absl::Seconds(3);
constexpr Time kNow = Time::FromNanoseconds(1'000'000'000);

TEST(ServerLoss, ExplainsWhatFailsSoonAfterItUnlessTheProcessSaysOtherwise) {
  ServerLoss loss(kExplains, kSurvived);
  EXPECT_FALSE(loss.Explains(kNow, ""));
  loss.Lose(kNow, "reset");
  EXPECT_TRUE(loss.Explains(kNow, ""));
  EXPECT_TRUE(loss.Explains(kNow, "BrokenPipeError: [Errno 32] Broken pipe"));
  EXPECT_FALSE(loss.Explains(kNow, "ValueError: bad sample"));
  EXPECT_FALSE(loss.Explains(kNow + kExplains + absl::Seconds(1), ""));
}

TEST(ServerLoss, ALinkThatWasMadeAgainExplainsNothingOnceItWasOutlived) {
  ServerLoss loss(kExplains, kSurvived);
  loss.Lose(kNow, "reset");
  loss.Find(kNow);
  EXPECT_TRUE(loss.Explains(kNow, ""));
  EXPECT_FALSE(loss.Explains(kNow + kSurvived, ""));
  loss.Lose(kNow + kSurvived, "reset");
  EXPECT_TRUE(loss.Explains(kNow + kSurvived, ""));
}

TEST(ServerLoss, AnotherAttemptMayFindALinkAgainButNoServerThatEnded) {
  ServerLoss loss(kExplains, kSurvived);
  loss.Lose(kNow, "reset");
  loss.BeginAttempt();
  EXPECT_FALSE(loss.Explains(kNow, ""));
  loss.End(kNow, "the coordinator's server", {0, SIGKILL});
  loss.Lose(kNow, "reset");
  loss.Find(kNow);
  loss.BeginAttempt();
  EXPECT_TRUE(loss.ended());
  EXPECT_TRUE(loss.Explains(kNow + kSurvived, ""));
  EXPECT_EQ(loss.text(),
            "the coordinator's server was killed by SIGKILL although nobody asked it to");
}

}  // namespace
}  // namespace lockstep::launch

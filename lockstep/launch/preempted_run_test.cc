#include "lockstep/launch/preempted_run.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kGrace = absl::Seconds(10);

class PreemptedRunTest : public testing::Test {
 protected:
  PreemptionTold Opened(std::optional<absl::Duration> left = std::nullopt) {
    return {.attempt = 4, .id = 1, .open = true, .near = true, .sources = {"gce"}, .left = left};
  }
  PreemptionTold Ended(const char* outcome, std::optional<absl::Duration> left = std::nullopt) {
    return {.attempt = 4,
            .id = 1,
            .near = true,
            .outcome = outcome,
            .text = "so it is",
            .sources = {"gce"},
            .left = left};
  }

  PreemptedRun run_;
  Time now_ = Time::FromNanoseconds(1'000'000'000'000);
};

TEST_F(PreemptedRunTest, TellsEachStepOfTheStoryOnce) {
  EXPECT_THAT(
      run_.Take(now_, Opened(absl::Seconds(30))),
      ElementsAre("preemption 1 (gce): processes will be taken away in 30s; all save before"));
  PreemptionTold agreed = Opened(absl::Seconds(30));
  agreed.step = 120;
  EXPECT_THAT(run_.Take(now_, agreed), ElementsAre("preemption 1 (gce): all save at step 120"));
  EXPECT_THAT(run_.Take(now_, agreed), IsEmpty());
  PreemptionTold ended = Ended("saved");
  ended.step = 120;
  EXPECT_THAT(run_.Take(now_, ended), ElementsAre("preemption 1 (gce): saved: so it is"));
}

TEST_F(PreemptedRunTest, OneThatEndedBeforeWeLookedIsNotOurs) {
  EXPECT_THAT(run_.Take(now_, Ended("saved")), IsEmpty());
  EXPECT_FALSE(run_.Explains(now_));
  EXPECT_EQ(run_.Summary(), "");
}

TEST_F(PreemptedRunTest, OfALaterAttemptItMayHaveEndedBeforeWeLooked) {
  PreemptedRun after(3);
  EXPECT_THAT(after.Take(now_, Ended("saved")),
              testing::Contains("preemption 1 (gce): saved: so it is"));
  EXPECT_TRUE(after.Interrupted(now_));
  PreemptedRun same(4);
  EXPECT_THAT(same.Take(now_, Ended("saved")), IsEmpty());
  EXPECT_FALSE(same.Explains(now_));
}

TEST_F(PreemptedRunTest, OneThatIsDaysAwayExplainsNothing) {
  PreemptionTold pending = Opened(absl::Hours(48));
  pending.near = false;
  EXPECT_THAT(run_.Take(now_, pending), IsEmpty());
  EXPECT_FALSE(run_.Explains(now_));
}

TEST_F(PreemptedRunTest, ExplainsEndingsForAWhileAfterItsEndOrTheDeath) {
  run_.Take(now_, Opened());
  EXPECT_TRUE(run_.Explains(now_ + absl::Hours(9)));
  run_.Take(now_, Ended("saved"));
  EXPECT_TRUE(run_.Explains(now_ + absl::Minutes(9)));
  EXPECT_FALSE(run_.Explains(now_ + absl::Minutes(11)));

  PreemptedRun known;
  known.Take(now_, Opened(absl::Hours(1)));
  known.Take(now_, Ended("saved", absl::Hours(1)));
  EXPECT_TRUE(known.Explains(now_ + absl::Minutes(69)));
  EXPECT_FALSE(known.Explains(now_ + absl::Minutes(71)));
}

TEST_F(PreemptedRunTest, WithdrawnOrCancelledItExplainsNothing) {
  run_.Take(now_, Opened());
  run_.Take(now_, Ended("cancelled"));
  EXPECT_FALSE(run_.Explains(now_));

  PreemptedRun other;
  other.Take(now_, Opened());
  PreemptionTold withdrawn = Opened();
  withdrawn.withdrawn = true;
  EXPECT_THAT(other.Take(now_, withdrawn), ElementsAre("preemption 1 (gce) was withdrawn"));
  EXPECT_FALSE(other.Explains(now_));
}

TEST_F(PreemptedRunTest, WorkThatEndedAsItShouldIsNotDoneAgain) {
  run_.Take(now_, Opened());
  run_.Take(now_, Ended("finished"));
  EXPECT_TRUE(run_.Explains(now_));
  EXPECT_FALSE(run_.Interrupted(now_));
}

TEST_F(PreemptedRunTest, TheOthersMaySaveFirst) {
  run_.Take(now_, Opened());
  EXPECT_TRUE(run_.OthersUntil(now_, kGrace).is_infinite()) << "it ends by itself";
  const Time first = now_;
  now_ = now_ + absl::Minutes(3);
  run_.Take(now_, Ended("saved"));
  EXPECT_EQ(run_.OthersUntil(first, kGrace), now_ + kGrace);
}

TEST_F(PreemptedRunTest, StockMembersMaySaveUntilTheDeath) {
  run_.Take(now_, Opened(absl::Seconds(100)));
  run_.Take(now_, Ended("synced", absl::Seconds(100)));
  EXPECT_EQ(run_.OthersUntil(now_, kGrace), now_ + absl::Seconds(110));
  PreemptedRun unknown;
  unknown.Take(now_, Opened());
  unknown.Take(now_, Ended("synced"));
  EXPECT_EQ(unknown.OthersUntil(now_, kGrace), now_ + PreemptedRun::kExplains);
}

}  // namespace
}  // namespace lockstep::launch

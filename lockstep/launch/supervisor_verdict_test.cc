// What the supervisor says of processes that others may have failed by.
#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/launch/supervisor_testing.h"

namespace lockstep::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class VerdictTest : public SupervisorFixture {
 protected:
  // Starts `size` processes with the pids 100, 101, ...
  void StartAll(int32_t size) {
    SupervisorOptions options;
    options.size = size;
    supervisor_.emplace(options);
    for (int32_t i = 0; i < size; ++i) Do(ProcessStarted{M(i), 100 + i});
  }
  // A process that ends with nothing left behind.
  Effects End(int32_t index, ExitStatus ending) {
    Do(OutputEnded{M(index)});
    return Do(ProcessEnded{M(index), ending});
  }
};

TEST_F(VerdictTest, ItIsToldOnceThatOneEndedAndTheOthersGoOn) {
  StartAll(4);
  End(1, {0, 0});
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(10));
  now_ = now_ + absl::Seconds(1);
  End(2, {0, 0});
  EXPECT_THAT(Pass(absl::Seconds(9)).sentences,
              ElementsAre("task/1 (pid 101) ended with exit code 0 10.0 s ago, and 2 processes go "
                          "on: if they wait, it may be for that"));
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
}

TEST_F(VerdictTest, OfThoseThatEndTogetherOrAreToldToEndNothingIsSaid) {
  StartAll(2);
  End(0, {0, 0});
  now_ = now_ + absl::Seconds(9);
  EXPECT_EQ(End(1, {0, 0}).exit_code, 0);
  StartAll(2);
  Do(SignalReceived{SIGTERM});
  End(0, {0, 0});
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
  StartAll(2);
  Do(PreemptionTold{.attempt = 1, .id = 1, .open = true, .near = true, .sources = {"gce"}});
  End(0, {0, 0});
  EXPECT_THAT(Pass(absl::Seconds(10)).sentences, IsEmpty()) << "it saved, and the other saves";
}

TEST_F(VerdictTest, WhoHadEndedWellBeforeTheFirstFailureIsToldAtOnceAndInTheTable) {
  StartAll(3);
  now_ = now_ + absl::Seconds(1);
  End(1, {0, 0});
  now_ = now_ + absl::Milliseconds(100);
  const std::string ended =
      "task/1 (pid 101) ended with exit code 0 after 1.0 s, 0.1 s before the first failure: the "
      "others may have needed it";
  EXPECT_THAT(End(0, {1, 0}).sentences,
              ElementsAre(HasSubstr("task/0 (pid 100) ended with exit code 1"), ended));
  const Effects last = End(2, {1, 0});
  EXPECT_THAT(last.sentences,
              ElementsAre(HasSubstr("task/0 (pid 100) ended with exit code 1 after 1.1 s <- the "
                                    "first to fail"),
                          ended, "task/2 (pid 102) ended with exit code 1 after 1.1 s",
                          "failed after 1.1 s, exit code 1"));
}

TEST_F(VerdictTest, OfSeveralThatHadEndedWellTheFirstIsTold) {
  StartAll(4);
  End(2, {0, 0});
  now_ = now_ + absl::Seconds(1);
  End(1, {0, 0});
  EXPECT_THAT(
      End(0, {1, 0}).sentences,
      Contains("task/2 (pid 102) ended with exit code 0 after 0.0 s, 1.0 s before the first "
               "failure: the others may have needed it (1 more had ended with exit code "
               "0)"));
}

TEST_F(VerdictTest, AKilledProcessNeedsNoSuchExplanation) {
  StartAll(3);
  End(1, {0, 0});
  EXPECT_THAT(End(0, {0, SIGKILL}).sentences,
              ElementsAre(HasSubstr("task/0 (pid 100) was killed by SIGKILL")));
  EXPECT_THAT(End(2, {1, 0}).sentences,
              Contains("task/1 (pid 101) ended with exit code 0 after 0.0 s, 0.0 s before the "
                       "first failure"));
}

TEST_F(VerdictTest, TheTableSaysWhoWasStoppedBeforeTheFirstFailure) {
  StartAll(3);
  Do(ProcessStopped{M(1), SIGTSTP});
  Do(ProcessContinued{M(1)});
  Do(ProcessStopped{M(2), SIGSTOP});
  now_ = now_ + absl::Seconds(20);
  End(0, {1, 0});
  Pass(absl::Seconds(10));
  Do(ProcessContinued{M(2)});
  End(1, {0, SIGTERM});
  EXPECT_THAT(
      End(2, {0, SIGTERM}).sentences,
      ElementsAre("task/0 (pid 100) ended with exit code 1 after 20.0 s <- the first to fail",
                  "task/1 (pid 101) was killed by SIGTERM after 30.0 s (sent by lockstep run)",
                  "task/2 (pid 102) was killed by SIGTERM after 30.0 s (sent by lockstep run); it "
                  "was stopped by SIGSTOP 20.0 s before the first failure: the others may have "
                  "waited for it",
                  "failed after 30.0 s, exit code 1"));
}

}  // namespace
}  // namespace lockstep::launch

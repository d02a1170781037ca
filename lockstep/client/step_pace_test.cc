#include "lockstep/client/step_pace.h"

#include "gtest/gtest.h"

namespace lockstep::client {
namespace {

TEST(StepPace, LearnsTheCommonDivisorOfWhatItSees) {
  StepPace pace;
  const Time start = Time::FromNanoseconds(1'000'000'000);
  int64_t step = 3;
  for (const int64_t steps : {20, 30, 20, 50, 30, 20, 30, 20}) {
    pace.Sample(start + absl::Seconds(step), step);
    EXPECT_EQ(pace.stride(), 1) << "there are too few";
    step += steps;
  }
  pace.Sample(start + absl::Seconds(step), step);
  EXPECT_EQ(pace.stride(), 10);
  EXPECT_EQ(pace.step_time(), absl::Seconds(1));
  pace.Sample(start, step - 7);
  EXPECT_EQ(pace.stride(), 10) << "an older step says nothing";
}

}  // namespace
}  // namespace lockstep::client

#include "lockstep/client/effect_acks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::client {
namespace {

using ::testing::Optional;

constexpr Time kStart = Time::FromNanoseconds(1'000'000'000);

TEST(EffectAcks, ReportsUpToTheFirstThatHasNoAnswer) {
  EffectAcks acks(/*batch=*/64, absl::Seconds(1));
  for (const RequestNumber request : {3, 5, 8}) acks.Began(request);
  for (const RequestNumber request : {3, 8}) {
    acks.Over(request);
    acks.Answered(kStart, request);
  }
  EXPECT_THAT(acks.Report(kStart), Optional(4u));
  EXPECT_EQ(acks.Report(kStart), std::nullopt) << "the server knows it";
  acks.Over(5);
  acks.Answered(kStart, 5);
  EXPECT_THAT(acks.Report(kStart), Optional(8u));
}

TEST(EffectAcks, IsDueAnIntervalAfterTheFirstAnswerThatIsNotReported) {
  EffectAcks acks(/*batch=*/64, absl::Seconds(1));
  EXPECT_TRUE(acks.Due().is_infinite());
  acks.Answered(kStart, 1);
  acks.Answered(kStart + absl::Milliseconds(500), 2);
  EXPECT_EQ(acks.Due(), kStart + absl::Seconds(1));
  acks.Report(kStart + absl::Seconds(1));
  EXPECT_TRUE(acks.Due().is_infinite());
}

TEST(EffectAcks, ABatchIsFullAfterSoManyAnswers) {
  EffectAcks acks(/*batch=*/2, absl::Seconds(1));
  acks.Answered(kStart, 1);
  EXPECT_FALSE(acks.batch_full());
  acks.Answered(kStart, 2);
  EXPECT_TRUE(acks.batch_full());
}

}  // namespace
}  // namespace lockstep::client

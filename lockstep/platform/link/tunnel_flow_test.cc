#include "lockstep/platform/link/tunnel_flow.h"

#include "gtest/gtest.h"

namespace lockstep::link {
namespace {

constexpr size_t kWindow = TunnelFlow::kWindow;

TEST(TunnelFlow, SendsAWindowAndThenWaitsForCredit) {
  TunnelFlow flow;
  EXPECT_EQ(flow.MaySend(), kWindow);
  flow.Sent(kWindow - 10);
  EXPECT_EQ(flow.MaySend(), 10u);
  flow.Sent(10);
  EXPECT_EQ(flow.MaySend(), 0u);
  ASSERT_TRUE(flow.Credited(100).ok());
  EXPECT_EQ(flow.MaySend(), 100u);
}

TEST(TunnelFlow, RefusesCreditForWhatWasNotSent) {
  TunnelFlow flow;
  flow.Sent(5);
  EXPECT_TRUE(absl::IsInvalidArgument(flow.Credited(6)));
  EXPECT_TRUE(flow.Credited(5).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(flow.Credited(1)));
}

TEST(TunnelFlow, TakesAWindowAndNoMore) {
  TunnelFlow flow;
  ASSERT_TRUE(flow.Came(kWindow).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(flow.Came(1)));
}

TEST(TunnelFlow, WhatIsTakenButNotCreditedStillFillsTheWindow) {
  TunnelFlow flow;
  ASSERT_TRUE(flow.Came(kWindow).ok());
  EXPECT_EQ(flow.Taken(1), 0u);  // not worth a frame yet
  EXPECT_TRUE(absl::IsInvalidArgument(flow.Came(1)));
  EXPECT_EQ(flow.Taken(kWindow / 2), kWindow / 2 + 1);
  EXPECT_TRUE(flow.Came(kWindow / 2 + 1).ok());
}

TEST(TunnelFlow, CreditsAllWhenNothingWaits) {
  TunnelFlow flow;
  ASSERT_TRUE(flow.Came(3).ok());
  EXPECT_EQ(flow.Taken(3), 3u);
}

TEST(TunnelFlow, IsOverWhenBothDirectionsAre) {
  TunnelFlow flow;
  ASSERT_TRUE(flow.Came(2).ok());
  ASSERT_TRUE(flow.EndInward().ok());
  EXPECT_FALSE(flow.inward_done());  // the local connection does not have it yet
  EXPECT_EQ(flow.Taken(2), 2u);
  EXPECT_TRUE(flow.inward_done());
  EXPECT_FALSE(flow.over());
  flow.EndOutward();
  EXPECT_TRUE(flow.over());
  EXPECT_EQ(flow.MaySend(), 0u);
}

TEST(TunnelFlow, RefusesBytesAndASecondEndAfterTheEnd) {
  TunnelFlow flow;
  ASSERT_TRUE(flow.EndInward().ok());
  EXPECT_TRUE(absl::IsInvalidArgument(flow.Came(1)));
  EXPECT_TRUE(absl::IsInvalidArgument(flow.EndInward()));
}

}  // namespace
}  // namespace lockstep::link

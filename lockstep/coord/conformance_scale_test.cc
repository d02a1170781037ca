// Ten thousand members, counted in effects rather than in time: no event of one member answers
// or tells anybody but those it concerns.
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using lockstep::testing::CoordinatorHarness;
using lockstep::testing::PassedBarrier;
using lockstep::testing::Succeeded;

constexpr int kMembers = 10'000;

TEST(Scale, TenThousandRegisterPassABarrierAndLeave) {
  CoordinatorHarness h({.size = kMembers});

  for (int member = 0; member + 1 < kMembers; ++member) h.Register(member, 1);
  EXPECT_EQ(h.replies(), 0u);
  EXPECT_THAT(h.Reply(h.Register(kMembers - 1, 1)), Succeeded());
  EXPECT_EQ(h.replies(), size_t{kMembers});

  for (int member = 0; member + 1 < kMembers; ++member) h.Arrive(member, "b");
  EXPECT_EQ(h.replies(), size_t{kMembers});
  EXPECT_THAT(h.Reply(h.Arrive(kMembers - 1, "b")), PassedBarrier(0));
  EXPECT_EQ(h.replies(), size_t{2 * kMembers});

  for (int member = 0; member + 1 < kMembers; ++member) h.Leave(member);
  EXPECT_EQ(h.replies(), size_t{2 * kMembers});
  EXPECT_THAT(h.Reply(h.Leave(kMembers - 1)), Succeeded());
  EXPECT_EQ(h.replies(), size_t{3 * kMembers});
}

TEST(Scale, AHeartbeatIsOneEffect) {
  CoordinatorHarness h({.size = kMembers});
  h.RegisterAll(1);

  const size_t before = h.replies();
  const size_t told = h.log().size();

  for (int member = 0; member < kMembers; ++member) h.Heartbeat(member);

  EXPECT_EQ(h.replies(), before + size_t{kMembers});
  EXPECT_EQ(h.log().size(), told);
}

TEST(Scale, OneLossAnswersTenThousandPollsWithOneError) {
  CoordinatorHarness h({.size = kMembers});
  h.RegisterAll(1);
  const std::vector<CallId> polls = h.PollAll();
  const size_t before = h.replies();

  h.Hangup(polls[0]);
  h.Advance(absl::Milliseconds(200));

  EXPECT_EQ(h.replies(), before + size_t{kMembers - 1});
  EXPECT_EQ(h.Reply(polls[1]).error, h.Reply(polls[kMembers - 1]).error) << "shared, not copied";
}

TEST(Scale, NoNoticePerMemberOfABarrier) {
  CoordinatorHarness h({.size = 1000});
  h.RegisterAll(1);
  const size_t before = h.log().size();

  for (int member = 0; member < 1000; ++member) h.Arrive(member, "b");

  EXPECT_LE(h.log().size(), before + 1);
}

}  // namespace
}  // namespace lockstep::coord

#include "lockstep/platform/etcd/election.h"

#include <string>

#include "gtest/gtest.h"
#include "lockstep/platform/etcd/etcd_model.h"

namespace lockstep::etcd {
namespace {

constexpr absl::Duration kTtl = absl::Seconds(3);

class ElectionTest : public ::testing::Test {
 protected:
  Election::Options OptionsOf(const std::string& name, int64_t lease) const {
    return {.layout = layout_, .identity = name, .first_lease = lease, .ttl = kTtl};
  }
  // Asks what the election wants to know, until it wants nothing more now.
  void Ask(Election& election) {
    etcd_.Expire(now_);
    while (const auto request = election.Next(now_)) {
      Election::Answer answer;
      if (const auto* grant = std::get_if<Election::Grant>(&*request)) {
        answer.status = etcd_.GrantLease(now_, grant->lease, grant->ttl);
        answer.ttl = grant->ttl;
      } else if (const auto* renew = std::get_if<Election::Renew>(&*request)) {
        answer.status = etcd_.RenewLease(now_, renew->lease);
      } else if (const auto* revoke = std::get_if<Election::Revoke>(&*request)) {
        answer.status = etcd_.RevokeLease(revoke->lease);
      } else {
        auto result = etcd_.Commit(std::get<Transaction>(*request));
        answer.status = result.status();
        if (result.ok()) answer.result = *std::move(result);
      }
      election.Take(now_, now_, answer);
    }
  }
  void Pass(absl::Duration duration) { now_ = now_ + duration; }

  const Layout layout_ = Layout("test");
  EtcdModel etcd_;
  Time now_ = Time() + absl::Hours(1);
  Election a_ = Election(OptionsOf("a", 100));
  Election b_ = Election(OptionsOf("b", 200));
};

TEST_F(ElectionTest, TheFirstLeadsAndTheOthersKnowIt) {
  Ask(a_);
  Ask(b_);
  EXPECT_EQ(a_.role(), Election::Role::kLeader);
  EXPECT_EQ(b_.role(), Election::Role::kFollower);
  ASSERT_TRUE(b_.leader().has_value());
  EXPECT_EQ(b_.leader()->value, "a");
  EXPECT_EQ(b_.leader()->modified, a_.epoch());
}

TEST_F(ElectionTest, WhoRenewsGoesOnLeading) {
  for (int second = 0; second < 60; ++second) {
    Ask(a_);
    Ask(b_);
    Pass(absl::Seconds(1));
  }
  EXPECT_EQ(a_.role(), Election::Role::kLeader);
  EXPECT_EQ(b_.role(), Election::Role::kFollower);
}

TEST_F(ElectionTest, ALeaderThatIsStoppedIsOverBeforeAnotherOneLeads) {
  Ask(a_);
  Ask(b_);
  const Revision first = a_.epoch();
  // Only b goes on.
  while (b_.role() == Election::Role::kFollower) {
    Pass(absl::Milliseconds(100));
    Ask(b_);
    if (b_.role() == Election::Role::kLeader) break;
    ASSERT_LT(now_, Time() + absl::Hours(1) + 2 * kTtl);
  }
  EXPECT_GT(b_.epoch(), first);
  EXPECT_FALSE(a_.Next(now_).has_value());
  EXPECT_EQ(a_.role(), Election::Role::kOver);
  EXPECT_EQ(a_.why().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ElectionTest, WhoResignsIsFollowedAtOnce) {
  Ask(a_);
  Ask(b_);
  a_.Resign();
  EXPECT_EQ(a_.NextDeadline(), Time());
  Ask(a_);
  EXPECT_EQ(a_.role(), Election::Role::kOver);
  b_.Changed(now_, {.key = layout_.leader(), .created = 0, .modified = etcd_.revision()});
  Ask(b_);
  EXPECT_EQ(b_.role(), Election::Role::kLeader);
}

TEST_F(ElectionTest, TheKeyOfTheDeadIsTakenButNotThatOfAnother) {
  Ask(a_);
  Ask(b_);
  b_.Died(now_, a_.epoch() + 1);
  Ask(b_);
  EXPECT_EQ(b_.role(), Election::Role::kFollower);
  b_.Died(now_, a_.epoch());
  Ask(b_);
  EXPECT_EQ(b_.role(), Election::Role::kFollower) << "it has only begun";
  Pass(absl::Milliseconds(200));
  b_.Died(now_, a_.epoch());
  Ask(b_);
  EXPECT_EQ(b_.role(), Election::Role::kLeader);
  EXPECT_GT(b_.epoch(), a_.epoch());
}

TEST_F(ElectionTest, NewsThatComeDuringALookAreNotForgotten) {
  const auto answer = [&](const std::optional<Election::Request>& asked) {
    const auto result = etcd_.Commit(std::get<Transaction>(*asked));
    return Election::Answer{.status = result.status(), .result = *result};
  };
  Ask(a_);
  Ask(b_);
  // A look finds the leader, which dies before the answer is here.
  Pass(absl::Seconds(1));
  ASSERT_TRUE(std::holds_alternative<Election::Renew>(*b_.Next(now_)));
  b_.Take(now_, now_, {.status = etcd_.RenewLease(now_, 200)});
  const auto look = b_.Next(now_);
  const Election::Answer found = answer(look);
  b_.Died(now_, a_.epoch());
  b_.Take(now_, now_, found);
  Ask(b_);
  EXPECT_EQ(b_.role(), Election::Role::kLeader);
  // Or resigns.
  Election c(OptionsOf("c", 300));
  Ask(c);
  Pass(absl::Seconds(1));
  c.Take(now_, now_, {.status = (c.Next(now_), etcd_.RenewLease(now_, 300))});
  const auto next = c.Next(now_);
  const Election::Answer stale = answer(next);
  etcd_.RevokeLease(200).IgnoreError();
  c.Changed(now_, {.key = layout_.leader(), .created = 0, .modified = etcd_.revision()});
  c.Take(now_, now_, stale);
  Ask(c);
  EXPECT_EQ(c.role(), Election::Role::kLeader);
}

TEST_F(ElectionTest, SeizuresBecomeRare) {
  Ask(a_);
  Ask(b_);
  int seizures = 0;
  // Whoever dies, another one is faster.
  for (int round = 0; round < 200; ++round) {
    const auto led = etcd_.Commit({.then = {Put{.key = layout_.leader(), .value = "c"}}});
    Ask(b_);
    b_.Changed(now_,
               {.key = layout_.leader(), .value = "c", .created = 1, .modified = led->revision});
    Pass(absl::Milliseconds(200));
    Ask(b_);
    b_.Died(now_, led->revision);
    if (b_.NextDeadline() <= now_) ++seizures;
    etcd_.Commit({.then = {Put{.key = layout_.leader(), .value = "d"}}}).IgnoreError();
    Ask(b_);
    ASSERT_EQ(b_.role(), Election::Role::kFollower);
    Pass(absl::Milliseconds(100));
  }
  // At 0, 2, 6, 14, 30 seconds.
  EXPECT_EQ(seizures, 5);
}

TEST_F(ElectionTest, AClaimWithoutAnAnswerIsRecognised) {
  ASSERT_TRUE(std::holds_alternative<Election::Grant>(*a_.Next(now_)));
  etcd_.GrantLease(now_, 100, kTtl).IgnoreError();
  a_.Take(now_, now_, {.status = absl::OkStatus(), .ttl = kTtl});
  const auto claim = a_.Next(now_);
  const auto result = etcd_.Commit(std::get<Transaction>(*claim));
  a_.Take(now_, now_, {.status = absl::DeadlineExceededError("lost")});
  EXPECT_EQ(a_.role(), Election::Role::kFollower);
  Pass(absl::Milliseconds(100));
  Ask(a_);
  EXPECT_EQ(a_.role(), Election::Role::kLeader);
  EXPECT_EQ(a_.epoch(), result->revision);
}

TEST_F(ElectionTest, ALeaderHearsThatItWasReplaced) {
  Ask(a_);
  a_.Changed(now_,
             {.key = layout_.leader(), .value = "b", .created = 1, .modified = a_.epoch() - 1});
  EXPECT_EQ(a_.role(), Election::Role::kLeader) << "that was before it led";
  a_.Changed(now_,
             {.key = layout_.leader(), .value = "b", .created = 1, .modified = a_.epoch() + 1});
  EXPECT_EQ(a_.role(), Election::Role::kOver);
}

TEST_F(ElectionTest, AStandbyWhoseLeaseEndedGetsANewOne) {
  Ask(a_);
  Ask(b_);
  Pass(absl::Hours(1));
  Ask(b_);
  EXPECT_EQ(b_.role(), Election::Role::kLeader);
}

}  // namespace
}  // namespace lockstep::etcd

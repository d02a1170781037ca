#include "lockstep/sim/network.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NetworkTest : public ::testing::Test {
 protected:
  NetworkTest() {
    scenario_.delay_min = absl::Milliseconds(1);
    scenario_.delay_max = absl::Milliseconds(2);
    network_ = std::make_unique<Network>(
        schedule_, Random(1), scenario_,
        [this](const coord::Event& event) { at_server_.push_back(event); });
    peer_ = network_->Join();
  }

  CallId Send(Time deadline = Time::Infinite()) {
    return network_->Send(peer_, coord::TryGetKey{.key = "k"}, deadline,
                          [this](const Outcome& outcome) { endings_.push_back(outcome.ending); });
  }
  void Run(absl::Duration duration) {
    const Time end = schedule_.now() + duration;
    while (schedule_.RunNext(end)) {
    }
  }
  size_t Left() const {
    size_t left = 0;
    for (const coord::Event& event : at_server_) {
      left += std::holds_alternative<coord::CallLeft>(event);
    }
    return left;
  }

  Schedule schedule_;
  Scenario scenario_;
  std::vector<coord::Event> at_server_;
  std::unique_ptr<Network> network_;
  PeerId peer_ = 0;
  std::vector<Ending> endings_;
};

TEST_F(NetworkTest, ACallArrivesAndItsAnswerComesBackOnce) {
  const CallId call = Send();
  Run(absl::Seconds(1));
  ASSERT_EQ(at_server_.size(), 1u);
  EXPECT_EQ(RequestCall(at_server_[0]), call);

  network_->Answer({.call = call});
  network_->Answer({.call = call});
  Run(absl::Seconds(1));

  EXPECT_THAT(endings_, ElementsAre(Ending::kAnswered));
}

TEST_F(NetworkTest, ADeadlineEndsTheCallAndTheServerIsTold) {
  Send(schedule_.now() + absl::Milliseconds(100));
  Run(absl::Seconds(1));

  EXPECT_THAT(endings_, ElementsAre(Ending::kDeadline));
  EXPECT_EQ(Left(), 1u);
}

TEST_F(NetworkTest, ABrokenConnectionEndsEveryCallOnBothSides) {
  Send();
  Send();
  Run(absl::Seconds(1));

  network_->Break(peer_);
  Run(absl::Seconds(1));

  EXPECT_THAT(endings_, ElementsAre(Ending::kBroken, Ending::kBroken));
  EXPECT_EQ(Left(), 2u);
}

TEST_F(NetworkTest, WhatIsCutOffArrivesWhenItIsHealed) {
  network_->CutOff(peer_, schedule_.now() + absl::Seconds(10));
  Send();

  Run(absl::Seconds(9));
  EXPECT_THAT(at_server_, IsEmpty());
  Run(absl::Seconds(2));
  EXPECT_EQ(at_server_.size(), 1u);
}

TEST_F(NetworkTest, AStoppedProcessTakesItsAnswerWhenItContinues) {
  const CallId call = Send();
  Run(absl::Seconds(1));
  network_->Stop(peer_);
  network_->Answer({.call = call});

  Run(absl::Seconds(1));
  EXPECT_THAT(endings_, IsEmpty());
  network_->Continue(peer_);
  EXPECT_THAT(endings_, ElementsAre(Ending::kAnswered));
}

TEST_F(NetworkTest, ADeadProcessTakesNothingAndTheServerIsTold) {
  const CallId call = Send();
  Run(absl::Seconds(1));
  network_->Die(peer_, /*silently=*/false);
  Run(absl::Seconds(1));
  network_->Answer({.call = call});
  Run(absl::Seconds(1));

  EXPECT_THAT(endings_, IsEmpty());
  EXPECT_EQ(Left(), 1u);
}

TEST_F(NetworkTest, OfAVanishedProcessTheServerIsToldOnlyWhenItIsNoticed) {
  Send();
  Run(absl::Seconds(1));
  network_->Die(peer_, /*silently=*/true);

  Run(absl::Hours(1));
  EXPECT_EQ(Left(), 0u);
  network_->NoticeVanished();
  Run(absl::Seconds(1));
  EXPECT_EQ(Left(), 1u);
}

TEST(Schedule, RunsInOrderOfTimeAndThenOfScheduling) {
  Schedule schedule;
  std::vector<int> order;
  schedule.After(absl::Seconds(2), [&] { order.push_back(3); });
  schedule.After(absl::Seconds(1), [&] {
    order.push_back(1);
    schedule.After(absl::ZeroDuration(), [&] { order.push_back(2); });
  });
  schedule.After(absl::Seconds(2), [&] { order.push_back(4); });

  while (schedule.RunNext(Time::Infinite())) {
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
}

TEST(Random, IsTheSameEverywhere) {
  Random random(42);
  EXPECT_EQ(random.Next(), 13679457532755275413u);
  EXPECT_EQ(random.Next(), 2949826092126892291u);
}

}  // namespace
}  // namespace lockstep::sim

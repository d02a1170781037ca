// Who lists the files of a dataset, and what happens when that takes long.
#include <algorithm>
#include <string>

#include "gtest/gtest.h"
#include "lockstep/data/dispatch/dispatch_harness.h"

namespace lockstep::dispatch {
namespace {

constexpr absl::Duration kResolveTimeout = absl::Minutes(5);

// Two workers that live on, and an iteration whose files nobody has listed.
class Resolve : public testing::Test {
 protected:
  // Which of the two is told to list the files now; 0: none, or both.
  uint64_t Resolver() {
    uint64_t found = 0;
    for (const uint64_t worker : {7, 8}) {
      const auto orders = service_.Get<WorkerOrders>(service_.PollWorker(worker));
      if (std::count(orders.resolve.begin(), orders.resolve.end(), dataset_) == 0) continue;
      if (found != 0) return 0;
      found = worker;
    }
    return found;
  }
  void Pass(absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= absl::Seconds(5)) {
      service_.Pass(std::min(time, absl::Seconds(5)));
      Resolver();
      service_.Poll(opened_);
    }
  }
  std::string WaitsFor() { return service_.Assigned(opened_).waits_for; }

  Service service_{100, {.resolve_timeout = kResolveTimeout}};
  const DatasetId dataset_ = service_.Register("files", "", /*needs_manifest=*/true);
  IterationOpened opened_;

  void SetUp() override {
    opened_ = service_.Get<IterationOpened>(
        service_.Open({.name = "train", .dataset = dataset_}, "consumer"));
  }
};

TEST_F(Resolve, NobodyIsThereToListTheFiles) {
  EXPECT_EQ(WaitsFor(), "a worker that lists the dataset's files: there is none");
}

TEST_F(Resolve, WhoListsThemIsNamedWithTheTimeSince) {
  const uint64_t first = Resolver();
  ASSERT_NE(first, 0U);
  Pass(absl::Seconds(70));
  const std::string expected = "the worker at host:" + std::to_string(first) +
                               ", which lists the dataset's files, for 1m10s now";
  EXPECT_EQ(WaitsFor(), expected);
  ASSERT_EQ(service_.Look().iterations.size(), 1U);
  EXPECT_EQ(service_.Look().iterations[0].waits_for, expected);
}

TEST_F(Resolve, AnotherOneIsAskedWhenThatTakesTooLong) {
  const uint64_t first = Resolver();
  ASSERT_NE(first, 0U);
  Pass(kResolveTimeout - absl::Seconds(10));
  EXPECT_EQ(Resolver(), first);
  Pass(absl::Seconds(20));
  const uint64_t second = Resolver();
  EXPECT_EQ(second, 15 - first);
  // Both hang: they are asked in turn, and each is named with the time since it was asked first.
  Pass(kResolveTimeout);
  EXPECT_EQ(Resolver(), first);
  EXPECT_NE(WaitsFor().find("host:" + std::to_string(first) + ", "), std::string::npos);
  EXPECT_NE(WaitsFor().find("for 10m"), std::string::npos) << WaitsFor();
  EXPECT_EQ(service_.Look().iterations[0].phase, Phase::kResolving);
}

TEST_F(Resolve, WhatTheFirstOneFindsTooLateIsTakenToo) {
  const uint64_t first = Resolver();
  ASSERT_NE(first, 0U);
  Pass(kResolveTimeout + absl::Seconds(10));
  ASSERT_NE(Resolver(), first);
  service_.PollWorker(first, {.resolved = {{.dataset = dataset_, .manifest = "m", .files = 1}}});
  EXPECT_EQ(service_.Look().iterations[0].phase, Phase::kReading);
  EXPECT_EQ(Resolver(), 0U);
  EXPECT_EQ(WaitsFor(), "");
}

TEST_F(Resolve, AnotherOneIsAskedWhenTheFirstIsGone) {
  const uint64_t first = Resolver();
  ASSERT_NE(first, 0U);
  service_.PollWorker(first, {.leaving = true});
  service_.PollWorker(15 - first);
  EXPECT_NE(WaitsFor().find("host:" + std::to_string(15 - first) + ", "), std::string::npos)
      << WaitsFor();
}

}  // namespace
}  // namespace lockstep::dispatch

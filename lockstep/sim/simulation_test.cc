#include "lockstep/sim/simulation.h"

#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/sim/scenario.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;

template <class E>
size_t KindOf() {
  return coord::Event(E{}).index();
}

// Only native clients and the older family of stock ones send these, and only a server that died is
// restored; all that has its own world (native_simulation.h) or tests.
bool IsOfStockClients(size_t kind) {
  return kind != KindOf<coord::GetMemberStates>() && kind != KindOf<coord::Restored>() &&
         kind != KindOf<coord::ListBarriers>() && kind != KindOf<coord::HostLost>() &&
         (kind < KindOf<coord::OpenSession>() || kind > KindOf<coord::ReportSave>());
}

TEST(Simulation, TwoHundredSeedsBreakNoRuleAndSeeAlmostEverything) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const SeedResult result = RunSeed(seed);
    ASSERT_TRUE(result.ok()) << result.report;
    coverage.Add(result.coverage);
  }
  for (size_t kind = 0; kind < coverage.events.size(); ++kind) {
    if (!IsOfStockClients(kind)) continue;
    EXPECT_GT(coverage.events[kind], 0) << "no event of kind " << kind;
  }
  // These have tests of their own: keys with a zero byte, arguments that no client sends, the
  // failure of a job in which nobody polls, which is told by way of heartbeats, and a server that
  // is short of memory.
  std::set<coord::Reason> elsewhere = {coord::Reason::kKeyInvalid, coord::Reason::kInvalidArgument,
                                       coord::Reason::kClusterFailed, coord::Reason::kMemoryMax};
  // And these befall native clients, or those of an agent.
  for (const coord::Reason reason :
       {coord::Reason::kBarrierValuesForgotten, coord::Reason::kAgreementTimedOut,
        coord::Reason::kAgreementCounterMismatch, coord::Reason::kAgreementConflict,
        coord::Reason::kUnknownSession, coord::Reason::kNotAMember, coord::Reason::kUnknownRole,
        coord::Reason::kJobFull, coord::Reason::kMemberExists, coord::Reason::kWrongAttempt,
        coord::Reason::kNoPreemption, coord::Reason::kConditionFailed, coord::Reason::kNotPermitted,
        coord::Reason::kAgentEnded, coord::Reason::kHostLost}) {
    elsewhere.insert(reason);
  }
  for (size_t i = 0; i < coverage.reasons.size(); ++i) {
    const auto reason = static_cast<coord::Reason>(i);
    if (!elsewhere.contains(reason)) {
      EXPECT_GT(coverage.reasons[i], 0) << coord::ReasonName(reason);
    }
  }
}

TEST(Simulation, TheSameSeedGivesTheSameEffects) {
  for (uint64_t seed = 300; seed < 320; ++seed) {
    const SeedResult first = RunSeed(seed);
    const SeedResult second = RunSeed(seed);
    EXPECT_EQ(first.hash, second.hash);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_NE(first.hash, RunSeed(seed + 1).hash);
  }
}

// Says something else every time it is asked.
class Moody : public CoordinatorMachine {
 public:
  using CoordinatorMachine::CoordinatorMachine;
  coord::Effects Handle(Time now, const coord::Event& event) override {
    static int64_t moods = 0;
    coord::Effects effects = CoordinatorMachine::Handle(now, event);
    effects.Tell(coord::Severity::kInfo, absl::StrCat("mood ", ++moods));
    return effects;
  }
};

TEST(Simulation, AMachineThatIsNotDeterministicShowsInTheHash) {
  const RunOptions moody{.make_machine = [](const coord::CoordinatorOptions& options) {
    return std::make_unique<Moody>(options);
  }};

  EXPECT_NE(RunSeed(1, moody).hash, RunSeed(1, moody).hash);
}

// Takes everything and answers nothing.
class Mute : public CoordinatorMachine {
 public:
  using CoordinatorMachine::CoordinatorMachine;
  coord::Effects Handle(Time, const coord::Event&) override { return {}; }
};

TEST(Simulation, AFailureTellsSeedStepAndHowToReplay) {
  const SeedResult result =
      RunSeed(17, {.make_machine = [](const coord::CoordinatorOptions& options) {
                return std::make_unique<Mute>(options);
              }});

  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.report, HasSubstr("seed 17 ("));
  EXPECT_THAT(result.report, HasSubstr("failed at step "));
  EXPECT_THAT(result.report, HasSubstr("replay: build/bin/lockstep_sim --seed=17 --verbose"));
  EXPECT_THAT(result.report, HasSubstr("RegisterMember member="));
}

TEST(Scenario, SeedsDifferInSizeAndFaults) {
  std::set<int32_t> sizes;
  std::set<std::string> texts;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Scenario scenario = DrawScenario(seed);
    sizes.insert(scenario.coordinator.size);
    texts.insert(Describe(scenario));
  }

  EXPECT_THAT(sizes, ::testing::IsSupersetOf({1, 2, 4, 16, 64}));
  EXPECT_EQ(texts.size(), 300u);
}

}  // namespace
}  // namespace lockstep::sim

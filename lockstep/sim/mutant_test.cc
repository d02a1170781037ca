// The measure of a simulation is what it catches: every mistake that a mutant makes must be found,
// by the checker whose rule it breaks.
#include "lockstep/sim/mutant.h"

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/sim/simulation.h"

namespace lockstep::sim {
namespace {

// The rarest, a former life that comes late enough, shows in one seed of a hundred.
constexpr uint64_t kSeedsMax = 300;

struct Expectation {
  Mutation mutation;
  std::vector<std::string> checkers;  // any of which may be the first to notice
  int mistakes_after = 1;             // 0 where there are few opportunities in a run
};

void PrintTo(const Expectation& expectation, std::ostream* out) {
  *out << NameOf(expectation.mutation);
}

class Mutants : public ::testing::TestWithParam<Expectation> {};

TEST_P(Mutants, AreCaught) {
  const Expectation& expected = GetParam();
  std::map<std::string, int> caught_by;
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    const SeedResult result =
        RunSeed(seed, {.make_machine = [&](const coord::CoordinatorOptions& options) {
                  return std::make_unique<MutantMachine>(options, expected.mutation,
                                                         expected.mistakes_after);
                }});
    if (result.ok()) continue;
    const std::string checker = std::vector<std::string>(absl::StrSplit(result.failure, ':'))[0];
    ++caught_by[checker];
    if (std::find(expected.checkers.begin(), expected.checkers.end(), checker) !=
        expected.checkers.end()) {
      EXPECT_THAT(result.report, ::testing::HasSubstr("replay: build/bin/lockstep_sim --seed="));
      return;
    }
  }
  FAIL() << "in " << kSeedsMax
         << " seeds, caught by none of those: " << ::testing::PrintToString(caught_by);
}

INSTANTIATE_TEST_SUITE_P(
    All, Mutants,
    ::testing::Values(Expectation{Mutation::kForgetsAWaiter, {"view", "barriers", "lives"}},
                      Expectation{Mutation::kAnswersTwice, {"answers"}},
                      Expectation{Mutation::kAnswersTheAbsent, {"answers"}},
                      Expectation{Mutation::kAnswersNobody, {"answers"}},
                      Expectation{Mutation::kAnswersWrongKind, {"answers"}},
                      Expectation{Mutation::kReleasesEarly, {"barriers"}},
                      Expectation{Mutation::kSplitsVerdict, {"barriers"}},
                      Expectation{Mutation::kChangesVerdict, {"barriers"}},
                      Expectation{Mutation::kLetsInEarly, {"lives"}},
                      Expectation{Mutation::kLetsInAFormerLife, {"lives"}, 0},
                      Expectation{Mutation::kLetsGoEarly, {"leaving"}},
                      Expectation{Mutation::kServesOldAttempts, {"attempts"}},
                      Expectation{Mutation::kKeepsItsIncarnation, {"attempts"}},
                      Expectation{Mutation::kSwapsAValue, {"keys"}},
                      Expectation{Mutation::kLosesAKey, {"keys"}},
                      Expectation{Mutation::kListsTooMuch, {"keys"}},
                      Expectation{Mutation::kDropsAPoll, {"the dead"}},
                      Expectation{Mutation::kTellsAnotherCause, {"the dead"}},
                      Expectation{Mutation::kBlamesTheInnocent, {"losses", "the dead"}},
                      Expectation{Mutation::kOverlooksTheLost, {"losses"}},
                      Expectation{Mutation::kOverlooksADeadline, {"deadlines"}},
                      Expectation{Mutation::kHidesALiveMember, {"who is alive"}},
                      Expectation{Mutation::kNamesWrongState, {"who is alive"}},
                      Expectation{Mutation::kMiscounts, {"view"}},
                      Expectation{Mutation::kWedges, {"liveness"}}),
    [](const auto& param) { return std::string(NameOf(param.param.mutation)); });

TEST(MutantList, AllAreTried) {
  EXPECT_EQ(::testing::UnitTest::GetInstance()->total_test_count(), kMutations + 1);
}

}  // namespace
}  // namespace lockstep::sim

// Servers that fight for a state in etcd, under whatever goes wrong.
#include "lockstep/platform/etcd/etcd_simulation.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace lockstep::etcd {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(EtcdSimulation, NothingAcknowledgedIsLostOrDoubledAndNoReadIsStale) {
  const uint64_t seeds = FromEnvironment("LOCKSTEP_ETCD_SIMULATION_SEEDS", 100);
  const uint64_t one = FromEnvironment("LOCKSTEP_ETCD_SIMULATION_SEED", 0);
  EtcdRun all;
  for (uint64_t seed = one != 0 ? one : 1; seed <= (one != 0 ? one : seeds); ++seed) {
    const EtcdRun run = SimulateEtcd(seed, EtcdMutation::kNone, one != 0);
    ASSERT_TRUE(run.violations.empty())
        << "seed " << seed << ": " << absl::StrJoin(run.violations, "; ") << "\n"
        << run.trace;
    all.appended += run.appended;
    all.reads += run.reads;
    all.takeovers += run.takeovers;
    all.snapshots += run.snapshots;
  }
  std::printf("appended: %lu, reads: %lu, take-overs: %lu, snapshots: %lu\n", all.appended,
              all.reads, all.takeovers, all.snapshots);
}

struct Mutant {
  const char* name;
  EtcdMutation mutation;
};

class EtcdMutants : public ::testing::TestWithParam<Mutant> {};

TEST_P(EtcdMutants, AreFound) {
  constexpr uint64_t kSeeds = 400;
  uint64_t found = 0;
  std::string first;
  for (uint64_t seed = 1; seed <= kSeeds && found == 0; ++seed) {
    const EtcdRun run = SimulateEtcd(seed, GetParam().mutation);
    if (run.violations.empty()) continue;
    found = seed;
    first = run.violations.front();
  }
  EXPECT_NE(found, 0u);
  std::printf("%s: seed %lu: %s\n", GetParam().name, found, first.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    All, EtcdMutants,
    ::testing::Values(Mutant{"NoFence", EtcdMutation::kNoFence},
                      Mutant{"UnconfirmedRead", EtcdMutation::kUnconfirmedRead},
                      Mutant{"AppendedAgain", EtcdMutation::kAppendedAgain},
                      Mutant{"AnsweredTooEarly", EtcdMutation::kAnsweredTooEarly},
                      Mutant{"BaselessSeizure", EtcdMutation::kBaselessSeizure}),
    [](const auto& mutant) { return std::string(mutant.param.name); });

}  // namespace
}  // namespace lockstep::etcd

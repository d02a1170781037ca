// What a seed of the data service tries: modes, numbers, delays and faults.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/data_sim.h"
#include "lockstep/sim/random.h"

namespace lockstep::sim {

using dispatch::Mode;
using dispatch::Sharding;
using dispatch::Visitation;

DataScenario DrawDataScenario(uint64_t seed) {
  Random random(seed * 0x9e3779b97f4a7c15 + 5);
  DataScenario scenario{.seed = seed};
  scenario.mode = random.Pick(std::vector<Mode>{Mode::kFirstCome, Mode::kFirstCome, Mode::kExact,
                                                Mode::kRounds, Mode::kRounds});
  if (scenario.mode == Mode::kFirstCome) {
    scenario.visitation =
        random.Pick(std::vector<Visitation>{Visitation::kExactlyOnce, Visitation::kExactlyOnce,
                                            Visitation::kAtLeastOnce, Visitation::kAtMostOnce});
    if (random.Percent(40)) {
      scenario.sharding = random.Pick(
          std::vector<Sharding>{Sharding::kOff, Sharding::kStaticData, Sharding::kStaticFile});
    }
  }
  scenario.workers = static_cast<int>(random.Between(1, 4));
  scenario.consumers = static_cast<int>(random.Between(1, 4));
  scenario.segments = random.Percent(10) ? random.Between(0, 2) : random.Between(3, 24);
  scenario.elements = random.Between(1, 12);
  scenario.filters = random.Percent(40);
  scenario.resolves = random.Percent(30);
  scenario.acknowledges_by_itself = random.Percent(50);
  scenario.kills_workers = random.Percent(50);
  scenario.kills_consumers = random.Percent(50);
  scenario.kills_dispatcher = random.Percent(50);
  scenario.cuts = random.Percent(50);
  scenario.churns = random.Percent(40);
  scenario.fails = random.Percent(25);
  scenario.elastic = scenario.mode != Mode::kFirstCome && random.Percent(50);
  scenario.delay_max_us = random.Between(1, 4) * random.Between(20, 1500);
  scenario.step_us = random.Between(0, 8000);
  scenario.faults_until_ms = random.Between(200, 3000);

  dispatch::Options& options = scenario.options;
  options.worker_timeout = absl::Milliseconds(random.Between(600, 1500));
  options.worker_grace = absl::Milliseconds(random.Between(50, 200));
  options.consumer_timeout = absl::Milliseconds(random.Between(600, 1500));
  options.consumer_grace = absl::Milliseconds(random.Between(50, 200));
  options.unreachable_for = absl::Milliseconds(random.Between(50, 400));
  options.iteration_timeout = absl::Seconds(20);
  options.finished_timeout = absl::Seconds(20);
  options.dataset_timeout = absl::Seconds(30);
  options.poll_wait_max = absl::Milliseconds(random.Between(50, 300));
  options.window = random.Between(1, 3);
  options.exact_window = random.Between(1, 6);
  options.lane_window = random.Between(1, 3);
  options.rounds_window = random.Between(1, 8);
  scenario.parts = scenario.workers > 1 && random.Percent(20);
  options.segment_tries = scenario.fails ? 1000 : 3;
  if (scenario.mode == Mode::kRounds) {
    scenario.on_lost = random.Pick(
        std::vector<dispatch::OnLost>{dispatch::OnLost::kWait, dispatch::OnLost::kWait,
                                      dispatch::OnLost::kAuto, dispatch::OnLost::kGoOn});
  }
  scenario.sees_ends = random.Percent(50);
  scenario.older_cursors = random.Percent(50);
  if (scenario.mode == Mode::kFirstCome && !scenario.acknowledges_by_itself) {
    scenario.acks_each = random.Pick(std::vector<int64_t>{1, 1, 5, 30, 1'000'000});
    scenario.unacknowledged_max = random.Pick(std::vector<int64_t>{3, 20, 10'000});
    options.grants_max = random.Pick(std::vector<int64_t>{4, 16'384});
  }
  return scenario;
}

std::string Describe(const DataScenario& scenario) {
  std::string text = absl::StrCat(
      std::string(ModeName(scenario.mode)), "/", std::string(ShardingName(scenario.sharding)), "/",
      std::string(VisitationName(scenario.visitation)), ", ", scenario.workers, " workers, ",
      scenario.consumers, " consumers, ", scenario.segments, "x", scenario.elements,
      " elements, delays to ", scenario.delay_max_us, "us, steps of ", scenario.step_us, "us");
  for (const auto& [name, on] : {std::pair("filters", scenario.filters),
                                 {"resolves", scenario.resolves},
                                 {"acks-by-itself", scenario.acknowledges_by_itself},
                                 {"kills-workers", scenario.kills_workers},
                                 {"kills-consumers", scenario.kills_consumers},
                                 {"kills-dispatcher", scenario.kills_dispatcher},
                                 {"cuts", scenario.cuts},
                                 {"churns", scenario.churns},
                                 {"parts", scenario.parts},
                                 {"fails", scenario.fails},
                                 {"sees-ends", scenario.sees_ends},
                                 {"older-cursors", scenario.older_cursors},
                                 {"waits-for-lost", scenario.on_lost == dispatch::OnLost::kWait},
                                 {"elastic", scenario.elastic}}) {
    if (on) absl::StrAppend(&text, " ", name);
  }
  return text;
}

}  // namespace lockstep::sim

#include "lockstep/sim/scenario.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lockstep/sim/random.h"

namespace lockstep::sim {
namespace {

struct Switch {
  absl::string_view name;
  bool Scenario::*flag;
  int percent;  // of the seeds that have it
};

constexpr Switch kSwitches[] = {
    {"reorders", &Scenario::reorders, 50},
    {"late_timer", &Scenario::late_timer, 25},
    {"kills", &Scenario::kills, 55},
    {"vanishes", &Scenario::vanishes, 25},
    {"pauses", &Scenario::pauses, 40},
    {"cut_offs", &Scenario::cut_offs, 40},
    {"breaks", &Scenario::breaks, 40},
    {"reports", &Scenario::reports, 20},
    {"resets", &Scenario::resets, 15},
    {"strangers", &Scenario::strangers, 35},
    {"repeats", &Scenario::repeats, 35},
    {"noise", &Scenario::noise, 65},
    {"polls_again", &Scenario::polls_again, 40},
    {"gives_up_early", &Scenario::gives_up_early, 35},
    {"launcher_tells", &Scenario::launcher_tells, 50},
    {"tells_late", &Scenario::tells_late, 50},
    {"restarts_one", &Scenario::restarts_one, 25},
};

int32_t DrawSize(Random& random) {
  if (random.Percent(2)) return 64;
  if (random.Percent(15)) return 1;
  return static_cast<int32_t>(random.Percent(70) ? random.Between(2, 6) : random.Between(7, 16));
}

coord::CoordinatorOptions DrawOptions(uint64_t seed, Random& random) {
  coord::CoordinatorOptions options;
  options.size = DrawSize(random);
  options.register_timeout = random.Between(absl::Seconds(5), absl::Seconds(60));
  options.heartbeat_timeout = random.Between(absl::Seconds(3), absl::Seconds(30));
  options.shutdown_timeout =
      random.Percent(70) ? random.Between(absl::Seconds(2), absl::Seconds(30)) : absl::Duration();
  options.connection_grace = random.Between(absl::Milliseconds(20), absl::Milliseconds(500));
  options.recoverable = random.Percent(25);
  options.watch_interval = random.Between(absl::Milliseconds(0), absl::Milliseconds(200));
  options.incarnation_seed = seed;
  options.kept_errors_max = 8;
  if (random.Percent(15)) {
    // Above what a healthy job needs, below what side traffic asks for.
    options.keys_max = 40 + size_t{12} * options.size;
    options.value_bytes_max = 200;
    options.store_bytes_max = 20'000;
    options.open_barriers_max = 6;
    options.waits_max = 80 + size_t{12} * options.size;
  }
  if (random.Percent(10)) options.kept_barriers_max = 3;
  return options;
}

}  // namespace

Scenario DrawScenario(uint64_t seed) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.coordinator = DrawOptions(seed, random);
  for (const Switch& option : kSwitches) scenario.*option.flag = random.Percent(option.percent);
  if (!scenario.launcher_tells) scenario.tells_late = false;

  scenario.delay_min = random.Between(absl::Microseconds(20), absl::Milliseconds(1));
  scenario.delay_max =
      scenario.delay_min + (random.Percent(70)
                                ? random.Between(absl::Microseconds(50), absl::Milliseconds(5))
                                : random.Between(absl::Milliseconds(5), absl::Milliseconds(200)));
  scenario.init_timeout = random.Between(absl::Seconds(4), absl::Seconds(40));
  scenario.client_period = scenario.coordinator.heartbeat_timeout / 2;
  scenario.restart_delay_max = random.Percent(50)
                                   ? absl::Milliseconds(300)
                                   : random.Between(absl::Seconds(1), absl::Seconds(8));
  scenario.attempts_max = static_cast<int>(random.Between(2, 6));
  scenario.faults_last = random.Between(absl::Seconds(20), absl::Seconds(90));
  scenario.fault_period = random.Between(absl::Milliseconds(500), absl::Seconds(15));
  // Their own time-out is not the server's business, and may be longer.
  if (random.Percent(25)) {
    scenario.client_period *= static_cast<double>(random.Between(2, 8));
  }
  return scenario;
}

std::string Describe(const Scenario& scenario) {
  const coord::CoordinatorOptions& options = scenario.coordinator;
  std::string text = absl::StrCat(
      "size=", options.size, options.recoverable ? " recoverable" : "", " heartbeat=",
      absl::FormatDuration(absl::Trunc(options.heartbeat_timeout, absl::Milliseconds(1))),
      " period=", absl::FormatDuration(absl::Trunc(scenario.client_period, absl::Milliseconds(1))),
      " shutdown=",
      absl::FormatDuration(absl::Trunc(options.shutdown_timeout, absl::Milliseconds(1))),
      " grace=", absl::FormatDuration(absl::Trunc(options.connection_grace, absl::Milliseconds(1))),
      options.keys_max < 10'000 ? " small_limits" : "");
  for (const Switch& option : kSwitches) {
    if (scenario.*option.flag) absl::StrAppend(&text, " ", option.name);
  }
  return text;
}

}  // namespace lockstep::sim

// What a seed of the rendezvous tries: members, limits, delays and faults.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/rendezvous_sim.h"

namespace lockstep::sim {

using rendezvous::Options;

RendezvousScenario DrawRendezvousScenario(uint64_t seed) {
  Random random(seed * 0x9e3779b97f4a7c15 + 3);
  RendezvousScenario scenario{.seed = seed,
                              .members = static_cast<int>(random.Between(2, 8)),
                              .kills = random.Percent(40),
                              .aborts = random.Percent(50),
                              .forgets = random.Percent(20),
                              .fetches = random.Percent(30),
                              .names = static_cast<int>(random.Between(1, 4)),
                              .delay_max_us = random.Between(1, 4) * random.Between(20, 1500)};
  if (random.Percent(60)) scenario.members = static_cast<int>(random.Between(2, 3));
  Options& options = scenario.options;
  for (int i = 0; i < scenario.members; ++i) options.names.push_back(absl::StrCat("task/", i));
  options.inline_bytes_max = 64;
  options.quota_bytes = random.Percent(40) ? 600 : 1 << 20;
  options.quota_values = random.Percent(40) ? random.Between(2, 6) : 1 << 16;
  options.unasked_values_max = random.Percent(50) ? random.Between(1, 5) : random.Between(20, 200);
  options.unasked_bytes_max = random.Percent(40) ? random.Between(64, 300) : 1 << 16;
  options.waits_max = random.Percent(20) ? random.Between(3, 10) : 1 << 16;
  options.peer_wants_max = random.Percent(20) ? random.Between(1, 4) : 1 << 16;
  options.closed_steps_max = random.Percent(20) ? random.Between(1, 4) : 1 << 16;
  options.want_after = absl::Microseconds(random.Between(1, 2000));
  if (scenario.forgets) {
    options.unopened_ttl = absl::Milliseconds(random.Between(2, 30));
    options.closed_ttl = absl::Milliseconds(random.Between(2, 30));
    options.unopened_steps_max = random.Between(1, 3);
  }
  // What is refused is not received: those who wait for it would call that a loss.
  if (options.peer_wants_max < 100 || options.waits_max < 100) scenario.forgets = true;
  return scenario;
}

std::string Describe(const RendezvousScenario& scenario) {
  std::string text = absl::StrCat(scenario.members, " members, delays to ", scenario.delay_max_us,
                                  "us, names=", scenario.names);
  for (const auto& [name, on] : {std::pair("kills", scenario.kills),
                                 {"aborts", scenario.aborts},
                                 {"forgets", scenario.forgets},
                                 {"fetches", scenario.fetches}}) {
    if (on) absl::StrAppend(&text, " ", name);
  }
  return text;
}

}  // namespace lockstep::sim

#include "lockstep/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/describe.h"
#include "lockstep/sim/faults.h"
#include "lockstep/sim/launcher.h"
#include "lockstep/sim/network.h"
#include "lockstep/sim/scenario.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/trace.h"

namespace lockstep::sim {
namespace {

class Simulation {
 public:
  Simulation(uint64_t seed, const RunOptions& options)
      : scenario_(DrawScenario(seed)),
        random_(~seed),
        trace_(options.verbose),
        machine_(options.make_machine
                     ? options.make_machine(scenario_.coordinator)
                     : std::make_unique<CoordinatorMachine>(scenario_.coordinator)),
        network_(schedule_, random_.Fork(), scenario_,
                 [this](const coord::Event& event) { server_.Handle(event); }),
        server_(schedule_, random_.Fork(), scenario_, *machine_, trace_,
                [this](const coord::Reply& reply) { network_.Answer(reply); }),
        launcher_(schedule_, network_, server_, trace_, scenario_, random_.Fork(), work_),
        faults_(schedule_, network_, launcher_, trace_, scenario_, random_.Fork()) {}

  SeedResult Run() {
    launcher_.StartFaultyJobs();
    faults_.Start();
    RunUntil(schedule_.now() + scenario_.faults_last, [] { return false; });
    Heal();
    RunHealthyJob();
    RunHealthyJob();
    StopMidway();
    CheckPower();
    return Result();
  }

 private:
  // Until then, or until `enough`, or until a rule is broken.
  void RunUntil(Time end, const std::function<bool()>& enough) {
    while (Healthy() && !enough() && schedule_.RunNext(end)) {
    }
  }

  bool Healthy() {
    if (failure_.empty()) failure_ = server_.failure();
    if (failure_.empty() && !launcher_.failure().empty()) {
      failure_ = absl::StrCat("liveness: ", launcher_.failure());
    }
    if (failure_.empty() && server_.steps() > kStepsMax) {
      failure_ = absl::StrCat("circle: more than ", kStepsMax, " steps");
    }
    return failure_.empty();
  }

  void Heal() {
    if (!Healthy()) return;
    trace_.Note(schedule_.now(), "all is healed");
    launcher_.ContinueAll();
    launcher_.EndAll();
    network_.NoticeVanished();
    // No process starts faster than a broken connection is seen.
    RunUntil(schedule_.now() + random_.Between(2 * scenario_.delay_max, absl::Seconds(2)),
             [] { return false; });
  }

  void RunHealthyJob() {
    // A launcher that starts a process before the server knows of the end of the one before would
    // have the new one taken for dead.
    RunUntil(launcher_.told_by(), [] { return false; });
    if (!Healthy()) return;
    launcher_.StartHealthyJob();
    RunUntil(schedule_.now() + kHealthyJobMax, [this] { return launcher_.done(); });
    if (Healthy() && !launcher_.done()) {
      failure_ = absl::StrCat("liveness: a healthy job has not ended within ",
                              absl::FormatDuration(kHealthyJobMax));
    }
  }

  // The server stops while a job is at work, and refuses what comes after.
  void StopMidway() {
    if (!Healthy()) return;
    launcher_.StartDoomedJob();
    RunUntil(schedule_.now() + random_.Between(absl::ZeroDuration(), absl::Seconds(4)),
             [] { return false; });
    if (Healthy()) server_.Handle(coord::Stop{});
    RunUntil(schedule_.now() + absl::Seconds(2), [] { return false; });
  }

  void CheckPower() {
    if (!Healthy()) return;
    const int64_t expected = 2 * scenario_.coordinator.size;
    if (server_.steps() < kStepsMin || work_.registrations < expected ||
        work_.clean_exits < expected || work_.barriers < expected) {
      failure_ = absl::StrCat("power: too little was done in ", server_.steps(),
                              " steps: ", work_.registrations, " registrations, ", work_.barriers,
                              " barriers, ", work_.clean_exits, " clean exits");
    }
  }

  SeedResult Result() {
    SeedResult result{.seed = scenario_.seed,
                      .failure = failure_,
                      .steps = server_.steps(),
                      .hash = trace_.hash(),
                      .virtual_time = schedule_.now() - Time(),
                      .work = work_,
                      .coverage = server_.coverage()};
    if (!failure_.empty()) {
      result.report = absl::StrCat(
          "the last ", Trace::kTraceLinesMax, " events of seed ", scenario_.seed, ":\n",
          trace_.Tail(), "seed ", scenario_.seed, " (", Describe(scenario_), ")\nfailed at step ",
          server_.steps(), ", ", FormatTime(schedule_.now()), ": ", failure_,
          "\nreplay: build/bin/lockstep_sim --seed=", scenario_.seed, " --verbose\n");
    }
    return result;
  }

  const Scenario scenario_;
  Random random_;
  Schedule schedule_;
  Trace trace_;
  Work work_;
  std::unique_ptr<Machine> machine_;
  Network network_;
  Server server_;
  Launcher launcher_;
  Faults faults_;
  std::string failure_;
};

}  // namespace

SeedResult RunSeed(uint64_t seed, const RunOptions& options) {
  return Simulation(seed, options).Run();
}

}  // namespace lockstep::sim

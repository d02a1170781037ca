#include "lockstep/sim/native_simulation.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/describe.h"
#include "lockstep/sim/history.h"
#include "lockstep/sim/native_client.h"
#include "lockstep/sim/native_server.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/trace.h"

namespace lockstep::sim {
namespace {

constexpr int64_t kStepsMost = 1'000'000;

class NativeSimulation {
 public:
  NativeSimulation(uint64_t seed, const NativeOptions& options)
      : scenario_(DrawNativeScenario(seed)),
        random_(~seed),
        trace_(options.verbose),
        server_(
            schedule_, random_.Fork(), scenario_,
            options.make_machine
                ? options.make_machine
                : [](const coord::CoordinatorOptions&
                         coordinator) { return std::make_unique<DurableCoordinator>(coordinator); },
            trace_, options.speaks_too_early) {}

  NativeResult Run() {
    for (int32_t i = 0; i < scenario_.coordinator.size; ++i) Begin(i);
    faults_end_ = schedule_.now() + scenario_.faults_last;
    FaultLater();
    const Time end = faults_end_ + kNativeJobMax;
    while (Healthy() && !AllDone() && schedule_.RunNext(end)) {
    }
    if (Healthy() && !AllDone()) failure_ = Unfinished();
    if (Healthy()) failure_ = history_.Check(scenario_.coordinator.size);
    return Result();
  }

 private:
  void Begin(int32_t index) {
    NativeClient::Setup setup{.index = index,
                              .operations = scenario_.operations,
                              .rounds = scenario_.rounds,
                              .asks_for_index = !scenario_.gives_index,
                              .new_session_per_life = random_.Percent(50)};
    clients_.push_back(std::make_unique<NativeClient>(schedule_, server_, history_, random_.Fork(),
                                                      scenario_, setup));
    NativeClient* client = clients_.back().get();
    schedule_.After(random_.Between(absl::ZeroDuration(), absl::Seconds(1)),
                    [client] { client->Start(); });
    if (current_.size() <= static_cast<size_t>(index)) current_.resize(index + 1);
    current_[index] = client;
  }

  void FaultLater() {
    schedule_.After(random_.Between(absl::Milliseconds(1), 2 * scenario_.fault_period), [this] {
      if (schedule_.now() >= faults_end_) return;
      Fault();
      FaultLater();
    });
  }

  void Fault() {
    const int32_t index = random_.Index(current_.size());
    NativeClient* client = current_[index];
    switch (random_.Index(6)) {
      case 0:
      case 5:
        if (scenario_.crashes) server_.Crash();
        return;
      case 1:
        if (scenario_.breaks && client->alive()) client->BreakLink(false);
        return;
      case 2:
        if (scenario_.silences && client->alive()) client->BreakLink(true);
        return;
      case 3:
        if (scenario_.storms) {
          for (NativeClient* each : current_) each->BreakLink(false);
        }
        return;
      default:
        if (!scenario_.kills || !client->alive() || client->done() || client->leaving()) return;
        trace_.Note(schedule_.now(), absl::StrCat("kill ", client->name()));
        client->Die();
        schedule_.After(random_.Between(absl::Milliseconds(1), absl::Seconds(5)),
                        [this, index] { Begin(index); });
    }
  }

  bool AllDone() const {
    for (const NativeClient* client : current_) {
      if (!client->done()) return false;
    }
    return true;
  }

  bool Healthy() {
    if (failure_.empty()) failure_ = server_.failure();
    for (const auto& client : clients_) {
      if (failure_.empty()) failure_ = client->failure();
    }
    if (failure_.empty() && server_.steps() > kStepsMost) failure_ = "circle: too many steps";
    return failure_.empty();
  }

  std::string Unfinished() const {
    std::string text = "liveness: not done in time:";
    for (const NativeClient* client : current_) {
      if (!client->done()) absl::StrAppend(&text, " ", client->name(), ";");
    }
    return text;
  }

  NativeResult Result() {
    NativeResult result{.seed = scenario_.seed,
                        .failure = failure_,
                        .steps = server_.steps(),
                        .hash = trace_.hash(),
                        .answered = history_.answered(),
                        .passed = history_.passed(),
                        .crashes = server_.crashes(),
                        .forgotten = server_.forgotten(),
                        .virtual_time = schedule_.now() - Time()};
    if (!failure_.empty()) {
      result.report = absl::StrCat(
          "the last ", Trace::kTraceLinesMax, " events of native seed ", scenario_.seed, ":\n",
          trace_.Tail(), "native seed ", scenario_.seed, " (", Describe(scenario_),
          ")\nfailed at step ", server_.steps(), ", ", FormatTime(schedule_.now()), ": ", failure_,
          "\nreplay: build/bin/lockstep_sim --native --seed=", scenario_.seed, " --verbose\n");
    }
    return result;
  }

  const NativeScenario scenario_;
  Random random_;
  Schedule schedule_;
  Trace trace_;
  History history_;
  NativeServer server_;
  std::vector<std::unique_ptr<NativeClient>> clients_;
  std::vector<NativeClient*> current_;  // by index: the newest process
  Time faults_end_;
  std::string failure_;
};

}  // namespace

NativeScenario DrawNativeScenario(uint64_t seed) {
  Random random(seed * 0x9e3779b97f4a7c15 + 1);
  NativeScenario scenario{.seed = seed};
  coord::CoordinatorOptions& options = scenario.coordinator;
  options.size = static_cast<int32_t>(random.Percent(15) ? 1 : random.Between(2, 6));
  options.incarnation_seed = random.Next();
  options.heartbeat_timeout = absl::Seconds(60);
  options.register_timeout = absl::Minutes(5);
  options.shutdown_timeout = random.Percent(50) ? absl::Minutes(5) : absl::ZeroDuration();
  options.session_grace = absl::Seconds(2);
  if (random.Percent(30)) options.kept_key_changes_max = 4;
  scenario.operations = static_cast<int>(random.Between(5, 30));
  scenario.rounds = static_cast<int>(random.Between(2, 12));
  scenario.delay_min = random.Between(absl::Microseconds(50), absl::Milliseconds(2));
  scenario.delay_max =
      scenario.delay_min + random.Between(absl::ZeroDuration(), absl::Milliseconds(50));
  scenario.sync_max = random.Between(absl::Microseconds(100), absl::Milliseconds(600));
  scenario.down_max = random.Between(absl::Milliseconds(10), absl::Seconds(5));
  scenario.crashes = random.Percent(70);
  scenario.breaks = random.Percent(60);
  scenario.silences = random.Percent(30);
  scenario.kills = random.Percent(35);
  scenario.storms = random.Percent(30);
  // Who is gone does not come back for the sake of one who was killed: they leave together.
  if (scenario.kills) options.shutdown_timeout = absl::Minutes(5);
  scenario.gives_index = random.Percent(30);
  scenario.faults_last = random.Between(absl::Seconds(2), absl::Seconds(20));
  scenario.fault_period = random.Between(absl::Milliseconds(50), absl::Seconds(2));
  return scenario;
}

std::string Describe(const NativeScenario& scenario) {
  std::string text = absl::StrCat("size=", scenario.coordinator.size,
                                  " operations=", scenario.operations, " rounds=", scenario.rounds);
  for (const auto& [name, on] : {std::pair("crashes", scenario.crashes),
                                 {"breaks", scenario.breaks},
                                 {"silences", scenario.silences},
                                 {"kills", scenario.kills},
                                 {"storms", scenario.storms},
                                 {"gives_index", scenario.gives_index}}) {
    if (on) absl::StrAppend(&text, " ", name);
  }
  return text;
}

NativeResult RunNativeSeed(uint64_t seed, const NativeOptions& options) {
  return NativeSimulation(seed, options).Run();
}

}  // namespace lockstep::sim

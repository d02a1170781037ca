#include "lockstep/sim/stock/world.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/stock/host.h"
#include "lockstep/sim/stock/process.h"
#include "lockstep/sim/stock/server.h"

namespace lockstep::sim {
namespace {

// Faults are on for a while; then all ends within this time.
constexpr absl::Duration kEndsWithin = absl::Minutes(20);
constexpr absl::Duration kToldWithin = absl::Milliseconds(500);
constexpr int64_t kStepsMost = 500'000;

// What one seed tries.
struct Scenario {
  coord::CoordinatorOptions coordinator;
  StockTimes times;
  size_t hosts = 1;
  int operations = 0;
  int rounds = 0;
  absl::Duration patience = absl::Minutes(2);
  absl::Duration down_max;
  bool crashes = false;   // the server dies and comes back
  bool breaks = false;    // links break
  bool silences = false;  // links fall silent
  bool pauses = false;    // the server or an agent is stopped for a while
  bool kills = false;     // a process or an agent dies
  bool lingers = false;   // processes go on after they were told to end
  bool gone = false;      // in the end the server is gone for longer than the patience
  absl::Duration faults_last;
  absl::Duration fault_period;

  // Only deaths happen.
  bool calm() const { return !crashes && !breaks && !silences && !pauses; }
};

Scenario Draw(uint64_t seed) {
  Random random(seed * 0x9e3779b97f4a7c15 + 1);
  Scenario is;
  is.hosts = static_cast<size_t>(random.Between(1, 3));
  const auto a_host = random.Between(1, 4);
  coord::CoordinatorOptions& options = is.coordinator;
  options.size = static_cast<int32_t>(is.hosts) * static_cast<int32_t>(a_host);
  options.incarnation_seed = random.Next();
  options.heartbeat_timeout = absl::Seconds(60);
  options.register_timeout = absl::Minutes(5);
  is.operations = static_cast<int>(random.Between(5, 25));
  is.rounds = static_cast<int>(random.Between(4, 20));
  is.times.delay_min = random.Between(absl::Microseconds(50), absl::Milliseconds(2));
  is.times.delay_max =
      is.times.delay_min + random.Between(absl::ZeroDuration(), absl::Milliseconds(40));
  is.times.sync_max = random.Between(absl::Microseconds(100), absl::Milliseconds(400));
  is.times.silence = random.Between(absl::Seconds(1), absl::Seconds(8));
  is.crashes = random.Percent(60);
  is.breaks = random.Percent(60);
  is.silences = random.Percent(30);
  is.pauses = random.Percent(30);
  is.kills = random.Percent(40);
  if (is.kills && random.Percent(40)) {
    is.crashes = is.breaks = is.silences = is.pauses = false;
  }
  is.lingers = random.Percent(50);
  is.gone = !is.kills && random.Percent(10);
  is.down_max = random.Percent(30) ? absl::Seconds(15) : absl::Seconds(1);
  if (is.gone) {
    is.patience = absl::Seconds(20);
    is.down_max = absl::Seconds(1);  // before that the patience is never over
  }
  if (is.calm()) {
    is.times.sync_max = absl::Milliseconds(20);
  } else {
    options.session_grace = absl::Seconds(30);  // links break again and again
  }
  is.faults_last = random.Between(absl::Seconds(2), absl::Seconds(20));
  is.fault_period = random.Between(absl::Milliseconds(50), absl::Seconds(2));
  return is;
}

class World {
 public:
  World(uint64_t seed, StockMutation mutant)
      : scenario_(Draw(seed)),
        random_(~seed),
        mutant_(mutant),
        trace_(/*verbose=*/false),
        server_(schedule_, random_.Fork(), scenario_.coordinator, scenario_.times, trace_, mutant),
        hosts_(scenario_.hosts) {
    job_.size = scenario_.coordinator.size;
    job_.operations = scenario_.operations;
    job_.rounds = scenario_.rounds;
    job_.may_fail = scenario_.kills;
    job_.calm = scenario_.calm();
    for (size_t i = 0; i < hosts_.size(); ++i) StartHost(i);
  }

  StockSimResult Run(uint64_t seed) {
    StartAttempt();
    faults_end_ = schedule_.now() + scenario_.faults_last;
    FaultLater();
    if (scenario_.gone) {
      schedule_.At(faults_end_, [this] { server_.Crash(absl::Hours(1)); });
    }
    const Time end = faults_end_ + kEndsWithin;
    while (Healthy() && !finished_ && schedule_.RunNext(end)) Reap();
    if (Healthy() && !finished_) Unfinished();
    // Whoever has left or died has withdrawn what it asked.
    const Time settled = schedule_.now() + absl::Minutes(3);
    while (Healthy() && schedule_.RunNext(settled)) continue;
    if (Healthy()) Audit();
    StockSimResult result = {.failure = job_.failure,
                             .report = "",
                             .answered = job_.history.answered(),
                             .passed = job_.history.passed(),
                             .shared = server_.shared(),
                             .crashes = server_.crashes(),
                             .attempts = static_cast<int64_t>(job_.attempts.size()),
                             .steps = server_.steps()};
    if (!result.failure.empty()) {
      result.report = absl::StrCat(
          trace_.Tail(), "seed ", seed, " at ", absl::FormatDuration(schedule_.now() - Time()),
          ": ", result.failure, "\nreplay: LOCKSTEP_STOCK_SIMULATION_SEED=", seed,
          " build/release/tests/sim_stock_test --gtest_filter=*OneSeed\n");
    }
    return result;
  }

 private:
  void StartHost(size_t index) {
    all_hosts_.push_back(std::make_unique<StockHost>(schedule_, server_, random_.Fork(),
                                                     scenario_.patience, mutant_));
    hosts_[index] = all_hosts_.back().get();
    hosts_[index]->Start();
  }

  void StartAttempt() {
    failing_ = false;
    killed_at_.reset();
    job_.killed.clear();
    current_.clear();
    for (int32_t rank = 0; rank < job_.size; ++rank) {
      const size_t index = static_cast<size_t>(rank) % hosts_.size();
      if (!hosts_[index]->alive()) StartHost(index);
      StockProcess::Setup setup = {
          .rank = rank, .incarnation = random_.Next() | 1, .connection = ++last_connection_};
      if (scenario_.lingers && random_.Percent(30)) {
        setup.lingers = random_.Between(absl::ZeroDuration(), absl::Seconds(6));
      }
      all_.push_back(
          std::make_unique<StockProcess>(schedule_, *hosts_[index], job_, random_.Fork(), setup));
      StockProcess* const process = all_.back().get();
      current_.push_back(process);
      schedule_.After(random_.Between(absl::ZeroDuration(), absl::Seconds(1)), [process] {
        if (process->alive()) process->Start();
      });
    }
  }

  // What a launcher sees, and does: when one ends, all do, and then the next attempt begins.
  void Reap() {
    const bool over =
        std::any_of(current_.begin(), current_.end(), [](const StockProcess* process) {
          return process->told() || (!process->alive() && !process->done());
        });
    for (StockProcess* process : current_) CheckTold(*process);
    if (!over) {
      finished_ = std::all_of(current_.begin(), current_.end(),
                              [](const StockProcess* process) { return process->done(); });
      return;
    }
    const bool none_left =
        std::none_of(current_.begin(), current_.end(),
                     [](StockProcess* process) { return process->alive() && !process->told(); });
    // Others are given the time to be told.
    if (failing_ || !none_left) return;
    failing_ = true;
    for (StockProcess* process : current_) process->End();
    if (!scenario_.kills) {
      finished_ = true;
      return;
    }
    schedule_.After(random_.Between(absl::Milliseconds(10), absl::Seconds(2)),
                    [this] { StartAttempt(); });
  }

  // Once a process has heard of the death of another.
  void CheckTold(const StockProcess& process) {
    if (!killed_at_ || !job_.calm || !process.told() || told_.contains(&process)) return;
    told_.insert(&process);
    if (schedule_.now() - *killed_at_ <= kToldWithin) return;
    job_.Fail(absl::StrCat("who: ", process.name(), " was told after ",
                           absl::FormatDuration(schedule_.now() - *killed_at_)));
  }

  void FaultLater() {
    schedule_.After(random_.Between(absl::Milliseconds(1), 2 * scenario_.fault_period), [this] {
      if (schedule_.now() >= faults_end_) return;
      Fault();
      FaultLater();
    });
  }

  void Fault() {
    StockHost& host = *hosts_[random_.Index(hosts_.size())];
    switch (random_.Index(7)) {
      case 0:
        if (scenario_.crashes) {
          server_.Crash(random_.Between(absl::Milliseconds(1), scenario_.down_max));
        }
        return;
      case 1:
        if (scenario_.breaks) host.BreakLink(/*silent=*/false);
        return;
      case 2:
        if (scenario_.silences) host.BreakLink(/*silent=*/true);
        return;
      case 3:
        if (!scenario_.breaks) return;
        for (StockHost* each : hosts_) each->BreakLink(/*silent=*/false);
        return;
      case 4:
        if (scenario_.pauses) {
          server_.Pause(random_.Between(absl::Milliseconds(1), absl::Seconds(3)));
        }
        return;
      case 5:
        if (scenario_.pauses) host.Pause(random_.Between(absl::Milliseconds(1), absl::Seconds(1)));
        return;
      default:
        if (scenario_.kills && !failing_) Kill(host);
    }
  }

  // A process of the host, or its agent and with it all of them.
  void Kill(StockHost& host) {
    // Once an attempt: what processes are told is compared with it.
    if (killed_at_) return;
    std::vector<StockProcess*> here;
    for (StockProcess* process : current_) {
      const bool working = process->alive() && process->in() && !process->leaving();
      if (&process->host() == &host && working) here.push_back(process);
    }
    const bool all_in = std::all_of(current_.begin(), current_.end(), [](StockProcess* process) {
      return process->in() && !process->leaving() && process->alive();
    });
    if (here.empty() || !all_in) return;
    if (random_.Percent(60)) here = {random_.Pick(here)};
    if (here.size() > 1) host.Die();
    killed_at_ = schedule_.now();
    for (StockProcess* process : here) {
      trace_.Note(schedule_.now(), absl::StrCat("kill ", process->name()));
      job_.killed.push_back(process->name().substr(0, process->name().find(' ')));
      process->Die();
    }
  }

  bool Healthy() {
    if (!server_.failure().empty()) job_.Fail(server_.failure());
    if (server_.steps() > kStepsMost) job_.Fail("circle: too many steps");
    return job_.failure.empty();
  }

  void Unfinished() {
    std::string text = "liveness: not done in time:";
    for (const StockProcess* process : current_) {
      if (!process->done()) absl::StrAppend(&text, " ", process->name());
    }
    job_.Fail(std::move(text));
  }

  void Audit() {
    for (const auto& call : job_.calls) {
      if (call->answers == 0 && call->host->alive()) {
        return job_.Fail(absl::StrCat("once: a ", call->method, " was never answered"));
      }
    }
    job_.Fail(job_.history.Check(job_.size));
  }

  const Scenario scenario_;
  Random random_;
  const StockMutation mutant_;
  Schedule schedule_;
  Trace trace_;
  StockJob job_;
  StockServer server_;
  std::vector<std::unique_ptr<StockHost>> all_hosts_;
  std::vector<StockHost*> hosts_;  // the newest agent of each
  std::vector<std::unique_ptr<StockProcess>> all_;
  std::vector<StockProcess*> current_;  // of the newest attempt, by rank
  std::set<const StockProcess*> told_;
  uint64_t last_connection_ = 0;
  std::optional<Time> killed_at_;
  Time faults_end_;
  bool failing_ = false;
  bool finished_ = false;
};

}  // namespace

StockSimResult RunStockSeed(uint64_t seed, StockMutation mutant) {
  return World(seed, mutant).Run(seed);
}

}  // namespace lockstep::sim

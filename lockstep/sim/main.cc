// lockstep_sim: tries seeds on the coordinator until one breaks a rule, or replays one.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"
#include "lockstep/sim/data_sim.h"
#include "lockstep/sim/large_job.h"
#include "lockstep/sim/native_simulation.h"
#include "lockstep/sim/preemption_simulation.h"
#include "lockstep/sim/rendezvous_sim.h"
#include "lockstep/sim/scenario.h"
#include "lockstep/sim/simulation.h"

namespace lockstep::sim {
namespace {

// What a thread works on, ready to be printed when a broken invariant ends the process.
thread_local char replay_line[128] = "";

void PrintReplayLine(int) {
  const ssize_t written = write(STDERR_FILENO, replay_line, std::strlen(replay_line));
  static_cast<void>(written);
  signal(SIGABRT, SIG_DFL);
}

SeedResult RunNamed(uint64_t seed, const RunOptions& options) {
  absl::SNPrintF(replay_line, sizeof(replay_line),
                 "replay: build/bin/lockstep_sim --seed=%u --verbose\n", seed);
  return RunSeed(seed, options);
}

// What many seeds came to.
struct Sum {
  int64_t steps = 0;
  uint64_t hash = 0;  // in any order
  absl::Duration virtual_time;
  Coverage coverage;

  void Add(const SeedResult& result) {
    steps += result.steps;
    hash += result.hash * (2 * result.seed + 1);
    virtual_time += result.virtual_time;
    coverage.Add(result.coverage);
  }
};

int RunOne(uint64_t seed, bool verbose) {
  if (verbose) absl::PrintF("seed %u: %s\n", seed, Describe(DrawScenario(seed)));
  const SeedResult result = RunNamed(seed, {.verbose = verbose});
  if (!result.ok()) {
    absl::FPrintF(stderr, "%s", result.report);
    return 1;
  }
  absl::PrintF("seed %u: ok, %d steps in %s of virtual time, trace %016x\n", seed, result.steps,
               absl::FormatDuration(absl::Trunc(result.virtual_time, absl::Milliseconds(1))),
               result.hash);
  return 0;
}

// How many seeds are to be tried, from which, on how many threads, and after how many failures it
// is enough.
struct Seeds {
  uint64_t first = 1;
  uint64_t count = 200;
  int jobs = 2;
  int64_t failures_max = 1;
};

// What trying them came to.
struct Tried {
  int64_t seeds = 0;
  int64_t failures = 0;
  double seconds = 0;
};

// `run(seed)` gives a result of some world; `add` takes each, one at a time.
template <class Run, class Add>
Tried TrySeeds(const Seeds& seeds, const Run& run, const Add& add) {
  const auto start = std::chrono::steady_clock::now();
  std::atomic<uint64_t> next = 0;
  Mutex mutex;  // guards `tried`, and `add` and standard error
  Tried tried;
  auto work = [&] {
    for (uint64_t i = next++; i < seeds.count; i = next++) {
      const auto result = run(seeds.first + i);
      const MutexLock lock(mutex);
      ++tried.seeds;
      tried.failures += !result.ok();
      add(result);
      if (!result.ok()) absl::FPrintF(stderr, "%s\n", result.report);
      if (tried.failures >= seeds.failures_max) next = seeds.count;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < seeds.jobs; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  tried.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return tried;
}

int RunMany(const Seeds& seeds) {
  Sum sum;
  const Tried tried = TrySeeds(
      seeds, [](uint64_t seed) { return RunNamed(seed, {}); },
      [&sum](const SeedResult& result) { sum.Add(result); });
  for (size_t i = 0; i < sum.coverage.reasons.size(); ++i) {
    absl::PrintF("%-28s %d\n", coord::ReasonName(static_cast<coord::Reason>(i)),
                 sum.coverage.reasons[i]);
  }
  absl::PrintF(
      "%d seeds, %d failed; %d steps, %.1f hours of virtual time in %.1f s: %.0f seeds/s; "
      "trace %016x\n",
      tried.seeds, tried.failures, sum.steps, absl::ToDoubleHours(sum.virtual_time), tried.seconds,
      static_cast<double>(tried.seeds) / tried.seconds, sum.hash);
  return tried.failures == 0 ? 0 : 1;
}

NativeResult RunNativeNamed(uint64_t seed, const NativeOptions& options) {
  absl::SNPrintF(replay_line, sizeof(replay_line),
                 "replay: build/bin/lockstep_sim --native --seed=%u --verbose\n", seed);
  return RunNativeSeed(seed, options);
}

int RunOneNative(uint64_t seed, bool verbose) {
  if (verbose) absl::PrintF("native seed %u: %s\n", seed, Describe(DrawNativeScenario(seed)));
  const NativeResult result = RunNativeNamed(seed, {.verbose = verbose});
  if (!result.ok()) {
    absl::FPrintF(stderr, "%s", result.report);
    return 1;
  }
  absl::PrintF("native seed %u: ok, %d steps, %d crashes in %s of virtual time, trace %016x\n",
               seed, result.steps, result.crashes,
               absl::FormatDuration(absl::Trunc(result.virtual_time, absl::Milliseconds(1))),
               result.hash);
  return 0;
}

int RunManyNative(const Seeds& seeds) {
  NativeResult sum;
  const Tried tried = TrySeeds(
      seeds, [](uint64_t seed) { return RunNativeNamed(seed, {}); },
      [&sum](const NativeResult& result) {
        sum.steps += result.steps;
        sum.answered += result.answered;
        sum.passed += result.passed;
        sum.crashes += result.crashes;
        sum.forgotten += result.forgotten;
        sum.hash += result.hash * (2 * result.seed + 1);
      });
  absl::PrintF(
      "%d native seeds, %d failed; %d steps, %d operations on keys, %d arrivals released, %d "
      "crashes that took %d records, in %.1f s; trace %016x\n",
      tried.seeds, tried.failures, sum.steps, sum.answered, sum.passed, sum.crashes, sum.forgotten,
      tried.seconds, sum.hash);
  return tried.failures == 0 ? 0 : 1;
}

PreemptionResult RunPreemptionNamed(uint64_t seed, const PreemptionSimOptions& options) {
  absl::SNPrintF(replay_line, sizeof(replay_line),
                 "replay: build/bin/lockstep_sim --preemption --seed=%u --verbose\n", seed);
  return RunPreemptionSeed(seed, options);
}

int RunOnePreemption(uint64_t seed, int32_t members, bool verbose) {
  if (verbose) {
    absl::PrintF("preemption seed %u: %s\n", seed, Describe(DrawPreemptionScenario(seed, members)));
  }
  const PreemptionResult result = RunPreemptionNamed(seed, {.verbose = verbose, .size = members});
  if (!result.ok()) {
    absl::FPrintF(stderr, "%s", result.report);
    return 1;
  }
  absl::PrintF(
      "preemption seed %u: ok, %d steps, %d preemptions, %d sync steps, %d saves, %d crashes, "
      "trace "
      "%016x\n",
      seed, result.steps, result.opened, result.agreed, result.saved, result.crashes, result.hash);
  return 0;
}

int RunManyPreemption(const Seeds& seeds, int32_t members) {
  PreemptionResult sum;
  const Tried tried = TrySeeds(
      seeds, [members](uint64_t seed) { return RunPreemptionNamed(seed, {.size = members}); },
      [&sum](const PreemptionResult& result) {
        sum.steps += result.steps;
        sum.agreed += result.agreed;
        sum.saved += result.saved;
        sum.crashes += result.crashes;
        sum.hash += result.hash * (2 * result.seed + 1);
      });
  absl::PrintF(
      "%d preemption seeds, %d failed; %d steps, %d sync steps, %d saves, %d crashes, in %.1f s; "
      "trace %016x\n",
      tried.seeds, tried.failures, sum.steps, sum.agreed, sum.saved, sum.crashes, tried.seconds,
      sum.hash);
  return tried.failures == 0 ? 0 : 1;
}

RendezvousResult RunRendezvousNamed(uint64_t seed, bool verbose) {
  absl::SNPrintF(replay_line, sizeof(replay_line),
                 "replay: build/bin/lockstep_sim --rendezvous --seed=%u --verbose\n", seed);
  return RunRendezvousSeed(seed, verbose);
}

int RunOneRendezvous(uint64_t seed, bool verbose) {
  if (verbose) {
    absl::PrintF("rendezvous seed %u: %s\n", seed, Describe(DrawRendezvousScenario(seed)));
  }
  const RendezvousResult result = RunRendezvousNamed(seed, verbose);
  if (!result.ok()) {
    absl::FPrintF(stderr, "%s", result.report);
    return 1;
  }
  absl::PrintF("rendezvous seed %u: ok, %d events, %d values received, %d kills, trace %016x\n",
               seed, result.events, result.received, result.kills, result.hash);
  return 0;
}

int RunManyRendezvous(const Seeds& seeds) {
  RendezvousResult sum;
  const Tried tried = TrySeeds(
      seeds, [](uint64_t seed) { return RunRendezvousNamed(seed, false); },
      [&sum](const RendezvousResult& result) {
        sum.events += result.events;
        sum.received += result.received;
        sum.failed += result.failed;
        sum.fetched += result.fetched;
        sum.kills += result.kills;
        sum.aborted += result.aborted;
        sum.hash += result.hash * (2 * result.seed + 1);
      });
  absl::PrintF(
      "%d rendezvous seeds, %d failed; %d events, %d values received, %d of them fetched, %d "
      "operations failed, %d kills, %d aborts, in %.1f s; trace %016x\n",
      tried.seeds, tried.failures, sum.events, sum.received, sum.fetched, sum.failed, sum.kills,
      sum.aborted, tried.seconds, sum.hash);
  return tried.failures == 0 ? 0 : 1;
}

DataResult RunDataNamed(uint64_t seed, bool verbose) {
  absl::SNPrintF(replay_line, sizeof(replay_line),
                 "replay: build/bin/lockstep_sim --data --seed=%u --verbose\n", seed);
  return RunDataSeed(seed, verbose);
}

int RunOneData(uint64_t seed, bool verbose) {
  if (verbose) absl::PrintF("data seed %u: %s\n", seed, Describe(DrawDataScenario(seed)));
  const DataResult result = RunDataNamed(seed, verbose);
  if (!result.ok()) {
    absl::FPrintF(stderr, "%s", result.report);
    return 1;
  }
  absl::PrintF("data seed %u: ok, %d events, %d elements, %d kills, trace %016x\n", seed,
               result.events, result.elements, result.kills, result.hash);
  return 0;
}

int RunManyData(const Seeds& seeds) {
  DataResult sum;
  const Tried tried = TrySeeds(
      seeds, [](uint64_t seed) { return RunDataNamed(seed, false); },
      [&sum](const DataResult& result) {
        sum.events += result.events;
        sum.elements += result.elements;
        sum.kills += result.kills;
        sum.leases_ended += result.leases_ended;
        sum.agreements += result.agreements;
        sum.resumed += result.resumed;
        sum.hash += result.hash * (2 * result.seed + 1);
      });
  absl::PrintF(
      "%d data seeds, %d failed; %d events, %d elements, %d kills, %d leases ended, %d agreements "
      "on rounds, %d resumed elsewhere, in %.1f s; trace %016x\n",
      tried.seeds, tried.failures, sum.events, sum.elements, sum.kills, sum.leases_ended,
      sum.agreements, sum.resumed, tried.seconds, sum.hash);
  return tried.failures == 0 ? 0 : 1;
}

int RunLarge(int32_t members, uint64_t seed) {
  const LargeJobResult result =
      RunLargeJob({.members = members, .seed = seed, .processor_time = [] {
                     return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
                   }});
  absl::PrintF("%-24s %10s %14s %14s %11s %15s\n", "PHASE", "ANSWERS", "FROM FIRST", "FROM LAST",
               "PROCESSOR", "LONGEST EVENT");
  for (const LargeJobPhase& phase : result.phases) {
    const auto text = [](absl::Duration time) {
      return absl::StrFormat("%.1f ms", absl::ToDoubleMilliseconds(time));
    };
    absl::PrintF("%-24s %10d %14s %14s %9.2f s %12.1f ms\n", phase.name, phase.answers,
                 text(phase.first_to_last), text(phase.last_to_last), phase.processor_s,
                 phase.longest_event_s * 1000);
  }
  absl::PrintF("%d members, %.0f bytes each\n\n%s\n\n%s\n", members, result.bytes_a_member,
               result.missing_text, result.lost_text);
  if (result.failure.empty()) return 0;
  absl::FPrintF(stderr, "%s\n", result.failure);
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Tries seeds of faults on the coordinator under a virtual clock.");
  Seeds seeds;
  uint64_t seed = 0;
  bool verbose = false;
  bool native = false;
  app.add_flag("--native", native, "native clients and a server that dies, instead of stock ones");
  bool preemption = false;
  int32_t members = 0;
  app.add_flag("--preemption", preemption, "members that are preempted, and a server that dies");
  bool rendezvous = false;
  app.add_flag("--rendezvous", rendezvous, "members that send and receive values in steps");
  bool data = false;
  app.add_flag("--data", data, "a dispatcher, its workers and consumers");
  bool large = false;
  app.add_flag("--large", large, "one large job, step by step, with the delays of a network");
  app.add_option("--members", members,
                 "with --preemption, of each job, 0: drawn; with --large, 0: a million")
      ->check(CLI::Range(0, coord::Coordinator::kMembersMost));
  app.add_option("--seeds", seeds.count, "how many seeds to try")->capture_default_str();
  app.add_option("--first", seeds.first, "the first of them")->capture_default_str();
  app.add_option("--jobs", seeds.jobs, "threads")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--failures", seeds.failures_max, "stop after so many failed seeds")
      ->capture_default_str();
  CLI::Option* one = app.add_option("--seed", seed, "run this one only");
  app.add_flag("--verbose", verbose, "with --seed: print every event and effect")->needs(one);
  CLI11_PARSE(app, argc, argv);
  signal(SIGABRT, PrintReplayLine);
  if (large) return RunLarge(members == 0 ? 1'000'000 : members, std::max<uint64_t>(seed, 1));
  CheckInvariants();  // not above: some look at all members
  if (preemption) {
    if (one->count() > 0) return RunOnePreemption(seed, members, verbose);
    return RunManyPreemption(seeds, members);
  }
  if (data) return one->count() > 0 ? RunOneData(seed, verbose) : RunManyData(seeds);
  if (rendezvous) {
    return one->count() > 0 ? RunOneRendezvous(seed, verbose) : RunManyRendezvous(seeds);
  }
  if (native) {
    return one->count() > 0 ? RunOneNative(seed, verbose) : RunManyNative(seeds);
  }
  return one->count() > 0 ? RunOne(seed, verbose) : RunMany(seeds);
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) { return lockstep::sim::Main(argc, argv); }

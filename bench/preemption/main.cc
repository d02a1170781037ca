// preemption_bench: what `Reached` costs, and how long it takes from a notice until all members
// know the sync step. Needs a server: bench/preemption/run.py starts one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lockstep/client/member.h"
#include "lockstep/client/preemption.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "preemption_bench: %s\n", text.c_str());
  std::exit(1);
}

double Nanoseconds(Clock::duration span) {
  return std::chrono::duration<double, std::nano>(span).count();
}

std::vector<std::unique_ptr<Member>> JoinAll(const std::string& address, int members) {
  std::vector<std::unique_ptr<Member>> all(members);
  std::atomic<int> missing = members;
  std::vector<Pending> pending;
  for (int i = 0; i < members; ++i) {
    JoinOptions options{
        .address = address, .job = absl::StrCat("bench-", members), .index = i, .size = members};
    pending.push_back(
        JoinAsync(options, [&all, &missing, i](absl::StatusOr<std::unique_ptr<Member>> member) {
          if (!member.ok()) Die(member.status().ToString());
          all[i] = *std::move(member);
          --missing;
        }));
  }
  while (missing > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return all;
}

// Nanoseconds of one poll while nobody dies, the best of a few rounds, since noise only adds.
double CostOfAPoll(Preemption& preemption, int64_t& step) {
  constexpr int kPolls = 5'000'000;
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < kPolls; ++i) {
      if (preemption.Reached(++step)) Die("reached without a notice");
    }
    best = std::min(best, Nanoseconds(Clock::now() - begin) / kPolls);
  }
  return best;
}

// Milliseconds from the notice until the last member knows the sync step, round by round. Each
// member has polled a step before and none while it lasts: what is measured is the agreement.
std::vector<double> Agreements(std::vector<std::unique_ptr<Preemption>>& all, int rounds,
                               int64_t step) {
  std::vector<double> times;
  std::atomic<int64_t> now = 0;
  std::atomic<size_t> agreed = 0, ended = 0;
  std::atomic<int64_t> last = 0;
  for (auto& each : all) {
    each->Reached(step);
    each->OnNotice([&](const PreemptionNotice& notice) {
      if (notice.id != now) return;
      if (notice.phase == "agreed" && ++agreed == all.size()) {
        last = Clock::now().time_since_epoch().count();
      }
      if (!notice.open) ++ended;
    });
  }
  for (int64_t round = 1; round <= rounds; ++round) {
    agreed = ended = 0;
    last = 0;
    now = round;
    const Clock::time_point begin = Clock::now();
    const absl::Status told = all[0]->Notify("bench", absl::StrCat(round), absl::Minutes(1));
    if (!told.ok()) Die(told.ToString());
    while (last == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    times.push_back(Nanoseconds(Clock::duration(last) - begin.time_since_epoch()) / 1e6);
    const int64_t sync_step = *all[0]->notice().step;
    for (auto& each : all) {
      if (!each->Reached(sync_step)) Die("the sync step is not reached");
      each->Saved(sync_step);
    }
    while (ended < all.size()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  for (auto& each : all) each->OnNotice(nullptr);
  std::sort(times.begin(), times.end());
  return times;
}

int Main(int argc, char** argv) {
  CLI::App app("What preemption sync costs.");
  std::string address;
  int members = 4;
  int rounds = 50;
  app.add_option("--address", address, "of a server")->required();
  app.add_option("--members", members)->check(CLI::Range(1, 100'000));
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  const auto joined = JoinAll(address, members);
  std::vector<std::unique_ptr<Preemption>> all;
  for (const auto& member : joined) all.push_back(Preemption::Open(*member, {.stride = 1}));
  int64_t step = 0;
  const double poll_ns = CostOfAPoll(*all[0], step);
  const std::vector<double> times = Agreements(all, rounds, step);
  std::printf(
      "{\"members\": %d, \"poll_ns\": %.2f, \"agreement_ms\": {\"median\": %.3f, \"least\": %.3f, "
      "\"most\": %.3f}}\n",
      members, poll_ns, times[times.size() / 2], times.front(), times.back());
  std::fflush(stdout);
  std::_Exit(0);  // a thousand farewells measure nothing
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }

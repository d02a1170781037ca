#include "lockstep/sim/faults.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::sim {

Faults::Faults(Schedule& schedule, Network& network, Launcher& launcher, Trace& trace,
               const Scenario& scenario, Random random)
    : schedule_(schedule),
      network_(network),
      launcher_(launcher),
      trace_(trace),
      scenario_(scenario),
      random_(random) {
  const std::pair<bool, Kind> all[] = {
      {scenario.kills, Kind::kKill},   {scenario.vanishes, Kind::kVanish},
      {scenario.pauses, Kind::kStop},  {scenario.cut_offs, Kind::kCutOff},
      {scenario.breaks, Kind::kBreak}, {scenario.reports, Kind::kReport},
      {scenario.resets, Kind::kReset}};
  for (auto [on, kind] : all) {
    if (on) kinds_.push_back(kind);
  }
}

void Faults::Start() {
  end_ = schedule_.now() + scenario_.faults_last;
  if (!kinds_.empty()) Later();
}

void Faults::Later() {
  const absl::Duration delay = random_.Between(absl::Milliseconds(1), 2 * scenario_.fault_period);
  if (schedule_.now() + delay >= end_) return;
  schedule_.After(delay, [this] {
    if (std::vector<Process*> running = launcher_.Running(); !running.empty()) {
      Do(random_.Pick(kinds_), *random_.Pick(running));
    }
    Later();
  });
}

absl::Duration Faults::HowLong() {
  if (random_.Percent(60)) return random_.Between(absl::Milliseconds(1), absl::Seconds(1));
  return random_.Between(absl::Seconds(1), scenario_.coordinator.heartbeat_timeout * 3 / 2);
}

void Faults::Do(Kind kind, Process& process) {
  const auto note = [&](absl::string_view what) {
    trace_.Note(schedule_.now(), absl::StrCat(what, " task/", process.member().value()));
  };
  switch (kind) {
    case Kind::kKill:
      return launcher_.Kill(process, false);
    case Kind::kVanish:
      return launcher_.Kill(process, true);
    case Kind::kStop:
      return launcher_.StopForAWhile(process, HowLong());
    case Kind::kCutOff: {
      const Time until = std::min(schedule_.now() + HowLong(), end_);
      note(absl::StrCat("until ", absl::FormatDuration(until - Time()), ", cut off"));
      return network_.CutOff(process.peer(), until);
    }
    case Kind::kBreak:
      note("break the connection of");
      return network_.Break(process.peer());
    case Kind::kReport:
      if (!process.agent().connected()) return;
      note("error report of");
      return process.ReportError();
    case Kind::kReset:
      if (!process.agent().connected()) return;
      note("reset of");
      return process.Reset();
  }
}

}  // namespace lockstep::sim

#include "lockstep/launch/escalation.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::launch {
namespace {

std::string Processes(int count) {
  return absl::StrFormat("%d process%s", count, count == 1 ? "" : "es");
}

}  // namespace

void Escalation::GraceUntil(Time until) {
  LOCKSTEP_CHECK(before_sigterm());
  step_ = Step::kGrace;
  at_ = until;
}

void Escalation::HoldUntil(Time until) {
  meant_ = at_;
  GraceUntil(std::max(at_, until));
}

void Escalation::Unhold(Time now) { GraceUntil(std::min(at_, std::max(now, meant_))); }

void Escalation::Terminate(Time now, bool to_restart, ProcessTable& processes, Effects& out) {
  step_ = Step::kTerminated;
  at_ = now + (to_restart ? options_->stop_grace : options_->terminate_grace);
  const int running = processes.CountRunning();
  if (running == 0) return;
  if (!to_restart) {
    out.sentences.push_back(absl::StrCat("the grace is over: SIGTERM to ", Processes(running)));
  }
  // JAX takes SIGTERM for a preemption; the server knows better when it is told before.
  processes.ReportEnding(out);
  processes.SignalRunning(SIGTERM, out);
  // A stopped process takes SIGTERM only when it goes on.
  processes.SignalRunning(SIGCONT, out);
}

void Escalation::Kill(Time now, ProcessTable& processes, Effects& out) {
  step_ = Step::kKilled;
  at_ = now + options_->kill_grace;
  const int running = processes.CountRunning();
  if (running > 0) {
    out.sentences.push_back(absl::StrCat("SIGKILL to ", Processes(running)));
    processes.SignalRunning(SIGKILL, out);
  }
  processes.ReleaseEnded(out);
}

bool Escalation::Advance(Time now, bool to_restart, ProcessTable& processes, Effects& out) {
  if (now < at_) return false;
  switch (step_) {
    case Step::kGrace:
      Terminate(now, to_restart, processes, out);
      return false;
    case Step::kTerminated:
      Kill(now, processes, out);
      return false;
    case Step::kKilled:
      step_ = Step::kGivenUp;
      at_ = Time::Infinite();
      return processes.GiveUpRunning(now, options_->kill_grace, out);
    case Step::kNone:
    case Step::kGivenUp:
      break;
  }
  return false;
}

}  // namespace lockstep::launch

// The way from asking processes to end to SIGKILL: how far it has come, and when it goes on. Pure.
#pragma once

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/process_table.h"
#include "lockstep/launch/supervisor_effects.h"
#include "lockstep/launch/supervisor_options.h"

namespace lockstep::launch {

// Nothing; the grace, in which processes end by themselves; SIGTERM; SIGKILL; given up. It goes one
// way, and ends: each step but the grace has an end of its own.
//
// Invariants: nothing is due before it has begun or after it is given up.
// Threads: thread-compatible. `options` must outlive it.
class Escalation {
 public:
  explicit Escalation(const SupervisorOptions& options) : options_(&options) {}

  // Also once everything has been tried: it never begins again.
  bool begun() const { return step_ != Step::kNone; }
  // Processes still have time to end by themselves.
  bool in_grace() const { return step_ == Step::kGrace; }
  // SIGTERM has not been sent, whether the grace has begun or not.
  bool before_sigterm() const { return step_ <= Step::kGrace; }
  // When to call `Advance`; infinite: nothing is due.
  Time deadline() const { return at_; }

  // The grace ends at `until`, whether it has begun or not. Before SIGTERM only, as the next two.
  void GraceUntil(Time until);
  // It ends by then.
  void GraceAtMostUntil(Time until) { GraceUntil(at_ < until ? at_ : until); }
  // It does not end before `until`, since a process is about to say why it fails, unless `Unhold`
  // is called.
  void HoldUntil(Time until);
  // The process has said why: what `HoldUntil` put off is due at its time, or now if that is past.
  void Unhold(Time now);

  // SIGTERM to those that run. `to_restart`: they are started again, so they are ended without a
  // word and sooner.
  void Terminate(Time now, bool to_restart, ProcessTable& processes, Effects& out);
  // SIGKILL to those that run, at any time. What others left behind is not waited for any longer.
  void Kill(Time now, ProcessTable& processes, Effects& out);
  // Takes the next step if it is due. Returns whether a process had to be given up.
  bool Advance(Time now, bool to_restart, ProcessTable& processes, Effects& out);

 private:
  enum class Step { kNone, kGrace, kTerminated, kKilled, kGivenUp };

  const SupervisorOptions* options_;  // not a reference: an attempt is assigned
  Step step_ = Step::kNone;
  Time at_ = Time::Infinite();     // of the next step
  Time meant_ = Time::Infinite();  // at which it would be, but for `HoldUntil`
};

}  // namespace lockstep::launch

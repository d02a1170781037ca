// What a member does about a preemption: where it waits, at which step it saves, what it tells the
// server. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/client/step_pace.h"
#include "lockstep/wire/native/preemption_messages.h"

namespace lockstep::client {

// Follows the server's preemptions for one member, between the threads that poll steps and the one
// that hears the server.
//
// Who polls a step stores it, then looks at the hold, and goes on when the step is below it: no
// lock. Whoever takes a state of the server raises the hold above all (kRaised) first, and then
// reads the newest step. Both with sequential consistency: either the poller sees the hold, or the
// reader sees the step. So the step that is offered is in nobody's past, and who was too late to be
// counted comes here and waits.
//
// Invariants: (1) true is answered for one step of a preemption only, and for that one every time,
// until a later one is polled behind its end: the first that is polled at or after its sync step;
// for the sync step itself, or never, where that was agreed on without us; (2) never when a later
// step was passed before.
//
// Threads: thread-compatible; its owner's mutex covers it.
class HoldMachine {
 public:
  // Values of the hold: every poll, and none, comes here.
  static constexpr int64_t kRaised = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kDown = std::numeric_limits<int64_t>::max();
  // Of the newest step: none was polled yet.
  static constexpr int64_t kNoStep = -1;

  struct Options {
    int64_t stride = 0;  // 0: learnt from the steps that are seen
    std::optional<int64_t> last_step;
    absl::Duration save_estimate;  // zero: learnt from the last save
    // How long a poll waits for a sync step that does not come, since the server is away.
    absl::Duration wait_max = absl::Seconds(30);
  };
  enum class Verdict { kNo, kYes, kWait };

  // What the server is to be told.
  struct Effects {
    std::optional<wire::native::AnswerHold> answer;
    std::optional<wire::native::ReportSave> report;
  };

  explicit HoldMachine(Options options) : options_(options) {}

  // Where the hold belongs now.
  int64_t hold() const;
  const wire::native::PreemptionState& state() const { return state_; }

  // The server's state. `step`: the newest that was polled, read with the hold raised.
  void Take(Time now, wire::native::PreemptionState state, int64_t step, Effects& out);
  // A poll that the hold stopped. kWait: ask again when something was taken, or at `WaitsUntil`.
  Verdict Poll(Time now, int64_t step, Effects& out);
  Time WaitsUntil() const { return waits_until_; }

  // The program says so.
  void Saved(Time now, int64_t step, std::string text, Effects& out);
  // Does not count as a save by which the next one's time is estimated.
  void FailedToSave(int64_t step, std::string text, Effects& out);
  // No poll follows: from now on nothing is offered. Reported once.
  void Finish(Effects& out);

  // The session is over, and with it every preemption that it could tell of: no poll waits, and
  // nothing is told.
  void SessionEnded() { finished_ = true; }

  // The newest step, now and then: by this the stride and the time of a step are learnt. kNoStep is
  // ignored.
  void Sample(Time now, int64_t step) {
    if (step != kNoStep) pace_.Sample(now, step);
  }

 private:
  using Phase = wire::native::PreemptionPhase;
  // The step that true was answered for.
  struct Hit {
    int64_t step = 0;
    Time at;
  };

  bool holding() const { return state_.phase == Phase::kHolding; }
  int64_t Stride() const;
  void Offer(std::optional<int64_t> first, Effects& out);
  void Tell(std::optional<int64_t> first, Effects& out) const;

  const Options options_;
  wire::native::PreemptionState state_{.phase = Phase::kNone,
                                       .outcome = wire::native::PreemptionOutcome::kNone};
  bool finished_ = false;

  // Of the current preemption.
  std::optional<int64_t> offered_;  // the first step that was told
  int64_t offered_stride_ = 1;
  bool counted_ = false;  // the sync step heeds what was offered
  bool gave_up_ = false;  // it waited too long: no hold any more
  bool passed_ = false;   // it was beyond the sync step
  std::optional<Hit> hit_;
  Time waits_until_ = Time::Infinite();

  StepPace pace_;
  absl::Duration save_time_;  // of the last save
};

}  // namespace lockstep::client

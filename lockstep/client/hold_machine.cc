#include "lockstep/client/hold_machine.h"

#include <algorithm>
#include <utility>

namespace lockstep::client {

using wire::native::PreemptionState;
using wire::native::SyncState;

// Every step lies between a raised hold, which stops it, and one that is down. kNoStep is none.
static_assert(HoldMachine::kRaised < HoldMachine::kNoStep);
static_assert(HoldMachine::kNoStep < 0 && 0 < HoldMachine::kDown);

int64_t HoldMachine::Stride() const {
  return options_.stride > 0 ? options_.stride : pace_.stride();
}

int64_t HoldMachine::hold() const {
  // Beyond the step that was answered, the first poll takes the hold down.
  if (hit_) return hit_->step;
  if (finished_ || gave_up_ || passed_) return kDown;
  if (holding()) return kRaised;
  return state_.phase == Phase::kAgreed && state_.sync_step ? *state_.sync_step : kDown;
}

void HoldMachine::Offer(std::optional<int64_t> first, Effects& out) {
  offered_ = first;
  offered_stride_ = Stride();
  Tell(first, out);
}

void HoldMachine::Tell(std::optional<int64_t> first, Effects& out) const {
  out.answer = {
      .preemption = state_.id,
      .first = first,
      .stride = Stride(),
      .last_step = options_.last_step,
      .step_time_us = absl::ToInt64Microseconds(pace_.step_time()),
      .save_time_us = absl::ToInt64Microseconds(
          options_.save_estimate > absl::ZeroDuration() ? options_.save_estimate : save_time_)};
}

void HoldMachine::Take(Time now, PreemptionState state, int64_t step, Effects& out) {
  const bool another = state.id != state_.id;
  const bool asked = state.phase == Phase::kHolding &&
                     (another || state_.phase != Phase::kHolding || state.round != state_.round);
  const bool agreed = state.phase == Phase::kAgreed && (another || state_.phase != Phase::kAgreed);
  state_ = std::move(state);
  if (another) {
    offered_.reset();
    hit_.reset();
    gave_up_ = passed_ = counted_ = false;
  }
  if (!holding()) waits_until_ = Time::Infinite();
  if (finished_) return;
  if (asked) {
    waits_until_ = now + options_.wait_max;
    // A poll that waits here offered its own step, and still waits.
    if (offered_ && !std::exchange(gave_up_, false)) return Offer(offered_, out);
    if (step == kNoStep) return Offer(std::nullopt, out);
    return Offer(step > kDown - Stride() ? kDown : step + Stride(), out);
  }
  if (!agreed || hit_ || !state_.sync_step) return;
  const int64_t sync_step = *state_.sync_step;
  counted_ = offered_ && !gave_up_ && sync_step >= *offered_ &&
             (sync_step - *offered_) % offered_stride_ == 0;
  if (counted_) return;
  // The agreement was made without us: whether it is too late only we can say. A poll of the sync
  // step itself may be on its way here.
  passed_ = step > sync_step;
  gave_up_ = false;
  Tell(step == kNoStep ? std::nullopt : std::optional(passed_ ? step : sync_step), out);
}

HoldMachine::Verdict HoldMachine::Poll(Time now, int64_t step, Effects& out) {
  if (hit_) {
    if (step <= hit_->step) return step == hit_->step ? Verdict::kYes : Verdict::kNo;
    // The work goes on behind it.
    if (state_.phase != Phase::kAgreed) hit_.reset();
    return Verdict::kNo;
  }
  if (finished_ || gave_up_ || passed_) return Verdict::kNo;
  if (holding()) {
    if (offered_ && step < *offered_) return Verdict::kNo;  // one from before, asked once more
    if (now >= waits_until_) {
      gave_up_ = true;
      return Verdict::kNo;
    }
    if (!offered_) {
      waits_until_ = now + options_.wait_max;
      Offer(step, out);
    }
    return Verdict::kWait;
  }
  if (state_.phase != Phase::kAgreed || !state_.sync_step || step < *state_.sync_step) {
    return Verdict::kNo;
  }
  if (!counted_ && step > *state_.sync_step) {
    // It does not come by the step at which the others save.
    passed_ = true;
    Tell(step, out);
    return Verdict::kNo;
  }
  hit_ = {.step = step, .at = now};
  out.report = {.preemption = state_.id, .state = SyncState::kReached, .step = step, .text = {}};
  return Verdict::kYes;
}

void HoldMachine::Saved(Time now, int64_t step, std::string text, Effects& out) {
  if (hit_ && step == hit_->step) save_time_ = now - hit_->at;
  out.report = {
      .preemption = state_.id, .state = SyncState::kSaved, .step = step, .text = std::move(text)};
}

void HoldMachine::FailedToSave(int64_t step, std::string text, Effects& out) {
  out.report = {
      .preemption = state_.id, .state = SyncState::kFailed, .step = step, .text = std::move(text)};
}

void HoldMachine::Finish(Effects& out) {
  if (std::exchange(finished_, true)) return;
  out.report = {
      .preemption = state_.id, .state = SyncState::kFinished, .step = std::nullopt, .text = {}};
}

}  // namespace lockstep::client

#include "lockstep/rendezvous/steps.h"

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/rendezvous/texts.h"

namespace lockstep::rendezvous {

using Phase = Step::Phase;

Step* Steps::Find(StepId id) {
  const auto found = steps_.find(id);
  return found == steps_.end() ? nullptr : &found->second;
}

const Step* Steps::Find(StepId id) const {
  const auto found = steps_.find(id);
  return found == steps_.end() ? nullptr : &found->second;
}

ErrorPtr Steps::CheckUsable(StepId id) const {
  if (ended_) return ended_;
  const Step* step = Find(id);
  // The abort first: it says why, also where the step was closed since.
  if (step != nullptr && step->aborted) return step->aborted;
  // Before the mark is asked: a step may be open for longer than thousands of others.
  if (step != nullptr && step->phase == Phase::kOpen) return nullptr;
  if (closed_.Contains(id)) return StepClosedHere(id);
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStepNotOpened,
                   absl::StrCat("step ", id.value(), " is not open here: open it first"));
}

ErrorPtr Steps::WhyOver(const Step& step) const {
  if (ended_) return ended_;
  if (step.aborted) return step.aborted;
  return step.phase == Phase::kClosed ? StepClosedHere(step.id) : nullptr;
}

ErrorPtr Steps::Open(StepId id) {
  if (ended_) return ended_;
  if (id.value() < 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                     absl::StrCat("step ", id.value(), ": steps count from 0"));
  }
  if (const Step* known = Find(id); known != nullptr && known->phase == Phase::kOpen) {
    return nullptr;
  }
  // Behind the open ones, as in `CheckUsable`.
  if (closed_.Contains(id)) return StepClosedHere(id);
  const auto [found, is_new] = steps_.try_emplace(id);
  Step& step = found->second;
  if (!is_new) {
    // An open one was found before, and a closed one is in `closed_`.
    LOCKSTEP_DCHECK(step.phase == Phase::kUnopened && unopened_ > 0);
    --unopened_;
    // Open, it stays until the program closes it.
    SetExpiry(step, Time::Infinite());
  }
  step.id = id;
  step.phase = Phase::kOpen;
  return nullptr;
}

void Steps::Close(Time now, Step& step) {
  LOCKSTEP_CHECK(step.phase == Phase::kOpen);
  step.phase = Phase::kClosed;
  closed_.Add(step.id);
  if (step.aborted) {
    // For members that come when the step is forgotten; the oldest are asked for least.
    kept_aborts_[step.id] = EchoOfAbort(step);
    if (kept_aborts_.size() > options_.kept_aborts_max) kept_aborts_.erase(kept_aborts_.begin());
  }
  // What was sent is kept for its receivers, but not for ever.
  SetExpiry(step, now + options_.closed_ttl);
}

Step* Steps::Touch(Time now, StepId id, MemberIndex by) {
  Step* step = Find(id);
  if (step == nullptr) {
    // Others could name steps without end, so that they are bounded.
    if (closed_.Contains(id) || unopened_ >= options_.unopened_steps_max) return nullptr;
    step = &steps_[id];
    step->id = id;
    SetExpiry(*step, now + options_.unopened_ttl);
    ++unopened_;
  }
  // Whoever took part in it hears when it is closed here.
  step->peers.insert(by);
  return step;
}

void Steps::End(ErrorPtr why) {
  // Null would mean that nothing has ended.
  LOCKSTEP_DCHECK(why != nullptr && ended_ == nullptr);
  ended_ = std::move(why);
  // Nothing is kept for anybody any more, so that nothing has to be dropped in time.
  expiries_.clear();
}

ErrorPtr Steps::EchoOfAbort(const Step& step) const {
  LOCKSTEP_DCHECK(step.aborted != nullptr);
  // An echo already: it names the member at which the abort began.
  if (step.aborted->origin.has_value()) return step.aborted;
  Error told = *step.aborted;
  told.origin = options_.self;
  told.message = absl::StrCat(NameOf(options_, options_.self), " aborted step ", step.id.value(),
                              ": ", step.aborted->message);
  return std::make_shared<const Error>(std::move(told));
}

ErrorPtr Steps::AbortFor(StepId id) const {
  if (const Step* step = Find(id); step != nullptr && step->aborted) return EchoOfAbort(*step);
  const auto kept = kept_aborts_.find(id);
  return kept == kept_aborts_.end() ? nullptr : kept->second;
}

void Steps::SetExpiry(Step& step, Time at) {
  // By its former time, under which the set has it.
  expiries_.erase({step.expires, step.id});
  step.expires = at;
  if (!at.is_infinite()) expiries_.insert({at, step.id});
}

Step* Steps::TakeExpired(Time now) {
  if (expiries_.empty() || expiries_.begin()->first > now) return nullptr;
  Step* step = Find(expiries_.begin()->second);
  // Expiries name steps that are there.
  LOCKSTEP_DCHECK(step != nullptr);
  SetExpiry(*step, Time::Infinite());
  return step;
}

void Steps::ForgetUnopened(Step& step) {
  LOCKSTEP_CHECK(step.phase == Phase::kUnopened);
  SetExpiry(step, Time::Infinite());
  LOCKSTEP_DCHECK(unopened_ > 0);
  --unopened_;
  steps_.erase(step.id);
}

void Steps::ForgetIfDone(StepId id) {
  Step* step = Find(id);
  if (step == nullptr || step->phase != Phase::kClosed) return;
  // Its receives, and the values that came for them, ended when it was closed.
  LOCKSTEP_DCHECK(step->inbox.empty());
  if (step->outbox.held() > 0 || step->lent > 0 || !step->fetching.empty()) return;
  SetExpiry(*step, Time::Infinite());
  steps_.erase(id);
}

std::vector<StepId> Steps::Ids() const {
  std::vector<StepId> ids;
  ids.reserve(steps_.size());
  for (const auto& [id, step] : steps_) ids.push_back(id);
  // The order of effects must not depend on a hash.
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace lockstep::rendezvous

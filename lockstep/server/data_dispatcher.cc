#include "lockstep/server/data_dispatcher.h"

#include <cstdint>
#include <utility>

#include "lockstep/platform/runtime/host.h"
#include "lockstep/server/data_shape.h"

namespace lockstep::server {
namespace {

// Of a dispatcher that does not know which ids others have had.
int64_t FirstIdOfNone() { return static_cast<int64_t>(runtime::RandomNumber() >> 32) << 20; }

dispatch::Options Completed(dispatch::Options options, bool keeps) {
  options.make_shape = MakeDataShape;
  options.service = runtime::RandomNumber() | 1;
  if (!keeps) options.first_id = FirstIdOfNone();
  return options;
}

}  // namespace

DataDispatcher::DataDispatcher(runtime::Loop& loop, dispatch::Options options, bool keeps, Due due)
    : options_(Completed(std::move(options), keeps)),
      dispatcher_(options_),
      due_(std::move(due)),
      timer_(loop) {}

dispatch::Effects DataDispatcher::Handle(dispatch::Event event) {
  dispatch::Effects effects;
  dispatcher_->Handle(runtime::MonotonicNow(), std::move(event), effects);
  ArmTimer();
  return effects;
}

void DataDispatcher::ArmTimer() {
  const Time next = dispatcher_->NextDeadline();
  // A timer that is armed for earlier is left: it comes for nothing once.
  if (next >= armed_for_) return;
  armed_for_ = next;
  timer_.Arm(next, [this] {
    armed_for_ = Time::Infinite();
    due_();
  });
}

void DataDispatcher::SetAside(Refusal refusal) {
  refusal_ = std::move(refusal);
  dispatch::Options options = options_;
  // No id stands for two things, though those that it had are not known.
  options.first_id = FirstIdOfNone();
  dispatcher_.emplace(std::move(options));
}

}  // namespace lockstep::server

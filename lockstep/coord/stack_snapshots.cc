#include "lockstep/coord/stack_snapshots.h"

#include <utility>

namespace lockstep::coord {

void StackSnapshots::Asks(StackSnapshot look) {
  // Before the look is moved. The first time-out tells most, so others wait.
  next_ = look.at + options_.interval;
  last_ = std::move(look);
}

void StackSnapshots::Asked(StackSnapshot look) {
  // Our own question comes back this way, too.
  const bool known = last_ && last_->id == look.id;
  if (!known && Wants(look.at)) last_ = std::move(look);
}

void StackSnapshots::ProcessStarted() {
  // What was seen of the former process says nothing of this one.
  last_.reset();
  next_ = Time();
}

const StackSnapshot* StackSnapshots::Last(Time now) const {
  // Its answers live no longer, so an older look leads nowhere.
  return last_ && now - last_->at <= options_.kept ? &*last_ : nullptr;
}

}  // namespace lockstep::coord

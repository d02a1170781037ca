#include "lockstep/coord/stack_looks.h"

#include <utility>

namespace lockstep::coord {

void StackLooks::Asks(StackLook look) {
  next_ = look.at + options_.interval;
  last_ = std::move(look);
}

void StackLooks::Asked(StackLook look) {
  // Our own question comes back this way, too.
  const bool known = last_ && last_->id == look.id;
  if (!known && Wants(look.at)) last_ = std::move(look);
}

void StackLooks::ProcessStarted() {
  // What was seen of the former process says nothing of this one.
  last_.reset();
  next_ = Time();
}

const StackLook* StackLooks::Last(Time now) const {
  return last_ && now - last_->at <= options_.kept ? &*last_ : nullptr;
}

}  // namespace lockstep::coord

#include "lockstep/client/effect_acks.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::client {

void EffectAcks::Answered(Time now, RequestNumber request) {
  LOCKSTEP_DCHECK(!open_.contains(request));
  last_answered_ = std::max(last_answered_, request);
  if (unreported_++ == 0) unreported_since_ = now;
}

Time EffectAcks::Due() const {
  return unreported_ == 0 ? Time::Infinite() : unreported_since_ + interval_;
}

std::optional<RequestNumber> EffectAcks::Report(Time now) {
  unreported_since_ = now;
  unreported_ = 0;
  // Not past one without an answer: the server would forget what it is about to say.
  const RequestNumber through = open_.empty() ? last_answered_ : *open_.begin() - 1;
  if (through <= reported_) return std::nullopt;
  LOCKSTEP_DCHECK(open_.empty() || through < *open_.begin());
  reported_ = through;
  return through;
}

}  // namespace lockstep::client

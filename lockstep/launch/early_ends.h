// Says that processes ended with exit code 0 while others go on, or before the first failure. Pure.
#pragma once

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/process_table.h"
#include "lockstep/launch/supervisor_effects.h"

namespace lockstep::launch {

// Frameworks fail or wait when a peer is gone, and say nothing of a peer that ended with 0. Whether
// that is the reason nobody here knows, so it is told as what happened; once in an attempt.
//
// Threads: thread-compatible.
class EarlyEnds {
 public:
  // When it is to be told that others go on; infinite: not.
  Time TellAt(const ProcessTable& processes, absl::Duration after) const;
  // At `TellAt`; says it once.
  void Tell(Time now, const ProcessTable& processes, Effects& out);
  // It needs not be told any more, since something else explains that processes go on or fail.
  void Drop() { told_ = true; }
  // The first failure came, of the process `failed`: notes what the others had done before, and
  // says who had ended well. What ends when somebody was killed needs no such explanation.
  void LookBack(Time now, const ProcessRecord& failed, ProcessTable& processes, Effects& out);

 private:
  bool told_ = false;
};

}  // namespace lockstep::launch

// Speaks of preemptions with stock JAX members: by upstream's key, counters and barrier. Pure.
#pragma once

#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/key_values.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/preemption_sync.h"

namespace lockstep::coord {

// Translates between PreemptionSync and what stock members do. They hear of a preemption when a key
// is set, publish their step counters as keys, and meet at a barrier; none of that is addressed to
// the server, which reads it along.
//
// Threads: thread-compatible. Holds nothing of its own.
class StockPreemption {
 public:
  // All must outlive it.
  StockPreemption(const JobRecord& job, const Membership& membership, PreemptionSync& preemption,
                  KeyValues& keys)
      : job_(job), membership_(membership), preemption_(preemption), keys_(keys) {}

  // A key is about to be set. If it is a stock member's notice or counter, PreemptionSync learns
  // it.
  void ObserveStockKey(Time now, const SetKey& request, Effects& out);

  // Tells PreemptionSync when stock members have met, and stock members when a preemption has
  // begun. To be called after every event, with all effects of it.
  void Settle(Time now, Effects& out);

 private:
  void ReadNotice(Time now, const SetKey& request, Effects& out);

  const JobRecord& job_;
  const Membership& membership_;
  PreemptionSync& preemption_;
  KeyValues& keys_;
};

}  // namespace lockstep::coord

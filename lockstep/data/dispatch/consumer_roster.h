// Consumers of an iteration come, go, are lost, and come back. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/reading_mode.h"

namespace lockstep::dispatch {

// Carries out what becomes of a consumer, in the ledger and in its session; whether it may is
// decided before (admission.h). A consumer that is lost leaves, or (rounds that wait for who is
// lost) is away: then its place waits for its successor.
//
//   Join -> there --Leave, Lose--> gone
//             | ^       '--> away --TakeBack (itself), Replace (its successor)--> there
//             '-' Replace
class ConsumerRoster {
 public:
  // Of one iteration; both outlive it.
  ConsumerRoster(const IterationParts& parts, ReadingMode& mode) : parts_(parts), mode_(mode) {}

  // A consumer of a new id, with a session, whose lease counts from now.
  ConsumerSession& Join(Time now, const OpenIteration& request, Effects& out);
  // Another process speaks for the consumer; null: that begins as one that was never there.
  ConsumerSession* Replace(Time now, ConsumerId id, const OpenIteration& request, Effects& out);
  // The process whose lease had ended is heard again before anybody took its place.
  void TakeBack(ConsumerId id, Effects& out);
  // It closes its reader.
  void Leave(Time now, ConsumerId id, Effects& out);
  // `ended`: its process is known to have ended, so that it does not come back itself.
  void Lose(Time now, ConsumerId id, const std::string& why, bool ended, Effects& out);
  // OnLost::kAuto: who reads is to be waited for from here on.
  void AwaitLost(Effects& out);
  // When the iteration is collected, if nobody comes.
  void SetIdle(Time now);

 private:
  const ConsumerEntry& Entry(ConsumerId id) const { return parts_.ledger.consumers().at(id); }
  // Whether its place waits for it; otherwise it has none.
  bool SetAway(Time now, ConsumerId id, const std::string& why, bool ended, Effects& out);
  void Remove(Time now, ConsumerId id, bool lease_ended, Effects& out);

  const IterationParts parts_;
  ReadingMode& mode_;
};

}  // namespace lockstep::dispatch

// Holds back what the dispatcher wants until the records that came with it are durable.
#pragma once

#include <functional>
#include <memory>

#include "lockstep/data/dispatch/effects.h"
#include "lockstep/server/commit_queue.h"

namespace lockstep::server {

// Effects come out in the order in which they went in: those without records of their own, too,
// wait for the records before them.
//
// Threads: loop-confined. Ownership: the queue, and what the callback uses, must outlive it.
// Bounds: the queue's.
class DataEffectGate {
 public:
  // `durable` is false when it is not known whether the records were kept.
  using CarryOut = std::function<void(const dispatch::Effects& effects, bool durable)>;

  DataEffectGate(CommitQueue& commits, CarryOut carry_out);

  // Calls `carry_out` with the effects: at once, or when all records up to theirs are durable.
  void Settle(dispatch::Effects effects);
  // Whether records are written to a journal.
  bool keeps() const { return keeps_ && commits_.keeps(); }
  // From here on records are not kept.
  void StopKeeping() { keeps_ = false; }

 private:
  CommitQueue::Release Later(dispatch::Effects effects);

  CommitQueue& commits_;
  const CarryOut carry_out_;
  bool keeps_ = true;
  // Gone with this, for what is still held then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::server

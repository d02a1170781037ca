// How the elements of an iteration go to its consumers: what differs by Mode. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/consumer_sessions.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/iteration_ledger.h"
#include "lockstep/data/dispatch/view.h"
#include "lockstep/data/dispatch/worker_choice.h"

namespace lockstep::dispatch {

// What the parts of one iteration work on. All of it is owned by the Iteration, and outlives them.
struct IterationParts {
  DispatcherState& state;
  IterationLedger& ledger;
  ConsumerSessions& sessions;
  WorkerChoice& choice;
};

// The policy of one mode, chosen once when the iteration is made. It decides which grants there
// are, who is told what, and when all was read; consumers and workers come and go elsewhere.
//
// Methods that take what a consumer says are called only while the iteration is being read.
class ReadingMode {
 public:
  explicit ReadingMode(const IterationParts& parts) : parts_(parts) {}
  virtual ~ReadingMode() = default;
  ReadingMode(const ReadingMode&) = delete;
  ReadingMode& operator=(const ReadingMode&) = delete;

  // --- What a consumer says ---
  virtual void TakeAcks(const std::vector<LaneAck>& /*acks*/, ConsumerSession& /*session*/,
                        Effects& /*out*/) {}
  // Of a poll that is newer than all before; its acknowledgements were taken already.
  virtual void TakePoll(const ConsumerPoll& poll, ConsumerSession& session, Effects& out) = 0;
  // It goes, and says how far it came.
  virtual void TakeClose(const CloseConsumer& /*close*/, ConsumerSession& /*session*/) {}
  // Whether the failure is of a segment that somebody may ask for.
  virtual bool IsGiven(const SegmentFailure& failure) const = 0;

  // --- Consumers come and go ---
  // Its place waits for it when it is lost.
  virtual bool KeepsPlace(ConsumerId /*consumer*/) const { return false; }
  // Before it goes, or is away.
  virtual void Forget(ConsumerId /*consumer*/) {}
  // Somebody goes without a word of how far it came.
  virtual void NoteUnsaid() {}
  // Another process goes on for it, from this round when it said so.
  virtual void TakeReplaced(ConsumerSession& /*session*/, int64_t /*round*/, Effects& /*out*/) {}

  // --- The iteration ---
  // Each worker's task is recorded, since segments or rounds belong to it.
  virtual bool RecordsTasks() const = 0;
  // After the last record of a former life.
  virtual void TakeRestored() {}
  // Somebody reads on from before the end.
  virtual void TakeReopened() {}
  // All was read, or it failed: what is kept for reading may go.
  virtual void TakeEnded() {}
  // After every event that touched it, while it is being read: gives what is to be given.
  virtual void Settle(Time now, Effects& out) = 0;
  virtual bool IsFinished() const = 0;  // whether nothing is left to read, for anybody

  // --- What is told ---
  virtual void FillAssignment(const ConsumerSession& session, Assignment& assignment) = 0;
  // What this mode alone knows, for `status`.
  virtual void FillRow(IterationRow& /*row*/) const {}

 protected:
  const IterationLedger& ledger() const { return parts_.ledger; }
  const Options& options() const { return parts_.state.options; }
  ConsumerSessions& sessions() const { return parts_.sessions; }
  WorkerChoice& choice() const { return parts_.choice; }
  template <class R>
  void Commit(R record, Effects& out) {
    parts_.ledger.Commit(std::move(record), out);
  }

 private:
  const IterationParts parts_;
};

// That of the iteration's spec; `parts` outlive it.
std::unique_ptr<ReadingMode> MakeReadingMode(const IterationParts& parts);

}  // namespace lockstep::dispatch

// One member's part in the rendezvous of its job: which value goes to which receive, in which step,
// and what becomes of those whose other side does not come. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/effects.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/operations.h"
#include "lockstep/rendezvous/options.h"
#include "lockstep/rendezvous/peers.h"
#include "lockstep/rendezvous/receiver.h"
#include "lockstep/rendezvous/send_quota.h"
#include "lockstep/rendezvous/sender.h"
#include "lockstep/rendezvous/steps.h"
#include "lockstep/rendezvous/view.h"

namespace lockstep::rendezvous {

// A value stays with its sender until its receiver is done with it. Matching happens at the
// receiver: the sender *offers* values in order, unasked as far as the receiver's credit goes; a
// receive that has waited for a while *wants*, and is offered what is there at once.
//
// The parts: `Sender` and `Receiver`, which go by messages; `Steps`, `Peers`, `Operations` and
// `SendQuota`, which both of them use. Here is what concerns all parts: a step or a member ends,
// and time passes.
//
// Invariants: (1) every operation is completed exactly once; (2) the k-th value of a key goes to
// the k-th receive that does not leave; (3) an aborted step completes nothing with a value;
// (4) memory that another member may look at is dropped only when it said so, or is lost;
// (5) what is held is within the quota.
//
// Threads: thread-compatible. Bounds: Options.
class RendezvousMachine {
 public:
  explicit RendezvousMachine(Options options);
  // Its parts refer to each other.
  RendezvousMachine(const RendezvousMachine&) = delete;
  RendezvousMachine& operator=(const RendezvousMachine&) = delete;

  // --- The program ---

  // As Steps::Open: null, or why the step cannot be used (any more). Opening an open step is no
  // mistake.
  ErrorPtr OpenStep(Time now, StepId step);
  // Nothing more is sent or received here in this step; what was sent may still be received.
  void CloseStep(Time now, StepId step, Effects& out);
  // The step has failed: for all members. The first error is the one that counts.
  void Abort(Time now, StepId step, ErrorPtr why, Effects& out);
  // Everything ends, with this error.
  void Close(const ErrorPtr& why, Effects& out);

  // As of Sender.
  ErrorPtr Send(Time now, Post&& post, Effects& out) {
    return Send(now, std::move(post), OpId(), Time::Infinite(), out);
  }
  ErrorPtr Send(Time now, Post&& post, OpId told, Time deadline, Effects& out);
  void SendWhenRoom(Time now, Post&& post, OpId op, Time deadline, Effects& out);

  // As of Receiver.
  void Receive(Time now, const Ask& ask, Effects& out);
  // Completes it with CANCELLED, `cancelled`, unless it was completed.
  void Cancel(Time now, OpId op, Effects& out);
  // The program does not look at a received value any more.
  void Release(MemberIndex from, LeaseId lease, Effects& out);

  // --- The shell ---

  // Null: the bytes are where they belong.
  void Fetched(Time now, OpId op, const ErrorPtr& error, Effects& out);
  // The other member died, left, or cannot be reached for good. What it lent is nobody's any more.
  void PeerLost(Time now, MemberIndex peer, const ErrorPtr& why, Effects& out);
  // It is there, again, as another incarnation.
  void PeerBack(MemberIndex peer);
  void Take(Time now, MemberIndex from, PeerMessage message, Effects& out);

  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  // The bytes of a lent value, for whoever fetches it; null when that peer has no such lease.
  const Value* Lent(MemberIndex peer, LeaseId lease) const;

  View GetView(Time now, size_t rows_max) const;
  size_t steps() const { return steps_.size(); }
  size_t ops() const { return ops_.size(); }
  uint64_t held_bytes() const { return quota_.bytes(); }
  size_t held_values() const { return quota_.values(); }

 private:
  void Handle(Time now, MemberIndex from, AbortStep& abort, Effects& out);
  // `told_by`: who says so, and need not be told.
  void FailStep(Time now, Step& step, ErrorPtr why, std::optional<MemberIndex> told_by,
                Effects& out);
  void Expire(Time now, Step& step, Effects& out);
  void End(Time now, Operation& op, const ErrorPtr& error, Effects& out);

  const Options options_;
  Steps steps_;
  Peers peers_;
  Operations ops_;
  SendQuota quota_;
  Receiver receiver_;
  Sender sender_;
};

}  // namespace lockstep::rendezvous

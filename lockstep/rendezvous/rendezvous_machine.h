// One member's part in the rendezvous of its job: which value goes to which receive, in which step,
// and what becomes of those whose other side does not come. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/closed_steps.h"
#include "lockstep/rendezvous/effects.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/options.h"
#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/view.h"

namespace lockstep::rendezvous {

// A value stays with its sender until its receiver is done with it. Matching happens at the
// receiver: the sender *offers* values in order, unasked as far as the receiver's credit goes; who
// has waited for a while *wants*, and is offered what is there at once.
//
//   Post --> held --offered--> lent --Taken--> lent --Released--> gone
//              '--- short ones come along with their offer: gone at once
//
// A step is unknown, or touched by another member only (`unopened`), or open here, or closed here
// with values that others may still receive, or closed. It may have failed meanwhile (`aborted`).
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

  // --- The program ---

  // Null, or why the step cannot be used (any more). Opening an open step is no mistake.
  ErrorPtr OpenStep(Time now, StepId step);
  // Nothing more is sent or received here in this step; what was sent may still be received.
  void CloseStep(Time now, StepId step, Effects& out);
  // The step has failed: for all members. The first error is the one that counts.
  void Abort(Time now, StepId step, ErrorPtr why, Effects& out);
  // Everything ends, with this error.
  void Close(ErrorPtr why, Effects& out);

  // The value is offered, or held until it can be. Null, or why not. With an `op`: completed when a
  // receive took it.
  ErrorPtr Send(Time now, Post post, Effects& out) {
    return Send(now, std::move(post), OpId(), Time::Infinite(), out);
  }
  ErrorPtr Send(Time now, Post post, OpId told, Time deadline, Effects& out);
  // As Send, but waits for room if there is none; then completes `op`.
  void SendWhenRoom(Time now, Post post, OpId op, Time deadline, Effects& out);

  void Receive(Time now, Ask ask, Effects& out);
  // Completes it with CANCELLED, unless it was completed.
  void Cancel(Time now, OpId op, Effects& out);
  // The program does not look at a received value any more.
  void Release(MemberIndex from, LeaseId lease, Effects& out);

  // --- The shell ---

  // Null: the bytes are where they belong.
  void Fetched(Time now, OpId op, ErrorPtr error, Effects& out);
  // The other member died, left, or cannot be reached for good. What it lent is nobody's any more.
  void PeerLost(Time now, MemberIndex peer, ErrorPtr why, Effects& out);
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
  uint64_t held_bytes() const { return held_bytes_; }
  size_t held_values() const { return held_values_; }

 private:
  struct Held {  // not offered yet
    Value value;
    OpId told;
    uint64_t order = 0;
    Time since;
  };
  struct Outbox {
    std::list<Held> values;
    absl::btree_map<WantId, Time> wants;  // since when; only where there are no values
  };
  using Outboxes = absl::node_hash_map<KeyId, Outbox, KeyHash, KeyEqual>;

  struct Step {
    bool opened = false;
    bool closed = false;  // here; others may still receive from it
    ErrorPtr aborted;
    Time since;
    Time expires = Time::Infinite();
    StepTable inbox;
    Outboxes outboxes;  // never iterated for effects, but sorted
    size_t held = 0;    // in the outboxes
    size_t lent = 0;
    absl::btree_set<OpId> fetching;          // or stopping
    absl::btree_set<MemberIndex> peers;      // with whom something of it was exchanged
    absl::btree_set<MemberIndex> closed_by;  // they receive nothing of it any more
  };
  using Steps = absl::node_hash_map<StepId, Step>;

  struct LentValue {
    StepId step;
    Value value;
    OpId told;
    Time since;
  };
  using Leases = absl::btree_map<LeaseId, LentValue>;
  struct Unasked {  // waits for credit
    StepId step;
    KeyId key;
  };
  struct Peer {
    ErrorPtr lost;
    uint64_t unasked_values = 0;  // of ours, that it has not received
    uint64_t unasked_bytes = 0;
    Credit consumed;                             // of its, not yet told
    size_t wants = 0;                            // of its, parked here
    absl::btree_map<uint64_t, Unasked> blocked;  // by order of sending
    Leases lent;
  };

  enum class Stage { kWaiting, kFetching, kStopping, kTold, kNoRoom };
  struct Op {
    Stage stage = Stage::kWaiting;
    StepId step;
    KeyId key;
    Time since;
    Time deadline = Time::Infinite();
    std::optional<uint64_t> into_bytes;
    Arrived arrived;           // being fetched
    ErrorPtr ends_with;        // when stopping: what it is completed with
    std::optional<Post> post;  // waits for room
    uint64_t order = 0;        // among those who do
  };
  using Ops = absl::node_hash_map<OpId, Op>;

  // Steps.
  ErrorPtr CheckUsable(StepId id) const;
  Step* Find(StepId id);
  // The step for a message of another member's; null: it is closed, or there are too many.
  Step* Touch(Time now, StepId id, MemberIndex by);
  void FailStep(Time now, StepId id, Step& step, ErrorPtr why, std::optional<MemberIndex> told_by,
                Effects& out);
  ErrorPtr Echo(StepId id, const Step& step) const;  // of its abort, for others
  // For members that come when the step is closed here.
  void KeepAbort(StepId id, ErrorPtr echo);
  // Null: the step was not aborted, or that is forgotten. `step` may be null.
  ErrorPtr AbortOf(StepId id, const Step* step) const;
  void EndReceives(Step& step, const ErrorPtr& why, Effects& out);
  void DiscardInbox(Step& step, Effects& out);
  // Of this member, or of all.
  void DropHeld(Step& step, std::optional<MemberIndex> to, const ErrorPtr& why, Effects& out);
  void RefuseWants(StepId id, Step& step, const ErrorPtr& why, Effects& out);
  void SetExpiry(StepId id, Step& step, Time at);
  void Expire(Time now, StepId id, Effects& out);
  void EraseIfDone(StepId id);

  // Sending.
  ErrorPtr CheckPost(const Post& post) const;
  ErrorPtr CheckRoom(uint64_t bytes) const;
  void Accept(Time now, Post post, OpId told, Effects& out);
  void Offer(Time now, StepId id, Step& step, KeyView key, Held held, WantId answers, Effects& out);
  // The first that is held under the key.
  void OfferFront(Time now, StepId id, Step& step, Outboxes::iterator outbox, WantId answers,
                  Effects& out);
  bool HasCredit(const Peer& peer, uint64_t bytes) const;
  void EndTold(OpId told, const ErrorPtr& error, Effects& out);
  void Unhold(uint64_t bytes);
  void GiveRoom(Time now, Effects& out);   // to those who wait for it
  void EndPostsWithoutRoom(Effects& out);  // that nobody can send any more
  uint64_t Inline(uint64_t bytes) const { return bytes <= options_.inline_bytes_max ? bytes : 0; }

  // Receiving.
  void Deliver(Step& step, KeyView key, WantId answers, Arrived arrived, Effects& out);
  void TakeBackWant(const StepTable::Leaver& leaver, Effects& out);
  void Match(Ops::iterator op, Arrived arrived, Effects& out);
  void CompleteWith(Ops::iterator op, Arrived arrived, Effects& out);
  // Gives its credit, or its room in the quota, back; once.
  void NoteReceived(MemberIndex from, Arrived& arrived, const ErrorPtr& untold, Effects& out);
  // `why`: for who sent it to ourselves; null: it was not received.
  void Discard(MemberIndex from, Arrived arrived, const ErrorPtr& why, Effects& out);
  void SendWants(Time now, Effects& out);

  // Operations.
  Ops::iterator AddOp(OpId id, Op op);
  void End(Time now, Ops::iterator op, const ErrorPtr& error, Effects& out);
  void Fail(Ops::iterator op, const ErrorPtr& error, Effects& out);
  void Stop(Ops::iterator op, const ErrorPtr& error, Effects& out);
  void EraseOp(Ops::iterator op);

  // Messages.
  void Handle(Time now, MemberIndex from, Want& want, Effects& out);
  void Handle(Time now, MemberIndex from, Unwant& unwant, Effects& out);
  void Handle(Time now, MemberIndex from, rendezvous::Offer& offer, Effects& out);
  void Handle(Time now, MemberIndex from, Taken& taken, Effects& out);
  void Handle(Time now, MemberIndex from, Released& released, Effects& out);
  void Handle(Time now, MemberIndex from, Credit& credit, Effects& out);
  void Handle(Time now, MemberIndex from, Refuse& refuse, Effects& out);
  void Handle(Time now, MemberIndex from, AbortStep& abort, Effects& out);
  void Handle(Time now, MemberIndex from, StepClosed& closed, Effects& out);
  void EndLease(Peer& peer, Leases::iterator lent, Effects& out);
  void ForgetWants(Step& step, MemberIndex of);

  // Texts.
  ErrorPtr TimedOut(Time now, const Op& op) const;

  const Options options_;
  ErrorPtr closed_;  // the whole rendezvous
  Steps steps_;      // never iterated for effects, but sorted
  ClosedSteps closed_steps_;
  absl::btree_map<StepId, ErrorPtr> kept_aborts_;
  size_t unopened_ = 0;
  absl::btree_set<std::pair<Time, StepId>> expiries_;
  absl::btree_map<MemberIndex, Peer> peers_;
  Ops ops_;
  absl::btree_set<std::pair<Time, OpId>> deadlines_;
  std::deque<std::pair<Time, OpId>> wants_due_;  // may name what is completed already
  absl::btree_map<uint64_t, OpId> no_room_;      // in their order
  size_t waits_ = 0;
  uint64_t held_bytes_ = 0;
  size_t held_values_ = 0;
  uint64_t last_order_ = 0;
  uint64_t last_lease_ = 0;
  uint64_t last_want_ = 0;
};

}  // namespace lockstep::rendezvous

// A member as the sender of values: what it holds, offers and lends to others. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/btree_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/credit.h"
#include "lockstep/rendezvous/effects.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/operations.h"
#include "lockstep/rendezvous/options.h"
#include "lockstep/rendezvous/peers.h"
#include "lockstep/rendezvous/receiver.h"
#include "lockstep/rendezvous/send_quota.h"
#include "lockstep/rendezvous/step_outbox.h"
#include "lockstep/rendezvous/steps.h"
#include "lockstep/rendezvous/view.h"

namespace lockstep::rendezvous {

// A value is offered at once where its receiver has a want or credit is left, else it is held.
// What is not short stays lent until its receiver is done with it.
//
//   Send --> held --offered--> lent --Taken--> lent --Released--> gone
//              '--- short ones come along with their offer: gone at once
//
// Values for this member itself go to its Receiver directly. Owns the outboxes of the steps, the
// states Unacknowledged and WithoutRoom of operations, and what was offered, lent and wanted by
// receiver. Threads: thread-compatible. Bounds: Options.
class Sender {
 public:
  Sender(const Options& options, Steps& steps, Peers& peers, Operations& ops, SendQuota& quota,
         Receiver& receiver);

  // Null: it is offered or held. Otherwise the reasons of `CheckKey` and of `Steps::CheckUsable`,
  // why the receiver is lost, or `quota_exceeded`. With a `told`: completed when a receive took it.
  ErrorPtr Send(Time now, Post&& post, OpId told, Time deadline, Effects& out);
  // As `Send`, but waits for room if there is none, then completes `op`. Also `too_many_waits`.
  void SendWhenRoom(Time now, Post&& post, OpId op, Time deadline, Effects& out);
  // To the sends that wait for it, after anything has made some.
  void GiveRoom(Time now, Effects& out);
  // Ends the sends that wait for room, and could not be sent any more.
  void EndUnsendable(Effects& out);
  // Before its time, for an operation that is Unacknowledged or WithoutRoom.
  void End(Time now, Operation& op, const ErrorPtr& error, Effects& out);

  void Handle(Time now, MemberIndex from, Want& want, Effects& out);
  void Handle(Time now, MemberIndex from, Unwant& unwant, Effects& out);
  void Handle(Time now, MemberIndex from, Taken& taken, Effects& out);
  void Handle(Time now, MemberIndex from, Released& released, Effects& out);
  void Handle(Time now, MemberIndex from, Credit& credit, Effects& out);
  void Handle(Time now, MemberIndex from, StepClosed& closed, Effects& out);

  // The step was aborted: nothing of it is held or wanted any more, but what is lent stays.
  void AbortStep(Step& step, Effects& out);
  // For this member, or for all.
  void DropHeld(Step& step, std::optional<MemberIndex> to, const ErrorPtr& why, Effects& out);
  void RefuseWants(Step& step, const ErrorPtr& why, Effects& out);
  // The receiver is lost; first for each step, then as a whole.
  void LosePeer(Step& step, MemberIndex peer, const ErrorPtr& why, Effects& out);
  void LosePeer(MemberIndex peer, const ErrorPtr& why, Effects& out);
  // Everything has ended, and so have the operations.
  void Close() { without_room_.clear(); }

  // Null when that member has no such lease.
  const Value* Lent(MemberIndex peer, LeaseId lease) const;
  PeerRow RowOf(MemberIndex peer) const;

 private:
  struct LentValue {
    StepId step;
    Value value;
    OpId told;
  };
  struct StepKey {
    StepId step;
    KeyId key;
  };
  struct Recipient {
    UnaskedWindow window;
    absl::btree_map<uint64_t, StepKey> blocked;  // held for want of credit, by order of sending
    absl::btree_map<LeaseId, LentValue> lent;
    size_t wants = 0;  // of its, parked here
  };

  ErrorPtr CheckPost(const Post& post) const;
  void Accept(Time now, Post&& post, OpId told, Effects& out);
  void OfferValue(Step& step, KeyView key, HeldValue held, WantId answers, Effects& out);
  // The first that is held under the key.
  void OfferFront(Step& step, const KeyId& key, WantId answers, Effects& out);
  void EndLease(Recipient& recipient, LeaseId lease, Effects& out);

  const Options& options_;
  Steps& steps_;
  Peers& peers_;
  Operations& ops_;
  SendQuota& quota_;
  Receiver& receiver_;
  absl::btree_map<MemberIndex, Recipient> recipients_;
  absl::btree_map<uint64_t, OpId> without_room_;  // in their order
  uint64_t last_order_ = 0;
  uint64_t last_lease_ = 0;
};

}  // namespace lockstep::rendezvous

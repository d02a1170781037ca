// A member as the receiver of values: its receives, and what has come for them. Pure.
#pragma once

#include <cstdint>

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
#include "lockstep/rendezvous/send_quota.h"
#include "lockstep/rendezvous/step_table.h"
#include "lockstep/rendezvous/steps.h"

namespace lockstep::rendezvous {

// Matches what arrives with the receives of its key, fetches the bytes that did not come along,
// completes the receives, and tells the senders: of wants, of credit, of what was taken, and of
// leases that end.
//
//   Receive --> unmatched --value--> fetching --Fetched--> completed
//                          '---- its bytes came along ----'
//
// Owns the inboxes and fetches of the steps, the states Unmatched and Fetching of operations, and
// how much credit is due to whom. Threads: thread-compatible. Bounds: Options.
class Receiver {
 public:
  Receiver(const Options& options, Steps& steps, Peers& peers, Operations& ops, SendQuota& quota)
      : options_(options), steps_(steps), peers_(peers), ops_(ops), quota_(quota) {}

  // Completed with a value; or fails with the reasons of `CheckKey` and of `Steps::CheckUsable`,
  // with `too_many_waits`, or because the sender is lost and nothing of it is here.
  void Receive(Time now, const Ask& ask, Effects& out);
  // Before its time, for an operation that is Unmatched or Fetching: cancelled, or too late. One
  // that is being fetched fails when nothing is written any more.
  void End(Operation& op, const ErrorPtr& error, Effects& out);
  // The shell is done with a fetch; null: the bytes are where they belong.
  void Fetched(Operation& op, const ErrorPtr& error, Effects& out);
  // Tells the senders of receives that have waited for a while.
  void SendDueWants(Time now, Effects& out);

  // A value of this member, or of another, has come.
  void Deliver(Step& step, KeyView key, WantId answers, Arrived&& arrived, Effects& out);
  void Handle(Time now, MemberIndex from, Offer& offer, Effects& out);
  void Handle(Time now, MemberIndex from, Refuse& refuse, Effects& out);

  // Nothing of the step completes with a value any more.
  void EndStep(Step& step, const ErrorPtr& why, Effects& out);
  void DiscardInbox(Step& step, Effects& out);
  // What it lent is nobody's any more, and what it did not bring does not come.
  void LosePeer(Step& step, MemberIndex peer, const ErrorPtr& why, Effects& out);
  // Credit that is due to it was its former incarnation's.
  void ForgetCredit(MemberIndex peer) { credits_.erase(peer); }
  // Everything has ended, and so have the operations that were Unmatched.
  void Close();

 private:
  void TakeBackWant(const StepTable::RemovedWaiter& removed, Effects& out);
  void Match(Operation& op, Arrived&& arrived, Effects& out);
  void Complete(Operation& op, Arrived&& arrived, Effects& out);
  void StopFetch(Operation& op, const ErrorPtr& why, Effects& out);
  // Gives its credit, or its room in the quota, back; once.
  void NoteReceived(MemberIndex from, Arrived& arrived, const ErrorPtr& untold, Effects& out);
  // `why`: for a send to ourselves that waits for its receiver; null: it was not received.
  void Discard(MemberIndex from, Arrived&& arrived, const ErrorPtr& why, Effects& out);

  const Options& options_;
  Steps& steps_;
  Peers& peers_;
  Operations& ops_;
  SendQuota& quota_;
  absl::btree_map<MemberIndex, ReceivedCredit> credits_;
  uint64_t last_want_ = 0;
};

}  // namespace lockstep::rendezvous

#include "lockstep/rendezvous/rendezvous_machine.h"

#include <algorithm>
#include <list>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/rendezvous/texts.h"

namespace lockstep::rendezvous {
namespace {

bool IsReceive(const Operation& op) {
  return std::holds_alternative<Unmatched>(op.state) || std::holds_alternative<Fetching>(op.state);
}

ErrorPtr TimedOut(const Options& options, const SendQuota& quota, Time now, const Operation& op) {
  const std::string who = NameOf(options, op.key.peer);
  const std::string waited = absl::FormatDuration(now - op.since);
  std::string text;
  if (std::holds_alternative<Unacknowledged>(op.state)) {
    // Its value has gone out, and is not taken back.
    text = absl::StrFormat("step %d, key '%s': %s has not received it within %s; it still may",
                           op.step.value(), op.key.name, who, waited);
  } else if (std::holds_alternative<WithoutRoom>(op.state)) {
    text = absl::StrFormat(
        "step %d, key '%s' for %s: no room for it within %s; %d values of %d bytes wait for their "
        "receivers",
        op.step.value(), op.key.name, who, waited, quota.values(), quota.bytes());
  } else {
    const bool unmatched = std::holds_alternative<Unmatched>(op.state);
    text = absl::StrFormat("step %d, key '%s': %s from %s within %s", op.step.value(), op.key.name,
                           unmatched ? "nothing came" : "its bytes did not come", who, waited);
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kTimedOut, std::move(text));
}

// The oldest first, no more than `max`.
void Finish(std::vector<KeyRow>& rows, size_t max) {
  std::sort(rows.begin(), rows.end(), [](const KeyRow& a, const KeyRow& b) {
    // By all that tells rows apart, since they come in the order of a hash.
    if (a.age != b.age) return a.age > b.age;
    if (a.step != b.step) return a.step < b.step;
    return KeyLess()({a.peer, a.name}, {b.peer, b.name});
  });
  if (rows.size() > max) rows.resize(max);
}

}  // namespace

RendezvousMachine::RendezvousMachine(Options options)
    : options_(std::move(options)),
      steps_(options_),
      quota_(options_),
      receiver_(options_, steps_, peers_, ops_, quota_),
      sender_(options_, steps_, peers_, ops_, quota_, receiver_) {}

// --- Steps ---

ErrorPtr RendezvousMachine::OpenStep(Time, StepId id) { return steps_.Open(id); }

void RendezvousMachine::CloseStep(Time now, StepId id, Effects& out) {
  Step* step = steps_.Find(id);
  // Closing again is no mistake. A step that nobody opened here ends by `unopened_ttl`.
  if (steps_.ended() || step == nullptr || step->phase != Step::Phase::kOpen) return;
  // First: `EndUnsendable` finds by it which sends cannot go out any more.
  steps_.Close(now, *step);
  receiver_.EndStep(*step, StepClosedHere(id), out);
  sender_.RefuseWants(*step, ClosedBySender(options_, id), out);
  for (const MemberIndex peer : step->peers) out.Send(peer, StepClosed{id});
  // Before room is given: whoever gets room is not checked again.
  sender_.EndUnsendable(out);
  sender_.GiveRoom(now, out);
  // Last, since all above refers to the step.
  steps_.ForgetIfDone(id);
}

void RendezvousMachine::Abort(Time now, StepId id, ErrorPtr why, Effects& out) {
  Step* step = steps_.Find(id);
  // The first error counts.
  if (steps_.ended() || step == nullptr || step->aborted) return;
  FailStep(now, *step, std::move(why), std::nullopt, out);
  steps_.ForgetIfDone(id);
}

void RendezvousMachine::Handle(Time now, MemberIndex from, AbortStep& abort, Effects& out) {
  Step* step = steps_.Touch(now, abort.step, from);
  if (step == nullptr || step->aborted) return;
  FailStep(now, *step, std::move(abort.why), from, out);
  steps_.ForgetIfDone(abort.step);
}

void RendezvousMachine::FailStep(Time now, Step& step, ErrorPtr why,
                                 std::optional<MemberIndex> told_by, Effects& out) {
  // A null error would leave the step as it is.
  LOCKSTEP_DCHECK(why != nullptr && !step.aborted);
  step.aborted = std::move(why);
  // Before anything of theirs is released: whoever waits to hear of it learns why.
  const ErrorPtr echo = steps_.EchoOfAbort(step);
  peers_.ForEach([&](MemberIndex peer, const ErrorPtr& lost) {
    if (!lost && told_by != peer) out.Send(peer, AbortStep{step.id, echo});
  });
  receiver_.EndStep(step, step.aborted, out);
  sender_.AbortStep(step, out);
  sender_.EndUnsendable(out);
  sender_.GiveRoom(now, out);
}

void RendezvousMachine::Expire(Time now, Step& step, Effects& out) {
  // A step that is open stays for as long as the program wants.
  LOCKSTEP_DCHECK(step.phase != Step::Phase::kOpen);
  const StepId id = step.id;
  if (step.phase == Step::Phase::kClosed) {
    if (step.outbox.held() > 0) {
      out.log.push_back(absl::StrFormat(
          "step %d: %d values that were sent here were never received; dropped %s after the step "
          "was closed",
          id.value(), step.outbox.held(), absl::FormatDuration(options_.closed_ttl)));
    }
    sender_.DropHeld(step, std::nullopt, StepClosedHere(id), out);
    sender_.GiveRoom(now, out);
    // What is lent stays: it may be looked at.
    return steps_.ForgetIfDone(id);
  }
  sender_.RefuseWants(step,
                      MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kStepNotOpened,
                                absl::StrFormat("%s did not open step %d within %s",
                                                NameOf(options_, options_.self), id.value(),
                                                absl::FormatDuration(options_.unopened_ttl))),
                      out);
  // Members with wants are told; of values that are dropped only this notice speaks.
  if (!step.inbox.empty()) {
    out.log.push_back(absl::StrFormat(
        "step %d: values that others sent here were dropped, since it was not opened within %s",
        id.value(), absl::FormatDuration(options_.unopened_ttl)));
  }
  receiver_.DiscardInbox(step, out);
  // Not noted as closed: the program may open it yet.
  steps_.ForgetUnopened(step);
}

void RendezvousMachine::Close(const ErrorPtr& why, Effects& out) {
  if (steps_.ended()) return;
  // First: nothing new begins while the operations end.
  steps_.End(why);
  for (const OpId id : ops_.Ids()) {
    Operation& op = ops_.At(id);
    // A fetch still writes, and ends when it does not any more.
    const bool fetches = std::holds_alternative<Fetching>(op.state);
    fetches ? receiver_.End(op, why, out) : ops_.Fail(op, why, out);
  }
  receiver_.Close();
  sender_.Close();
}

// --- Operations ---

ErrorPtr RendezvousMachine::Send(Time now, Post&& post, OpId told, Time deadline, Effects& out) {
  return sender_.Send(now, std::move(post), told, deadline, out);
}

void RendezvousMachine::SendWhenRoom(Time now, Post&& post, OpId op, Time deadline, Effects& out) {
  sender_.SendWhenRoom(now, std::move(post), op, deadline, out);
}

void RendezvousMachine::Receive(Time now, const Ask& ask, Effects& out) {
  receiver_.Receive(now, ask, out);
  // A value of ours, received here, makes room.
  sender_.GiveRoom(now, out);
}

void RendezvousMachine::Cancel(Time now, OpId id, Effects& out) {
  Operation* op = ops_.Find(id);
  // It was completed first.
  if (op == nullptr) return;
  End(now, *op,
      MakeError(absl::StatusCode::kCancelled, Reason::kCancelled,
                absl::StrFormat("step %d, key '%s': cancelled by the caller", op->step.value(),
                                op->key.name)),
      out);
}

void RendezvousMachine::End(Time now, Operation& op, const ErrorPtr& error, Effects& out) {
  IsReceive(op) ? receiver_.End(op, error, out) : sender_.End(now, op, error, out);
}

void RendezvousMachine::Release(MemberIndex from, LeaseId lease, Effects& out) {
  // A lease of a member that is lost ended with it.
  if (steps_.ended() || !peers_.Reaches(from)) return;
  out.Send(from, Released{lease});
}

void RendezvousMachine::Fetched(Time now, OpId id, const ErrorPtr& error, Effects& out) {
  Operation* op = ops_.Find(id);
  if (op == nullptr) return;
  // Copied: the operation may be gone behind the call.
  const StepId step = op->step;
  receiver_.Fetched(*op, error, out);
  sender_.GiveRoom(now, out);
  steps_.ForgetIfDone(step);
}

// --- Other members ---

void RendezvousMachine::Take(Time now, MemberIndex from, PeerMessage message, Effects& out) {
  // Of an incarnation that is lost: what it says is not true of the next one.
  if (steps_.ended() || peers_.WhyLost(from)) return;
  peers_.Meet(from);
  std::visit(
      [&]<class Message>(Message& each) {
        if constexpr (std::is_same_v<Message, AbortStep>) {
          Handle(now, from, each, out);
        } else if constexpr (std::is_same_v<Message, Offer> || std::is_same_v<Message, Refuse>) {
          receiver_.Handle(now, from, each, out);
        } else {
          sender_.Handle(now, from, each, out);
        }
      },
      message);
  sender_.GiveRoom(now, out);
}

void RendezvousMachine::PeerLost(Time now, MemberIndex peer, const ErrorPtr& why, Effects& out) {
  if (steps_.ended() || !peers_.Lose(peer, why)) return;
  // In their order, which effects must not take from a hash.
  const std::vector<StepId> ids = steps_.Ids();
  for (const StepId id : ids) {
    Step& step = *steps_.Find(id);
    receiver_.LosePeer(step, peer, why, out);
    sender_.LosePeer(step, peer, why, out);
    // Its next incarnation knows nothing of the step, and may take part in it.
    step.peers.erase(peer);
    step.closed_by.erase(peer);
  }
  receiver_.ForgetCredit(peer);
  // Behind the loop: a lease that ends may forget its step.
  sender_.LosePeer(peer, why, out);
  for (const StepId id : ids) steps_.ForgetIfDone(id);
  sender_.EndUnsendable(out);
  sender_.GiveRoom(now, out);
}

void RendezvousMachine::PeerBack(MemberIndex peer) { peers_.Return(peer); }

const Value* RendezvousMachine::Lent(MemberIndex peer, LeaseId lease) const {
  return sender_.Lent(peer, lease);
}

// --- Time ---

void RendezvousMachine::ReachDeadline(Time now, Effects& out) {
  while (Operation* op = ops_.TakeOverdue(now)) {
    End(now, *op, TimedOut(options_, quota_, now, *op), out);
  }
  // Behind the deadlines: nothing is wanted for a receive that has just ended.
  receiver_.SendDueWants(now, out);
  while (Step* step = steps_.TakeExpired(now)) Expire(now, *step, out);
}

Time RendezvousMachine::NextDeadline() const {
  return std::min(ops_.NextDeadline(), steps_.NextExpiry());
}

// --- The view ---

View RendezvousMachine::GetView(Time now, size_t rows_max) const {
  View view = {.steps = steps_.size(),
               .waits = ops_.waits(),
               .held_bytes = quota_.bytes(),
               .held_values = quota_.values()};
  steps_.ForEach([&](const Step& step) {
    step.inbox.ForEach([&](const KeyId& key, const Arrived* oldest, size_t values,
                           const std::list<OpId>& waiters) {
      // A key has values or receives, never both.
      if (oldest != nullptr) {
        view.unclaimed.push_back(
            {step.id, key.peer, key.name, values, oldest->value.bytes, now - oldest->since});
      } else {
        view.waiting.push_back({step.id, key.peer, key.name, waiters.size(), 0,
                                now - ops_.Find(waiters.front())->since});
      }
    });
    step.outbox.ForEach([&](const KeyId& key, const Value* oldest, size_t count, Time since) {
      auto& rows = oldest != nullptr ? view.held : view.wanted;
      rows.push_back(
          {step.id, key.peer, key.name, count, oldest != nullptr ? oldest->bytes : 0, now - since});
    });
  });
  for (auto* rows : {&view.waiting, &view.unclaimed, &view.held, &view.wanted}) {
    Finish(*rows, rows_max);
  }
  peers_.ForEach([&](MemberIndex peer, const ErrorPtr& lost) {
    PeerRow row = sender_.RowOf(peer);
    if (lost) row.lost = lost->message;
    view.peers.push_back(std::move(row));
  });
  return view;
}

}  // namespace lockstep::rendezvous

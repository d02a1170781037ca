#include "lockstep/rendezvous/receiver.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/rendezvous/texts.h"

namespace lockstep::rendezvous {

void Receiver::Receive(Time now, const Ask& ask, Effects& out) {
  ErrorPtr error = CheckKey(options_, ask.from, ask.name);
  if (!error) error = steps_.CheckUsable(ask.step);
  if (!error && ops_.waits() >= options_.waits_max) {
    error = TooManyWaits("waits_max", options_.waits_max);
  }
  if (error) return out.Fail(ask.op, std::move(error));

  const KeyView key = {ask.from, ask.name};
  Operation& op = ops_.Add({.id = ask.op,
                            .state = Unmatched{ask.into_bytes},
                            .step = ask.step,
                            .key = KeyId(key),
                            .since = now,
                            .deadline = ask.deadline});
  // First what is here: a sender that was lost may have brought it before.
  if (auto arrived = steps_.Find(ask.step)->inbox.Ask(key, ask.op)) {
    Match(op, *std::move(arrived), out);
  } else if (const ErrorPtr lost = peers_.WhyLost(ask.from)) {
    End(op, lost, out);
  } else if (ask.from != options_.self) {
    // Not at once: most values are on their way already.
    ops_.WantAt(now + options_.want_after, ask.op);
  }
}

void Receiver::Deliver(Step& step, KeyView key, WantId answers, Arrived&& arrived, Effects& out) {
  const auto removed = step.inbox.Arrive(key, answers, arrived);
  // It is kept for a receive that is still to come.
  if (!removed.has_value()) return;
  TakeBackWant(*removed, out);
  Match(ops_.At(removed->op), std::move(arrived), out);
}

void Receiver::TakeBackWant(const StepTable::RemovedWaiter& removed, Effects& out) {
  if (removed.unwanted == WantId()) return;
  const Operation& op = ops_.At(removed.op);
  out.Send(op.key.peer, Unwant{op.step, op.key.name, removed.unwanted});
}

void Receiver::Match(Operation& op, Arrived&& arrived, Effects& out) {
  const MemberIndex from = op.key.peer;
  // First: it counts as received, whatever becomes of it.
  NoteReceived(from, arrived, nullptr, out);
  const std::optional<uint64_t> into = std::get<Unmatched>(op.state).into_bytes;
  if (into.has_value() && (arrived.value.dead || *into != arrived.value.bytes)) {
    const ErrorPtr mismatch =
        SizeMismatch(op.step, op.key.name, NameOf(options_, from), *into, arrived.value);
    ops_.Fail(op, mismatch, out);
    // A receive took it, though it was of no use to it.
    if (arrived.tell) out.Send(from, Taken{arrived.lease});
    return Discard(from, std::move(arrived), nullptr, out);
  }
  if (!arrived.away) return Complete(op, std::move(arrived), out);
  // Noted in the step, which is not forgotten while somebody writes.
  steps_.Find(op.step)->fetching.insert(op.id);
  out.fetches.push_back({op.id, from, arrived.lease, arrived.value});
  op.state = Fetching{.arrived = std::move(arrived), .ends_with = nullptr};
}

void Receiver::Complete(Operation& op, Arrived&& arrived, Effects& out) {
  const MemberIndex from = op.key.peer;
  if (arrived.tell) out.Send(from, Taken{arrived.lease});
  // Bytes that came along need no lease, and those that were fetched need it no longer.
  const bool here = arrived.value.memory != nullptr || arrived.value.bytes == 0;
  if (arrived.away && arrived.lease != LeaseId()) out.Send(from, Released{arrived.lease});
  ops_.Complete(op,
                {.from = from,
                 .value = std::move(arrived.value),
                 .lease = here || arrived.away ? LeaseId() : arrived.lease,
                 .place = std::move(arrived.place)},
                out);
}

void Receiver::NoteReceived(MemberIndex from, Arrived& arrived, const ErrorPtr& untold,
                            Effects& out) {
  // Once: a value that is put back is received again.
  if (!std::exchange(arrived.counts, false)) return;
  if (from == options_.self) {
    // Sent to ourselves: the quota counts it until here, and no credit is spent on it.
    quota_.Return(arrived.value.bytes);
    return ops_.Acknowledge(arrived.told, untold, out);
  }
  if (const auto credit = credits_[from].Add(options_, arrived.value.bytes)) {
    out.Send(from, *credit);
  }
}

void Receiver::Discard(MemberIndex from, Arrived&& arrived, const ErrorPtr& why, Effects& out) {
  NoteReceived(from, arrived, why ? why : NotReceived(options_, from), out);
  // Its sender keeps the memory until it hears of this.
  if (arrived.lease != LeaseId()) out.Send(from, Released{arrived.lease});
  out.dropped.push_back(std::move(arrived.value));
}

void Receiver::End(Operation& op, const ErrorPtr& error, Effects& out) {
  if (std::holds_alternative<Fetching>(op.state)) return StopFetch(op, error, out);
  const auto removed = steps_.Find(op.step)->inbox.Forget(op.key, op.id);
  LOCKSTEP_CHECK(removed.has_value());
  TakeBackWant(*removed, out);
  // Behind the want, which is taken back by the operation's key.
  ops_.Fail(op, error, out);
}

// It is completed only when nothing is written any more: the memory is the program's.
void Receiver::StopFetch(Operation& op, const ErrorPtr& why, Effects& out) {
  auto& fetching = std::get<Fetching>(op.state);
  // The first reason counts.
  if (fetching.ends_with) return;
  fetching.ends_with = why;
  out.stop_fetches.push_back(op.id);
}

void Receiver::Fetched(Operation& op, const ErrorPtr& error, Effects& out) {
  Step& step = *steps_.Find(op.step);
  LOCKSTEP_DCHECK(std::holds_alternative<Fetching>(op.state) && step.fetching.contains(op.id));
  step.fetching.erase(op.id);
  auto [arrived, ends_with] = std::move(std::get<Fetching>(op.state));
  const ErrorPtr over = steps_.WhyOver(step);
  if (!error && !over) return Complete(op, std::move(arrived), out);
  const KeyId key = op.key;
  // Of a sender that was lost meanwhile, though it may be back: nobody can bring it any more.
  const bool lost = arrived.lease == LeaseId();
  // The end of the step counts more than what ended the receive before.
  ops_.Fail(op, over ? over : ends_with ? ends_with : error, out);
  if (over || lost) return Discard(key.peer, std::move(arrived), over, out);
  // It is the next value of its key still.
  if (const auto next = step.inbox.PutBack(key, arrived)) {
    TakeBackWant(*next, out);
    Match(ops_.At(next->op), std::move(arrived), out);
  }
}

void Receiver::SendDueWants(Time now, Effects& out) {
  while (const Operation* op = ops_.TakeDueWant(now)) {
    const MemberIndex sender = op->key.peer;
    // Only now: a receive whose value comes at once costs its sender no message.
    const WantId want(++last_want_);
    Step& step = *steps_.Find(op->step);
    step.peers.insert(sender);
    peers_.Meet(sender);  // it hears of an abort, too
    step.inbox.Want(op->key, want);
    // Wants of one key in a row become one message.
    Want* last = out.messages.empty() ? nullptr : std::get_if<Want>(&out.messages.back().message);
    if (last != nullptr && out.messages.back().to == sender && last->step == op->step &&
        last->name == op->key.name) {
      last->last = want;
    } else {
      out.Send(sender, Want{op->step, op->key.name, want, want});
    }
  }
}

void Receiver::Handle(Time now, MemberIndex from, Offer& offer, Effects& out) {
  Step* step = steps_.Touch(now, offer.step, from);
  Arrived arrived = {.value = std::move(offer.value),
                     .lease = offer.lease,
                     .place = std::move(offer.place),
                     .away = offer.away,
                     .counts = offer.answers == WantId(),
                     .tell = offer.tell,
                     .since = now};
  // Nothing of the step is received here any more.
  if (step == nullptr || step->phase == Step::Phase::kClosed || step->aborted) {
    // It had nothing to do with us when the others were told.
    if (ErrorPtr aborted = steps_.AbortFor(offer.step)) {
      out.Send(from, AbortStep{offer.step, std::move(aborted)});
    }
    return Discard(from, std::move(arrived), nullptr, out);
  }
  Deliver(*step, {from, offer.name}, offer.answers, std::move(arrived), out);
}

void Receiver::Handle(Time, MemberIndex from, Refuse& refuse, Effects& out) {
  Step* step = steps_.Find(refuse.step);
  // Forgotten, and so are its receives.
  if (step == nullptr) return;
  for (const OpId id : step->inbox.Refuse({from, refuse.name}, refuse.first, refuse.last)) {
    ops_.Fail(ops_.At(id), refuse.why, out);
  }
}

void Receiver::EndStep(Step& step, const ErrorPtr& why, Effects& out) {
  for (const OpId op : step.inbox.TakeWaiters()) ops_.Fail(ops_.At(op), why, out);
  // These end when nothing is written any more.
  for (const OpId op : step.fetching) StopFetch(ops_.At(op), why, out);
  DiscardInbox(step, out);
}

void Receiver::DiscardInbox(Step& step, Effects& out) {
  for (auto& [key, arrived] : step.inbox.TakeValues()) {
    Discard(key.peer, std::move(arrived), step.aborted, out);
  }
}

void Receiver::LosePeer(Step& step, MemberIndex peer, const ErrorPtr& why, Effects& out) {
  for (const OpId op : step.inbox.TakeWaitersOf(peer)) ops_.Fail(ops_.At(op), why, out);
  std::vector<KeyId> fetched;
  for (const OpId id : step.fetching) {
    Operation& op = ops_.At(id);
    if (op.key.peer != peer) continue;
    fetched.push_back(op.key);
    StopFetch(op, why, out);
    std::get<Fetching>(op.state).arrived.Disown();
  }
  // Behind the fetches, which name the keys whose first value will not come.
  for (auto& [key, arrived] : step.inbox.TakeLostWith(peer, fetched)) {
    out.dropped.push_back(std::move(arrived.value));
  }
  // What is here in full may still be received, and owes its sender nothing.
  step.inbox.Disown(peer);
}

void Receiver::Close() {
  // Their operations have ended: nothing may be matched with them.
  for (const StepId id : steps_.Ids()) steps_.Find(id)->inbox.TakeWaiters();
  ops_.ForgetWants();
}

}  // namespace lockstep::rendezvous

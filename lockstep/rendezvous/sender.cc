#include "lockstep/rendezvous/sender.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/rendezvous/texts.h"

namespace lockstep::rendezvous {

Sender::Sender(const Options& options, Steps& steps, Peers& peers, Operations& ops,
               SendQuota& quota, Receiver& receiver)
    : options_(options),
      steps_(steps),
      peers_(peers),
      ops_(ops),
      quota_(quota),
      receiver_(receiver),
      last_lease_(options.first_lease) {}

// --- The program ---

ErrorPtr Sender::CheckPost(const Post& post) const {
  if (ErrorPtr error = CheckKey(options_, post.to, post.name)) return error;
  if (ErrorPtr error = steps_.CheckUsable(post.step)) return error;
  return peers_.WhyLost(post.to);
}

ErrorPtr Sender::Send(Time now, Post&& post, OpId told, Time deadline, Effects& out) {
  if (ErrorPtr error = CheckPost(post)) return error;
  // Behind the other reasons, which no room would mend.
  if (ErrorPtr error = quota_.Check(post.value.bytes)) return error;
  if (told != OpId()) {
    // Before the value goes: a receive of our own may take it at once.
    ops_.Add({.id = told,
              .state = Unacknowledged{},
              .step = post.step,
              .key = KeyId({post.to, post.name}),
              .since = now,
              .deadline = deadline});
  }
  Accept(now, std::move(post), told, out);
  return nullptr;
}

void Sender::SendWhenRoom(Time now, Post&& post, OpId id, Time deadline, Effects& out) {
  ErrorPtr error = CheckPost(post);
  // It would wait for ever.
  if (!error && post.value.bytes > options_.quota_bytes) error = quota_.Check(post.value.bytes);
  if (!error && ops_.waits() >= options_.waits_max) {
    error = TooManyWaits("waits_max", options_.waits_max);
  }
  if (error) return out.Fail(id, std::move(error));
  // Those that wait come first.
  if (without_room_.empty() && quota_.HasRoom(post.value.bytes)) {
    Accept(now, std::move(post), OpId(), out);
    // It had not to wait, so that it never was an operation.
    out.completed.push_back({.op = id});
    return;
  }
  const StepId step = post.step;
  const KeyId key({post.to, post.name});
  without_room_.emplace(++last_order_, id);
  ops_.Add({.id = id,
            .state = WithoutRoom{.post = std::move(post), .order = last_order_},
            .step = step,
            .key = key,
            .since = now,
            .deadline = deadline});
}

void Sender::GiveRoom(Time now, Effects& out) {
  while (!without_room_.empty()) {
    Operation& op = ops_.At(without_room_.begin()->second);
    Post& post = std::get<WithoutRoom>(op.state).post;
    // In their order: short ones that passed a long one would leave it without room for ever.
    if (!quota_.HasRoom(post.value.bytes)) return;
    without_room_.erase(without_room_.begin());
    Accept(now, std::move(post), OpId(), out);
    ops_.Complete(op, {}, out);
  }
}

void Sender::EndUnsendable(Effects& out) {
  // A copy, since those that end leave the line.
  std::vector<std::pair<uint64_t, OpId>> waiting(without_room_.begin(), without_room_.end());
  for (const auto& [order, id] : waiting) {
    Operation& op = ops_.At(id);
    const ErrorPtr error = CheckPost(std::get<WithoutRoom>(op.state).post);
    if (!error) continue;
    without_room_.erase(order);
    ops_.Fail(op, error, out);
  }
}

void Sender::End(Time now, Operation& op, const ErrorPtr& error, Effects& out) {
  const auto* unsent = std::get_if<WithoutRoom>(&op.state);
  if (unsent == nullptr) return ops_.Fail(op, error, out);
  without_room_.erase(unsent->order);
  ops_.Fail(op, error, out);
  // It may have been the first in the line, and longer than the next.
  GiveRoom(now, out);
}

// --- Offers ---

void Sender::Accept(Time now, Post&& post, OpId told, Effects& out) {
  Step& step = *steps_.Find(post.step);
  const KeyView key = {post.to, post.name};
  // Whoever calls has checked both.
  LOCKSTEP_DCHECK(step.phase == Step::Phase::kOpen && !step.aborted);
  LOCKSTEP_DCHECK(quota_.HasRoom(post.value.bytes));
  // Before it is delivered: a receive of our own gives it back at once.
  quota_.Take(post.value.bytes);
  if (post.to == options_.self) {
    return receiver_.Deliver(
        step, key, WantId(),
        {.value = std::move(post.value), .counts = true, .told = told, .since = now}, out);
  }
  // Known from here on: it hears of aborts.
  peers_.Meet(post.to);
  if (step.closed_by.contains(post.to)) {
    // Its receiver has closed the step, and would discard it.
    quota_.Return(post.value.bytes);
    out.dropped.push_back(std::move(post.value));
    return ops_.Acknowledge(told, NotReceived(options_, post.to), out);
  }
  Recipient& recipient = recipients_[post.to];
  HeldValue held = {
      .value = std::move(post.value), .told = told, .order = ++last_order_, .since = now};
  if (const auto want = step.outbox.TakeWant(key)) {
    // Somebody waits for it: it goes without credit.
    LOCKSTEP_DCHECK(recipient.wants > 0);
    --recipient.wants;
    return OfferValue(step, key, std::move(held), *want, out);
  }
  // Not past one that was sent before.
  if (recipient.blocked.empty() && recipient.window.HasRoom(options_, held.value.bytes)) {
    return OfferValue(step, key, std::move(held), WantId(), out);
  }
  // In both tables: credit finds it by its order, and a want by its key.
  recipient.blocked.emplace(held.order, StepKey{step.id, KeyId(key)});
  step.outbox.Hold(key, std::move(held));
}

void Sender::OfferValue(Step& step, KeyView key, HeldValue held, WantId answers, Effects& out) {
  Recipient& recipient = recipients_[key.peer];
  step.peers.insert(key.peer);
  // What was asked for needs no credit: its receiver waits for it.
  if (answers == WantId()) recipient.window.Take(options_, held.value.bytes);
  LeaseId lease;
  const bool tell = held.told != OpId();
  if (tell || held.value.bytes > options_.inline_bytes_max) {
    // 0 stands for none.
    if (++last_lease_ == 0) ++last_lease_;
    lease = LeaseId(last_lease_);
    LOCKSTEP_DCHECK(!recipient.lent.contains(lease));
    recipient.lent.emplace(lease, LentValue{step.id, held.value, held.told});
    ++step.lent;
  } else {
    // The offer carries it: nothing is kept here.
    quota_.Return(held.value.bytes);
  }
  out.Send(key.peer, Offer{.step = step.id,
                           .name = std::string(key.name),
                           .value = std::move(held.value),
                           .lease = lease,
                           .answers = answers,
                           .tell = tell});
}

void Sender::OfferFront(Step& step, const KeyId& key, WantId answers, Effects& out) {
  LOCKSTEP_DCHECK(step.outbox.Front(key) != nullptr);
  HeldValue held = *step.outbox.TakeFront(key);
  LOCKSTEP_DCHECK(recipients_[key.peer].blocked.contains(held.order));
  recipients_[key.peer].blocked.erase(held.order);
  OfferValue(step, key, std::move(held), answers, out);
}

void Sender::Handle(Time now, MemberIndex from, Want& want, Effects& out) {
  Step* step = steps_.Touch(now, want.step, from);
  // Before the step is looked at: one that is forgotten may have been aborted, too.
  if (const ErrorPtr aborted = steps_.AbortFor(want.step)) {
    return out.Send(from, rendezvous::AbortStep{want.step, aborted});
  }
  const auto refuse = [&](ErrorPtr why) {
    out.Send(from, Refuse{want.step, std::move(want.name), want.first, want.last, std::move(why)});
  };
  if (step == nullptr) {
    const bool closed = steps_.WasClosed(want.step);
    return refuse(closed ? ClosedBySender(options_, want.step) : TooManyUnopened(options_));
  }
  const KeyId key(KeyView{from, want.name});
  // Those that are not answered yet, from `want.first` up.
  uint64_t left = want.last.value() - want.first.value() + 1;
  // Also of a step that is closed here: what was sent before may still be received.
  for (; left > 0 && step->outbox.Front(key) != nullptr; --left) {
    OfferFront(*step, key, std::exchange(want.first, WantId(want.first.value() + 1)), out);
  }
  Recipient& recipient = recipients_[from];
  LOCKSTEP_DCHECK(recipient.wants <= options_.peer_wants_max);
  if (left == 0) {
    // What it wanted was offered.
  } else if (step->phase == Step::Phase::kClosed) {
    refuse(ClosedBySender(options_, want.step));
  } else if (left > options_.peer_wants_max - recipient.wants) {
    refuse(TooManyWaits("peer_wants_max", options_.peer_wants_max));
  } else {
    recipient.wants += step->outbox.AddWants(key, want.first, left, now);
  }
  steps_.ForgetIfDone(want.step);
}

void Sender::Handle(Time, MemberIndex from, Unwant& unwant, Effects&) {
  Step* step = steps_.Find(unwant.step);
  if (step == nullptr) return;
  // There is none if an offer or a refusal crossed this on the way.
  if (step->outbox.ForgetWant({from, unwant.name}, unwant.want)) --recipients_[from].wants;
}

void Sender::Handle(Time, MemberIndex from, Credit& credit, Effects& out) {
  Recipient& recipient = recipients_[from];
  // First, so that what it makes room for goes out below.
  recipient.window.Return(credit);
  while (!recipient.blocked.empty()) {
    const StepKey next = recipient.blocked.begin()->second;
    Step& step = *steps_.Find(next.step);
    const HeldValue* held = step.outbox.Front(next.key);
    // The first that is blocked is the first of its key: both are in the order of sending.
    LOCKSTEP_DCHECK(held != nullptr && held->order == recipient.blocked.begin()->first);
    if (!recipient.window.HasRoom(options_, held->value.bytes)) return;
    OfferFront(step, next.key, WantId(), out);
    steps_.ForgetIfDone(next.step);
  }
}

// --- Leases ---

void Sender::Handle(Time, MemberIndex from, Taken& taken, Effects& out) {
  Recipient& recipient = recipients_[from];
  const auto lent = recipient.lent.find(taken.lease);
  if (lent == recipient.lent.end()) return;
  ops_.Acknowledge(std::exchange(lent->second.told, OpId()), nullptr, out);
  // It came along with its offer, so that nothing of it is looked at here.
  if (lent->second.value.bytes <= options_.inline_bytes_max) EndLease(recipient, taken.lease, out);
}

void Sender::Handle(Time, MemberIndex from, Released& released, Effects& out) {
  Recipient& recipient = recipients_[from];
  const auto lent = recipient.lent.find(released.lease);
  if (lent == recipient.lent.end()) return;
  // Whoever waits still was not told by `Taken`: no receive took it.
  ops_.Acknowledge(std::exchange(lent->second.told, OpId()), NotReceived(options_, from), out);
  EndLease(recipient, released.lease, out);
}

void Sender::EndLease(Recipient& recipient, LeaseId lease, Effects& out) {
  const auto lent = recipient.lent.find(lease);
  LOCKSTEP_DCHECK(lent != recipient.lent.end());
  const StepId step = lent->second.step;
  quota_.Return(lent->second.value.bytes);
  out.dropped.push_back(std::move(lent->second.value));
  recipient.lent.erase(lent);
  // A step stays for as long as something of it is lent.
  LOCKSTEP_DCHECK(steps_.Find(step) != nullptr && steps_.Find(step)->lent > 0);
  --steps_.Find(step)->lent;
  steps_.ForgetIfDone(step);
}

const Value* Sender::Lent(MemberIndex peer, LeaseId lease) const {
  const auto recipient = recipients_.find(peer);
  if (recipient == recipients_.end()) return nullptr;
  const auto lent = recipient->second.lent.find(lease);
  return lent == recipient->second.lent.end() ? nullptr : &lent->second.value;
}

// --- Ends of steps and receivers ---

void Sender::Handle(Time, MemberIndex from, StepClosed& closed, Effects& out) {
  Step* step = steps_.Find(closed.step);
  if (step == nullptr) return;
  // Noted first: what is sent from here on is not even held.
  step->closed_by.insert(from);
  DropHeld(*step, from, NotReceived(options_, from), out);
  // It waits for nothing of the step any more, and is not told so.
  recipients_[from].wants -= step->outbox.ForgetWantsOf(from);
  steps_.ForgetIfDone(closed.step);
}

void Sender::AbortStep(Step& step, Effects& out) {
  DropHeld(step, std::nullopt, step.aborted, out);
  for (const auto& wanted : step.outbox.TakeWants()) {
    LOCKSTEP_DCHECK(recipients_[wanted.key.peer].wants >= wanted.count);
    recipients_[wanted.key.peer].wants -= wanted.count;
  }
  for (auto& [peer, recipient] : recipients_) {
    for (auto& [lease, lent] : recipient.lent) {
      if (lent.step != step.id) continue;
      // Their sends end now; the memory stays until its receiver is done with it.
      ops_.Acknowledge(std::exchange(lent.told, OpId()), step.aborted, out);
    }
  }
}

void Sender::DropHeld(Step& step, std::optional<MemberIndex> to, const ErrorPtr& why,
                      Effects& out) {
  for (auto& [peer, held] : step.outbox.TakeHeld(to)) {
    recipients_[peer].blocked.erase(held.order);
    quota_.Return(held.value.bytes);
    out.dropped.push_back(std::move(held.value));
    ops_.Acknowledge(held.told, why, out);
  }
}

void Sender::RefuseWants(Step& step, const ErrorPtr& why, Effects& out) {
  for (auto& wanted : step.outbox.TakeWants()) {
    LOCKSTEP_DCHECK(recipients_[wanted.key.peer].wants >= wanted.count);
    recipients_[wanted.key.peer].wants -= wanted.count;
    out.Send(wanted.key.peer,
             Refuse{step.id, std::move(wanted.key.name), wanted.first, wanted.last, why});
  }
}

void Sender::LosePeer(Step& step, MemberIndex peer, const ErrorPtr& why, Effects& out) {
  DropHeld(step, peer, why, out);
  recipients_[peer].wants -= step.outbox.ForgetWantsOf(peer);
}

void Sender::LosePeer(MemberIndex peer, const ErrorPtr& why, Effects& out) {
  Recipient& recipient = recipients_[peer];
  // Step by step, all that it was to get and all that it wanted was dropped.
  LOCKSTEP_DCHECK(recipient.blocked.empty() && recipient.wants == 0);
  while (!recipient.lent.empty()) {
    const auto lent = recipient.lent.begin();
    ops_.Acknowledge(std::exchange(lent->second.told, OpId()), why, out);
    EndLease(recipient, lent->first, out);
  }
  // Its next incarnation has the whole window.
  recipient.window = {};
}

PeerRow Sender::RowOf(MemberIndex peer) const {
  PeerRow row = {.peer = peer};
  const auto found = recipients_.find(peer);
  if (found == recipients_.end()) return row;
  const Recipient& recipient = found->second;
  row.held = recipient.blocked.size();
  row.lent = recipient.lent.size();
  for (const auto& [lease, lent] : recipient.lent) row.lent_bytes += lent.value.bytes;
  row.wants = recipient.wants;
  return row;
}

}  // namespace lockstep::rendezvous

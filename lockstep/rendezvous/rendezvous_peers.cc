// The other members' side of the rendezvous: what they say, and what becomes of theirs when they
// go.
#include <algorithm>
#include <variant>

#include "absl/strings/str_format.h"
#include "lockstep/rendezvous/rendezvous_machine.h"
#include "lockstep/rendezvous/texts.h"

namespace lockstep::rendezvous {

void RendezvousMachine::Take(Time now, MemberIndex from, PeerMessage message, Effects& out) {
  if (closed_ || peers_[from].lost) return;
  std::visit([&](auto& m) { Handle(now, from, m, out); }, message);
  GiveRoom(now, out);
}

RendezvousMachine::Step* RendezvousMachine::Touch(Time now, StepId id, MemberIndex by) {
  Step* step = Find(id);
  if (step == nullptr) {
    if (closed_steps_.Contains(id) || unopened_ >= options_.unopened_steps_max) return nullptr;
    step = &steps_[id];
    step->since = now;
    SetExpiry(id, *step, now + options_.unopened_ttl);
    ++unopened_;
  }
  step->peers.insert(by);
  return step;
}

void RendezvousMachine::Handle(Time now, MemberIndex from, Want& want, Effects& out) {
  Step* step = Touch(now, want.step, from);
  if (const ErrorPtr aborted = AbortOf(want.step, step)) {
    return out.Send(from, AbortStep{want.step, aborted});
  }
  const auto refuse = [&](ErrorPtr why) {
    out.Send(from, Refuse{want.step, std::move(want.name), want.first, want.last, std::move(why)});
  };
  if (step == nullptr) {
    const bool closed = closed_steps_.Contains(want.step);
    return refuse(closed ? ClosedBySender(options_, want.step) : TooManyUnopened(options_));
  }
  const KeyId key(KeyView{from, want.name});
  // Those that are not answered yet.
  uint64_t left = want.last.value() - want.first.value() + 1;
  const auto take_first = [&] {
    --left;
    return std::exchange(want.first, WantId(want.first.value() + 1));
  };
  for (auto outbox = step->outboxes.find(key);
       left > 0 && outbox != step->outboxes.end() && !outbox->second.values.empty();
       outbox = step->outboxes.find(key)) {
    OfferFront(now, want.step, *step, outbox, take_first(), out);
  }
  Peer& peer = peers_[from];
  if (left == 0) {
    // What it wanted was offered.
  } else if (step->closed) {
    refuse(ClosedBySender(options_, want.step));
  } else if (left > options_.peer_wants_max - peer.wants) {
    refuse(TooManyWaits("peer_wants_max", options_.peer_wants_max));
  } else {
    auto& wants = step->outboxes[key].wants;
    while (left > 0) peer.wants += wants.try_emplace(take_first(), now).second;
  }
  EraseIfDone(want.step);
}

void RendezvousMachine::Handle(Time, MemberIndex from, Unwant& unwant, Effects&) {
  Step* step = Find(unwant.step);
  if (step == nullptr) return;
  const auto outbox = step->outboxes.find(KeyView{from, unwant.name});
  if (outbox == step->outboxes.end()) return;
  // None, if an offer or a refusal crossed this on the way.
  auto& wants = outbox->second.wants;
  peers_[from].wants -= wants.erase(unwant.want);
  if (wants.empty() && outbox->second.values.empty()) step->outboxes.erase(outbox);
}

void RendezvousMachine::Handle(Time now, MemberIndex from, rendezvous::Offer& offer, Effects& out) {
  Step* step = Touch(now, offer.step, from);
  Arrived arrived = {.value = std::move(offer.value),
                     .lease = offer.lease,
                     .place = std::move(offer.place),
                     .away = offer.away,
                     .counts = offer.answers == WantId(),
                     .tell = offer.tell,
                     .since = now};
  if (step == nullptr || step->closed || step->aborted) {
    // It had nothing to do with us when the others were told.
    if (ErrorPtr aborted = AbortOf(offer.step, step)) {
      out.Send(from, AbortStep{offer.step, std::move(aborted)});
    }
    return Discard(from, std::move(arrived), nullptr, out);
  }
  Deliver(*step, {from, offer.name}, offer.answers, std::move(arrived), out);
}

void RendezvousMachine::Handle(Time, MemberIndex from, Taken& taken, Effects& out) {
  Peer& peer = peers_[from];
  const auto lent = peer.lent.find(taken.lease);
  if (lent == peer.lent.end()) return;
  EndTold(std::exchange(lent->second.told, OpId()), nullptr, out);
  // It came along with its offer, so that nothing of it is looked at here.
  if (lent->second.value.bytes <= options_.inline_bytes_max) EndLease(peer, lent, out);
}

void RendezvousMachine::Handle(Time, MemberIndex from, Released& released, Effects& out) {
  Peer& peer = peers_[from];
  const auto lent = peer.lent.find(released.lease);
  if (lent == peer.lent.end()) return;
  EndTold(std::exchange(lent->second.told, OpId()), NotReceived(options_, from), out);
  EndLease(peer, lent, out);
}

void RendezvousMachine::EndLease(Peer& peer, Leases::iterator lent, Effects& out) {
  const StepId step = lent->second.step;
  Unhold(lent->second.value.bytes);
  out.dropped.push_back(std::move(lent->second.value));
  peer.lent.erase(lent);
  --Find(step)->lent;
  EraseIfDone(step);
}

void RendezvousMachine::Handle(Time now, MemberIndex from, Credit& credit, Effects& out) {
  Peer& peer = peers_[from];
  peer.unasked_values -= std::min(peer.unasked_values, credit.values);
  peer.unasked_bytes -= std::min(peer.unasked_bytes, credit.bytes);
  while (!peer.blocked.empty()) {
    const Unasked next = peer.blocked.begin()->second;
    Step& step = *Find(next.step);
    const auto outbox = step.outboxes.find(next.key);
    if (!HasCredit(peer, outbox->second.values.front().value.bytes)) return;
    OfferFront(now, next.step, step, outbox, WantId(), out);
    EraseIfDone(next.step);
  }
}

void RendezvousMachine::Handle(Time, MemberIndex from, Refuse& refuse, Effects& out) {
  Step* step = Find(refuse.step);
  if (step == nullptr) return;
  for (const OpId id : step->inbox.Refuse({from, refuse.name}, refuse.first, refuse.last)) {
    Fail(ops_.find(id), refuse.why, out);
  }
}

void RendezvousMachine::Handle(Time now, MemberIndex from, AbortStep& abort, Effects& out) {
  Step* step = Touch(now, abort.step, from);
  if (step == nullptr || step->aborted) return;
  FailStep(now, abort.step, *step, std::move(abort.why), from, out);
  EraseIfDone(abort.step);
}

void RendezvousMachine::Handle(Time, MemberIndex from, StepClosed& closed, Effects& out) {
  Step* step = Find(closed.step);
  if (step == nullptr) return;
  step->closed_by.insert(from);
  DropHeld(*step, from, NotReceived(options_, from), out);
  ForgetWants(*step, from);
  EraseIfDone(closed.step);
}

void RendezvousMachine::ForgetWants(Step& step, MemberIndex of) {
  absl::erase_if(step.outboxes, [&](auto& key_and_outbox) {
    auto& [key, outbox] = key_and_outbox;
    if (key.peer != of) return false;
    peers_[of].wants -= outbox.wants.size();
    outbox.wants.clear();
    return outbox.values.empty();
  });
}

void RendezvousMachine::PeerLost(Time now, MemberIndex index, ErrorPtr why, Effects& out) {
  Peer& peer = peers_[index];
  if (closed_ || peer.lost) return;
  peer.lost = std::move(why);
  std::vector<StepId> ids;
  for (const auto& [id, step] : steps_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const StepId id : ids) {
    Step& step = *Find(id);
    for (const OpId op : step.inbox.TakeWaitersOf(index)) Fail(ops_.find(op), peer.lost, out);
    std::vector<KeyId> fetched;
    for (const OpId id_of_op : step.fetching) {
      const auto op = ops_.find(id_of_op);
      if (op->second.key.peer != index) continue;
      fetched.push_back(op->second.key);
      Stop(op, peer.lost, out);
      op->second.arrived.Disown();
    }
    for (auto& [key, arrived] : step.inbox.TakeLostWith(index, fetched)) {
      out.dropped.push_back(std::move(arrived.value));
    }
    step.inbox.Disown(index);
    DropHeld(step, index, peer.lost, out);
    ForgetWants(step, index);
    // Its next incarnation knows nothing of the step, and may take part in it.
    step.peers.erase(index);
    step.closed_by.erase(index);
  }
  while (!peer.lent.empty()) {
    EndTold(std::exchange(peer.lent.begin()->second.told, OpId()), peer.lost, out);
    EndLease(peer, peer.lent.begin(), out);
  }
  for (const StepId id : ids) EraseIfDone(id);
  peer.unasked_values = 0;
  peer.unasked_bytes = 0;
  peer.consumed = {};
  EndPostsWithoutRoom(out);
  GiveRoom(now, out);
}

void RendezvousMachine::PeerBack(MemberIndex peer) {
  if (const auto found = peers_.find(peer); found != peers_.end()) found->second.lost = nullptr;
}

const Value* RendezvousMachine::Lent(MemberIndex index, LeaseId lease) const {
  const auto peer = peers_.find(index);
  if (peer == peers_.end()) return nullptr;
  const auto lent = peer->second.lent.find(lease);
  return lent == peer->second.lent.end() ? nullptr : &lent->second.value;
}

// --- The view ---

namespace {

// The oldest first, no more than `max`.
void Finish(std::vector<KeyRow>& rows, size_t max) {
  std::sort(rows.begin(), rows.end(), [](const KeyRow& a, const KeyRow& b) {
    if (a.age != b.age) return a.age > b.age;
    if (a.step != b.step) return a.step < b.step;
    return KeyLess()({a.peer, a.name}, {b.peer, b.name});
  });
  if (rows.size() > max) rows.resize(max);
}

}  // namespace

View RendezvousMachine::GetView(Time now, size_t rows_max) const {
  View view = {.steps = steps_.size(),
               .waits = waits_,
               .held_bytes = held_bytes_,
               .held_values = held_values_};
  for (const auto& [id, step] : steps_) {
    step.inbox.ForEach([&, &id = id](const KeyId& key, const Arrived* oldest, size_t values,
                                     const std::list<OpId>& waiters) {
      if (oldest != nullptr) {
        view.unclaimed.push_back(
            {id, key.peer, key.name, values, oldest->value.bytes, now - oldest->since});
      } else {
        view.waiting.push_back({id, key.peer, key.name, waiters.size(), 0,
                                now - ops_.find(waiters.front())->second.since});
      }
    });
    for (const auto& [key, outbox] : step.outboxes) {
      if (!outbox.values.empty()) {
        const Held& oldest = outbox.values.front();
        view.held.push_back(
            {id, key.peer, key.name, outbox.values.size(), oldest.value.bytes, now - oldest.since});
      } else {
        view.wanted.push_back(
            {id, key.peer, key.name, outbox.wants.size(), 0, now - outbox.wants.begin()->second});
      }
    }
  }
  for (auto* rows : {&view.waiting, &view.unclaimed, &view.held, &view.wanted}) {
    Finish(*rows, rows_max);
  }
  for (const auto& [index, peer] : peers_) {
    PeerRow row = {.peer = index,
                   .held = peer.blocked.size(),
                   .lent = peer.lent.size(),
                   .wants = peer.wants,
                   .lost = peer.lost ? peer.lost->message : ""};
    for (const auto& [lease, lent] : peer.lent) row.lent_bytes += lent.value.bytes;
    view.peers.push_back(std::move(row));
  }
  return view;
}

}  // namespace lockstep::rendezvous

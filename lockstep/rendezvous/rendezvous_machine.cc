// The program's side of the rendezvous: steps, sends, receives and their ends.
#include "lockstep/rendezvous/rendezvous_machine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/rendezvous/texts.h"

namespace lockstep::rendezvous {

RendezvousMachine::RendezvousMachine(Options options)
    : options_(std::move(options)),
      closed_steps_(options_.closed_steps_max),
      last_lease_(options_.first_lease) {}

// --- Steps ---

RendezvousMachine::Step* RendezvousMachine::Find(StepId id) {
  const auto found = steps_.find(id);
  return found == steps_.end() ? nullptr : &found->second;
}

ErrorPtr RendezvousMachine::CheckUsable(StepId id) const {
  if (closed_) return closed_;
  const auto found = steps_.find(id);
  if (found != steps_.end() && found->second.aborted) return found->second.aborted;
  // Before the mark is asked: a step may be open for longer than thousands of others.
  if (found != steps_.end() && found->second.opened && !found->second.closed) return nullptr;
  if (closed_steps_.Contains(id)) return StepClosedHere(id);
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStepNotOpened,
                   absl::StrCat("step ", id.value(), " is not open here: open it first"));
}

ErrorPtr RendezvousMachine::OpenStep(Time now, StepId id) {
  if (closed_) return closed_;
  if (id.value() < 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                     absl::StrCat("step ", id.value(), ": steps count from 0"));
  }
  if (const Step* known = Find(id); known != nullptr && known->opened && !known->closed) {
    return nullptr;
  }
  if (closed_steps_.Contains(id)) return StepClosedHere(id);
  const auto [found, is_new] = steps_.try_emplace(id);
  Step& step = found->second;
  if (is_new) {
    step.since = now;
  } else {
    --unopened_;
    SetExpiry(id, step, Time::Infinite());
  }
  step.opened = true;
  return nullptr;
}

void RendezvousMachine::CloseStep(Time now, StepId id, Effects& out) {
  Step* step = Find(id);
  if (closed_ || step == nullptr || !step->opened || step->closed) return;
  step->closed = true;
  closed_steps_.Add(id);
  if (step->aborted) KeepAbort(id, Echo(id, *step));
  const ErrorPtr why = StepClosedHere(id);
  EndReceives(*step, why, out);
  DiscardInbox(*step, out);
  RefuseWants(id, *step, ClosedBySender(options_, id), out);
  for (const MemberIndex peer : step->peers) out.Send(peer, StepClosed{id});
  SetExpiry(id, *step, now + options_.closed_ttl);
  EndPostsWithoutRoom(out);
  GiveRoom(now, out);
  EraseIfDone(id);
}

void RendezvousMachine::Abort(Time now, StepId id, ErrorPtr why, Effects& out) {
  Step* step = Find(id);
  if (closed_ || step == nullptr || step->aborted) return;
  FailStep(now, id, *step, std::move(why), std::nullopt, out);
  EraseIfDone(id);
}

void RendezvousMachine::FailStep(Time now, StepId id, Step& step, ErrorPtr why,
                                 std::optional<MemberIndex> told_by, Effects& out) {
  step.aborted = std::move(why);
  // Before anything of theirs is released: whoever waits to hear of it learns why.
  const ErrorPtr echo = Echo(id, step);
  for (const auto& [index, peer] : peers_) {
    if (!peer.lost && told_by != index) out.Send(index, AbortStep{id, echo});
  }
  EndReceives(step, step.aborted, out);
  DiscardInbox(step, out);
  DropHeld(step, std::nullopt, step.aborted, out);
  for (auto& [key, outbox] : step.outboxes) peers_[key.peer].wants -= outbox.wants.size();
  step.outboxes.clear();
  for (auto& [index, peer] : peers_) {
    if (peer.lost) continue;
    for (auto& [lease, lent] : peer.lent) {
      if (lent.step == id) EndTold(std::exchange(lent.told, OpId()), step.aborted, out);
    }
  }
  EndPostsWithoutRoom(out);
  GiveRoom(now, out);
}

ErrorPtr RendezvousMachine::Echo(StepId id, const Step& step) const {
  if (step.aborted->origin.has_value()) return step.aborted;
  Error told = *step.aborted;
  told.origin = options_.self;
  told.message = absl::StrCat(NameOf(options_, options_.self), " aborted step ", id.value(), ": ",
                              step.aborted->message);
  return std::make_shared<const Error>(std::move(told));
}

void RendezvousMachine::KeepAbort(StepId id, ErrorPtr echo) {
  kept_aborts_[id] = std::move(echo);
  if (kept_aborts_.size() > options_.kept_aborts_max) kept_aborts_.erase(kept_aborts_.begin());
}

ErrorPtr RendezvousMachine::AbortOf(StepId id, const Step* step) const {
  if (step != nullptr && step->aborted) return Echo(id, *step);
  const auto kept = kept_aborts_.find(id);
  return kept == kept_aborts_.end() ? nullptr : kept->second;
}

void RendezvousMachine::EndReceives(Step& step, const ErrorPtr& why, Effects& out) {
  for (const OpId op : step.inbox.TakeWaiters()) Fail(ops_.find(op), why, out);
  for (const OpId op : step.fetching) Stop(ops_.find(op), why, out);
}

void RendezvousMachine::DiscardInbox(Step& step, Effects& out) {
  for (auto& [key, arrived] : step.inbox.TakeValues()) {
    Discard(key.peer, std::move(arrived), step.aborted, out);
  }
}

void RendezvousMachine::DropHeld(Step& step, std::optional<MemberIndex> to, const ErrorPtr& why,
                                 Effects& out) {
  std::vector<std::pair<uint64_t, OpId>> told;
  absl::erase_if(step.outboxes, [&](auto& key_and_outbox) {
    auto& [key, outbox] = key_and_outbox;
    if (to.has_value() && key.peer != *to) return false;
    Peer& peer = peers_[key.peer];
    for (Held& held : outbox.values) {
      peer.blocked.erase(held.order);
      Unhold(held.value.bytes);
      --step.held;
      told.emplace_back(held.order, held.told);
      out.dropped.push_back(std::move(held.value));
    }
    outbox.values.clear();
    return outbox.wants.empty();
  });
  std::sort(told.begin(), told.end());
  for (const auto& [order, op] : told) EndTold(op, why, out);
}

void RendezvousMachine::RefuseWants(StepId id, Step& step, const ErrorPtr& why, Effects& out) {
  std::vector<std::pair<MemberIndex, Refuse>> refused;
  absl::erase_if(step.outboxes, [&](auto& key_and_outbox) {
    auto& [key, outbox] = key_and_outbox;
    if (outbox.wants.empty()) return false;
    const WantId first = outbox.wants.begin()->first;
    const WantId last = outbox.wants.rbegin()->first;
    refused.emplace_back(key.peer, Refuse{id, key.name, first, last, why});
    peers_[key.peer].wants -= outbox.wants.size();
    return true;
  });
  std::sort(refused.begin(), refused.end(), [](const auto& a, const auto& b) {
    return KeyLess()({a.first, a.second.name}, {b.first, b.second.name});
  });
  for (auto& [peer, refuse] : refused) out.Send(peer, std::move(refuse));
}

void RendezvousMachine::SetExpiry(StepId id, Step& step, Time at) {
  expiries_.erase({step.expires, id});
  step.expires = at;
  if (!at.is_infinite()) expiries_.insert({at, id});
}

void RendezvousMachine::Expire(Time now, StepId id, Effects& out) {
  Step& step = steps_.find(id)->second;
  SetExpiry(id, step, Time::Infinite());
  if (step.closed) {
    if (step.held > 0) {
      out.notices.push_back(absl::StrFormat(
          "step %d: %d values that were sent here were never received; dropped %s after the step "
          "was closed",
          id.value(), step.held, absl::FormatDuration(options_.closed_ttl)));
    }
    DropHeld(step, std::nullopt, StepClosedHere(id), out);
    GiveRoom(now, out);
    EraseIfDone(id);
    return;
  }
  RefuseWants(id, step,
              MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kStepNotOpened,
                        absl::StrFormat("%s did not open step %d within %s",
                                        NameOf(options_, options_.self), id.value(),
                                        absl::FormatDuration(options_.unopened_ttl))),
              out);
  if (!step.inbox.empty()) {
    out.notices.push_back(absl::StrFormat(
        "step %d: values that others sent here were dropped, since it was not opened within %s",
        id.value(), absl::FormatDuration(options_.unopened_ttl)));
  }
  DiscardInbox(step, out);
  --unopened_;
  steps_.erase(id);
}

void RendezvousMachine::EraseIfDone(StepId id) {
  const auto found = steps_.find(id);
  if (found == steps_.end()) return;
  Step& step = found->second;
  if (!step.closed || step.held > 0 || step.lent > 0 || !step.fetching.empty()) return;
  SetExpiry(id, step, Time::Infinite());
  steps_.erase(found);
}

void RendezvousMachine::Close(ErrorPtr why, Effects& out) {
  if (closed_) return;
  closed_ = std::move(why);
  std::vector<OpId> ops;
  for (const auto& [id, op] : ops_) ops.push_back(id);
  std::sort(ops.begin(), ops.end());
  for (const OpId id : ops) {
    const auto op = ops_.find(id);
    const bool fetches =
        op->second.stage == Stage::kFetching || op->second.stage == Stage::kStopping;
    fetches ? Stop(op, closed_, out) : Fail(op, closed_, out);
  }
  for (auto& [id, step] : steps_) step.inbox.TakeWaiters();
  wants_due_.clear();
  expiries_.clear();
}

// --- Sending ---

ErrorPtr RendezvousMachine::CheckPost(const Post& post) const {
  if (ErrorPtr error = CheckKey(options_, post.to, post.name)) return error;
  if (ErrorPtr error = CheckUsable(post.step)) return error;
  const auto peer = peers_.find(post.to);
  return peer == peers_.end() ? nullptr : peer->second.lost;
}

ErrorPtr RendezvousMachine::CheckRoom(uint64_t bytes) const {
  if (bytes <= options_.quota_bytes - held_bytes_ && held_values_ < options_.quota_values) {
    return nullptr;
  }
  return QuotaExceeded(options_, held_values_, held_bytes_, bytes);
}

ErrorPtr RendezvousMachine::Send(Time now, Post post, OpId told, Time deadline, Effects& out) {
  if (ErrorPtr error = CheckPost(post)) return error;
  if (ErrorPtr error = CheckRoom(post.value.bytes)) return error;
  if (told != OpId()) {
    AddOp(told, {.stage = Stage::kTold,
                 .step = post.step,
                 .key = KeyId({post.to, post.name}),
                 .since = now,
                 .deadline = deadline});
  }
  Accept(now, std::move(post), told, out);
  return nullptr;
}

void RendezvousMachine::SendWhenRoom(Time now, Post post, OpId op, Time deadline, Effects& out) {
  ErrorPtr error = CheckPost(post);
  if (!error && post.value.bytes > options_.quota_bytes) error = CheckRoom(post.value.bytes);
  if (!error && waits_ >= options_.waits_max) error = TooManyWaits("waits_max", options_.waits_max);
  if (error) return out.Fail(op, std::move(error));
  if (no_room_.empty() && !CheckRoom(post.value.bytes)) {
    Accept(now, std::move(post), OpId(), out);
    out.completed.push_back({.op = op});
    return;
  }
  AddOp(op, {.stage = Stage::kNoRoom,
             .step = post.step,
             .key = KeyId({post.to, post.name}),
             .since = now,
             .deadline = deadline,
             .post = std::move(post)});
  no_room_.emplace(++last_order_, op);
  ops_.find(op)->second.order = last_order_;
}

void RendezvousMachine::GiveRoom(Time now, Effects& out) {
  while (!no_room_.empty()) {
    const auto op = ops_.find(no_room_.begin()->second);
    Post& post = *op->second.post;
    if (CheckRoom(post.value.bytes)) return;
    Accept(now, std::move(post), OpId(), out);
    out.completed.push_back({.op = op->first});
    EraseOp(op);
  }
}

void RendezvousMachine::EndPostsWithoutRoom(Effects& out) {
  std::vector<OpId> waiting;
  for (const auto& [order, op] : no_room_) waiting.push_back(op);
  for (const OpId id : waiting) {
    const auto op = ops_.find(id);
    if (const ErrorPtr error = CheckPost(*op->second.post)) Fail(op, error, out);
  }
}

void RendezvousMachine::Unhold(uint64_t bytes) {
  held_bytes_ -= bytes;
  --held_values_;
}

bool RendezvousMachine::HasCredit(const Peer& peer, uint64_t bytes) const {
  return peer.unasked_values < options_.unasked_values_max &&
         peer.unasked_bytes + Inline(bytes) <= options_.unasked_bytes_max;
}

void RendezvousMachine::Accept(Time now, Post post, OpId told, Effects& out) {
  Step& step = *Find(post.step);
  const KeyView key = {post.to, post.name};
  held_bytes_ += post.value.bytes;
  ++held_values_;
  if (post.to == options_.self) {
    return Deliver(step, key, WantId(),
                   {.value = std::move(post.value), .counts = true, .told = told, .since = now},
                   out);
  }
  Peer& peer = peers_[post.to];
  if (step.closed_by.contains(post.to)) {
    Unhold(post.value.bytes);
    out.dropped.push_back(std::move(post.value));
    return EndTold(told, NotReceived(options_, post.to), out);
  }
  Held held = {.value = std::move(post.value), .told = told, .order = ++last_order_, .since = now};
  const auto outbox = step.outboxes.find(key);
  if (outbox != step.outboxes.end() && !outbox->second.wants.empty()) {
    auto& wants = outbox->second.wants;
    const WantId first = wants.begin()->first;
    wants.erase(wants.begin());
    --peer.wants;
    if (wants.empty()) step.outboxes.erase(outbox);
    return Offer(now, post.step, step, key, std::move(held), first, out);
  }
  if (peer.blocked.empty() && HasCredit(peer, held.value.bytes)) {
    return Offer(now, post.step, step, key, std::move(held), WantId(), out);
  }
  peer.blocked.emplace(held.order, Unasked{post.step, KeyId(key)});
  step.outboxes[KeyId(key)].values.push_back(std::move(held));
  ++step.held;
}

void RendezvousMachine::Offer(Time now, StepId id, Step& step, KeyView key, Held held,
                              WantId answers, Effects& out) {
  Peer& peer = peers_[key.peer];
  step.peers.insert(key.peer);
  if (answers == WantId()) {
    ++peer.unasked_values;
    peer.unasked_bytes += Inline(held.value.bytes);
  }
  LeaseId lease;
  const bool tell = held.told != OpId();
  if (tell || held.value.bytes > options_.inline_bytes_max) {
    if (++last_lease_ == 0) ++last_lease_;
    lease = LeaseId(last_lease_);
    peer.lent.emplace(lease, LentValue{id, held.value, held.told, now});
    ++step.lent;
  } else {
    Unhold(held.value.bytes);
  }
  out.Send(key.peer, rendezvous::Offer{.step = id,
                                       .name = std::string(key.name),
                                       .value = std::move(held.value),
                                       .lease = lease,
                                       .answers = answers,
                                       .tell = tell});
}

void RendezvousMachine::OfferFront(Time now, StepId id, Step& step, Outboxes::iterator outbox,
                                   WantId answers, Effects& out) {
  Held held = std::move(outbox->second.values.front());
  outbox->second.values.pop_front();
  --step.held;
  peers_[outbox->first.peer].blocked.erase(held.order);
  Offer(now, id, step, outbox->first, std::move(held), answers, out);
  if (outbox->second.values.empty()) step.outboxes.erase(outbox);
}

void RendezvousMachine::EndTold(OpId told, const ErrorPtr& error, Effects& out) {
  const auto op = ops_.find(told);
  if (op == ops_.end()) return;
  out.completed.push_back({.op = told, .error = error});
  EraseOp(op);
}

// --- Receiving ---

void RendezvousMachine::Receive(Time now, Ask ask, Effects& out) {
  ErrorPtr error = CheckKey(options_, ask.from, ask.name);
  if (!error) error = CheckUsable(ask.step);
  if (!error && waits_ >= options_.waits_max) error = TooManyWaits("waits_max", options_.waits_max);
  if (error) return out.Fail(ask.op, std::move(error));

  const KeyView key = {ask.from, ask.name};
  const auto op = AddOp(ask.op, {.step = ask.step,
                                 .key = KeyId(key),
                                 .since = now,
                                 .deadline = ask.deadline,
                                 .into_bytes = ask.into_bytes});
  Step& step = *Find(ask.step);
  if (auto arrived = step.inbox.Ask(key, ask.op)) {
    Match(op, *std::move(arrived), out);
  } else if (const auto peer = peers_.find(ask.from); peer != peers_.end() && peer->second.lost) {
    End(now, op, peer->second.lost, out);
  } else if (ask.from != options_.self) {
    wants_due_.emplace_back(now + options_.want_after, ask.op);
  }
  GiveRoom(now, out);
}

void RendezvousMachine::Deliver(Step& step, KeyView key, WantId answers, Arrived arrived,
                                Effects& out) {
  const auto leaver = step.inbox.Arrive(key, answers, arrived);
  if (!leaver.has_value()) return;
  TakeBackWant(*leaver, out);
  Match(ops_.find(leaver->op), std::move(arrived), out);
}

void RendezvousMachine::TakeBackWant(const StepTable::Leaver& leaver, Effects& out) {
  if (leaver.unwanted == WantId()) return;
  const Op& op = ops_.find(leaver.op)->second;
  out.Send(op.key.peer, Unwant{op.step, op.key.name, leaver.unwanted});
}

void RendezvousMachine::Match(Ops::iterator op, Arrived arrived, Effects& out) {
  const MemberIndex from = op->second.key.peer;
  NoteReceived(from, arrived, nullptr, out);
  const auto& into = op->second.into_bytes;
  if (into.has_value() && (arrived.value.dead || *into != arrived.value.bytes)) {
    Fail(op,
         SizeMismatch(op->second.step, op->second.key.name, NameOf(options_, from), *into,
                      arrived.value),
         out);
    if (arrived.tell) out.Send(from, Taken{arrived.lease});
    return Discard(from, std::move(arrived), nullptr, out);
  }
  if (!arrived.away) return CompleteWith(op, std::move(arrived), out);
  op->second.stage = Stage::kFetching;
  Find(op->second.step)->fetching.insert(op->first);
  out.fetches.push_back({op->first, from, arrived.lease, arrived.value});
  op->second.arrived = std::move(arrived);
}

void RendezvousMachine::NoteReceived(MemberIndex from, Arrived& arrived, const ErrorPtr& untold,
                                     Effects& out) {
  if (!std::exchange(arrived.counts, false)) return;
  if (from == options_.self) {
    Unhold(arrived.value.bytes);
    return EndTold(arrived.told, untold, out);
  }
  Credit& consumed = peers_[from].consumed;
  ++consumed.values;
  consumed.bytes += Inline(arrived.value.bytes);
  if (consumed.values < options_.unasked_values_max / 16 &&
      consumed.bytes < options_.unasked_bytes_max / 16) {
    return;
  }
  out.Send(from, std::exchange(consumed, {}));
}

void RendezvousMachine::CompleteWith(Ops::iterator op, Arrived arrived, Effects& out) {
  const MemberIndex from = op->second.key.peer;
  if (arrived.tell) out.Send(from, Taken{arrived.lease});
  // Bytes that came along need no lease, and those that were fetched need it no longer.
  const bool here = arrived.value.memory != nullptr || arrived.value.bytes == 0;
  if (arrived.away && arrived.lease != LeaseId()) out.Send(from, Released{arrived.lease});
  out.completed.push_back({.op = op->first,
                           .error = nullptr,
                           .from = from,
                           .value = std::move(arrived.value),
                           .lease = here || arrived.away ? LeaseId() : arrived.lease,
                           .place = std::move(arrived.place)});
  EraseOp(op);
}

void RendezvousMachine::Discard(MemberIndex from, Arrived arrived, const ErrorPtr& why,
                                Effects& out) {
  NoteReceived(from, arrived, why ? why : NotReceived(options_, from), out);
  if (arrived.lease != LeaseId()) out.Send(from, Released{arrived.lease});
  out.dropped.push_back(std::move(arrived.value));
}

void RendezvousMachine::Release(MemberIndex from, LeaseId lease, Effects& out) {
  const auto peer = peers_.find(from);
  if (closed_ || peer == peers_.end() || peer->second.lost) return;
  out.Send(from, Released{lease});
}

void RendezvousMachine::Cancel(Time now, OpId id, Effects& out) {
  const auto op = ops_.find(id);
  if (op == ops_.end()) return;
  End(now, op,
      MakeError(absl::StatusCode::kCancelled, Reason::kCancelled,
                absl::StrFormat("step %d, key '%s': cancelled by the caller",
                                op->second.step.value(), op->second.key.name)),
      out);
}

// --- Operations ---

RendezvousMachine::Ops::iterator RendezvousMachine::AddOp(OpId id, Op op) {
  const auto [it, is_new] = ops_.try_emplace(id, std::move(op));
  LOCKSTEP_CHECK(is_new);
  if (!it->second.deadline.is_infinite()) deadlines_.insert({it->second.deadline, id});
  if (it->second.stage != Stage::kTold) ++waits_;
  return it;
}

void RendezvousMachine::EraseOp(Ops::iterator op) {
  if (!op->second.deadline.is_infinite()) deadlines_.erase({op->second.deadline, op->first});
  const Stage stage = op->second.stage;
  if (stage != Stage::kTold) --waits_;
  if (stage == Stage::kNoRoom) no_room_.erase(op->second.order);
  if (stage == Stage::kFetching || stage == Stage::kStopping) {
    Find(op->second.step)->fetching.erase(op->first);
  }
  ops_.erase(op);
  // So that nobody wakes for those that have their value.
  while (!wants_due_.empty() && !ops_.contains(wants_due_.front().second)) wants_due_.pop_front();
}

// Before its time: cancelled, or too late.
void RendezvousMachine::End(Time now, Ops::iterator op, const ErrorPtr& error, Effects& out) {
  switch (op->second.stage) {
    case Stage::kWaiting: {
      const auto leaver = Find(op->second.step)->inbox.Forget(op->second.key, op->first);
      LOCKSTEP_CHECK(leaver.has_value());
      TakeBackWant(*leaver, out);
      return Fail(op, error, out);
    }
    case Stage::kFetching:
      return Stop(op, error, out);
    case Stage::kStopping:
      return;
    case Stage::kTold:
      return Fail(op, error, out);
    case Stage::kNoRoom:
      Fail(op, error, out);
      return GiveRoom(now, out);
  }
}

void RendezvousMachine::Fail(Ops::iterator op, const ErrorPtr& error, Effects& out) {
  if (op->second.post.has_value()) out.dropped.push_back(std::move(op->second.post->value));
  out.Fail(op->first, error);
  EraseOp(op);
}

void RendezvousMachine::Stop(Ops::iterator op, const ErrorPtr& error, Effects& out) {
  if (op->second.stage == Stage::kStopping) return;
  op->second.stage = Stage::kStopping;
  op->second.ends_with = error;
  out.stop_fetches.push_back(op->first);
}

void RendezvousMachine::Fetched(Time now, OpId id, ErrorPtr error, Effects& out) {
  const auto op = ops_.find(id);
  if (op == ops_.end()) return;
  const StepId step_id = op->second.step;
  Step& step = *Find(step_id);
  const KeyId key = op->second.key;
  Arrived arrived = std::move(op->second.arrived);
  const ErrorPtr over = closed_        ? closed_
                        : step.aborted ? step.aborted
                        : step.closed  ? StepClosedHere(step_id)
                                       : nullptr;
  if (!error && !over) {
    CompleteWith(op, std::move(arrived), out);
    return;
  }
  // Of a sender that was lost meanwhile, though it may be back: nobody can bring it any more.
  const bool lost = arrived.lease == LeaseId();
  const ErrorPtr ends_with = op->second.ends_with;
  Fail(op, over ? over : ends_with ? ends_with : error, out);
  if (over || lost) {
    Discard(key.peer, std::move(arrived), over, out);
  } else if (const auto next = step.inbox.PutBack(key, arrived)) {
    TakeBackWant(*next, out);
    Match(ops_.find(next->op), std::move(arrived), out);
  }
  GiveRoom(now, out);
  EraseIfDone(step_id);
}

// --- Time ---

void RendezvousMachine::SendWants(Time now, Effects& out) {
  while (!wants_due_.empty() && wants_due_.front().first <= now) {
    const auto op = ops_.find(wants_due_.front().second);
    wants_due_.pop_front();
    if (op == ops_.end() || op->second.stage != Stage::kWaiting) continue;
    const auto& [step_id, key] = std::tie(op->second.step, op->second.key);
    const WantId want(++last_want_);
    Step& step = *Find(step_id);
    step.peers.insert(key.peer);
    peers_.try_emplace(key.peer);  // it hears of an abort, too
    step.inbox.Want(key, want);
    Want* last = out.messages.empty() ? nullptr : std::get_if<Want>(&out.messages.back().message);
    if (last != nullptr && out.messages.back().to == key.peer && last->step == step_id &&
        last->name == key.name) {
      last->last = want;
    } else {
      out.Send(key.peer, Want{step_id, key.name, want, want});
    }
  }
}

void RendezvousMachine::ReachDeadline(Time now, Effects& out) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto op = ops_.find(deadlines_.begin()->second);
    deadlines_.erase(deadlines_.begin());
    End(now, op, TimedOut(now, op->second), out);
  }
  SendWants(now, out);
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    Expire(now, expiries_.begin()->second, out);
  }
}

Time RendezvousMachine::NextDeadline() const {
  Time next = Time::Infinite();
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  if (!wants_due_.empty()) next = std::min(next, wants_due_.front().first);
  if (!expiries_.empty()) next = std::min(next, expiries_.begin()->first);
  return next;
}

// --- Texts ---

ErrorPtr RendezvousMachine::TimedOut(Time now, const Op& op) const {
  const std::string who = NameOf(options_, op.key.peer);
  const std::string waited = absl::FormatDuration(now - op.since);
  std::string text;
  switch (op.stage) {
    case Stage::kWaiting:
    case Stage::kFetching:
    case Stage::kStopping:
      text = absl::StrFormat(
          "step %d, key '%s': %s from %s within %s", op.step.value(), op.key.name,
          op.stage == Stage::kWaiting ? "nothing came" : "its bytes did not come", who, waited);
      break;
    case Stage::kTold:
      text = absl::StrFormat("step %d, key '%s': %s has not received it within %s; it still may",
                             op.step.value(), op.key.name, who, waited);
      break;
    case Stage::kNoRoom:
      text = absl::StrFormat(
          "step %d, key '%s' for %s: no room for it within %s; %d values of %d bytes wait for "
          "their "
          "receivers",
          op.step.value(), op.key.name, who, waited, held_values_, held_bytes_);
      break;
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kTimedOut, std::move(text));
}

}  // namespace lockstep::rendezvous

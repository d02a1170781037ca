#include "lockstep/rendezvous/operations.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::rendezvous {

Operation& Operations::Add(Operation&& added) {
  const OpId id = added.id;
  // 0 stands for none.
  LOCKSTEP_DCHECK(id != OpId());
  const auto [it, is_new] = ops_.try_emplace(id, std::move(added));
  LOCKSTEP_CHECK(is_new);
  Operation& op = it->second;
  if (!op.deadline.is_infinite()) deadlines_.insert({op.deadline, id});
  // Not those that wait for an acknowledgement: the quota bounds them, by their values.
  if (!std::holds_alternative<Unacknowledged>(op.state)) ++waits_;
  return op;
}

Operation* Operations::Find(OpId id) {
  const auto found = ops_.find(id);
  return found == ops_.end() ? nullptr : &found->second;
}

const Operation* Operations::Find(OpId id) const {
  const auto found = ops_.find(id);
  return found == ops_.end() ? nullptr : &found->second;
}

std::vector<OpId> Operations::Ids() const {
  std::vector<OpId> ids;
  ids.reserve(ops_.size());
  for (const auto& [id, op] : ops_) ids.push_back(id);
  // The order of effects must not depend on a hash.
  std::sort(ids.begin(), ids.end());
  return ids;
}

void Operations::Complete(Operation& op, Completed&& completed, Effects& out) {
  completed.op = op.id;
  out.completed.push_back(std::move(completed));
  // Behind the effect, which needs the operation's id.
  Erase(op);
}

void Operations::Fail(Operation& op, const ErrorPtr& error, Effects& out) {
  if (auto* unsent = std::get_if<WithoutRoom>(&op.state)) {
    // No step holds it, so that nothing else gives its memory back.
    out.dropped.push_back(std::move(unsent->post.value));
  }
  Complete(op, {.error = error}, out);
}

void Operations::Acknowledge(OpId id, const ErrorPtr& error, Effects& out) {
  // It may be over, by its deadline: its value went on without it.
  if (Operation* op = Find(id)) Complete(*op, {.error = error}, out);
}

void Operations::Erase(Operation& op) {
  if (!op.deadline.is_infinite()) deadlines_.erase({op.deadline, op.id});
  LOCKSTEP_DCHECK(std::holds_alternative<Unacknowledged>(op.state) || waits_ > 0);
  if (!std::holds_alternative<Unacknowledged>(op.state)) --waits_;
  ops_.erase(op.id);
  LOCKSTEP_DCHECK(waits_ <= ops_.size());
  // So that nobody wakes for those that have their value.
  while (!wants_due_.empty() && !ops_.contains(wants_due_.front().second)) wants_due_.pop_front();
}

Operation* Operations::TakeDueWant(Time now) {
  while (!wants_due_.empty() && wants_due_.front().first <= now) {
    Operation* op = Find(wants_due_.front().second);
    wants_due_.pop_front();
    // One that fetches was offered its value: nothing is left to want.
    if (op != nullptr && std::holds_alternative<Unmatched>(op->state)) return op;
  }
  return nullptr;
}

Operation* Operations::TakeOverdue(Time now) {
  if (deadlines_.empty() || deadlines_.begin()->first > now) return nullptr;
  Operation* op = Find(deadlines_.begin()->second);
  // What is completed has no deadline any more.
  LOCKSTEP_DCHECK(op != nullptr);
  // Only the deadline goes: a receive whose bytes are being written stays, and is overdue once.
  deadlines_.erase(deadlines_.begin());
  return op;
}

Time Operations::NextDeadline() const {
  Time next = Time::Infinite();
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  if (!wants_due_.empty()) next = std::min(next, wants_due_.front().first);
  return next;
}

}  // namespace lockstep::rendezvous

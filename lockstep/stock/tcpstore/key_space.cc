#include "lockstep/stock/tcpstore/key_space.h"

#include <memory>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::tcpstore {
namespace {

absl::Status OutOfPlace(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a record out of place: ", what));
}

}  // namespace

ValuePtr KeySpace::Value(absl::string_view key) const {
  const KeyTable& values = TableOf(key);
  const auto found = values.find(key);
  return found == values.end() ? nullptr : found->second;
}

size_t KeySpace::QueueLength(absl::string_view key) const {
  const auto queue = queues_.find(key);
  return queue == queues_.end() ? 0 : queue->second.size();
}

KeySpace::Place KeySpace::Find(absl::string_view key) {
  KeyTable& values = TableOf(key);
  const auto found = values.find(key);
  return {.key = key, .stored = found == values.end() ? nullptr : &found->second};
}

void KeySpace::Put(const Place& place, ValuePtr value) {
  const absl::string_view key = place.key;
  const size_t before = bytes_;
  ValuePtr& stored =
      place.stored != nullptr ? *place.stored : TableOf(key).try_emplace(key).first->second;
  // The new value is counted before the old one is taken off: the sum never falls below zero.
  bytes_ += value->size();
  bytes_ = stored ? bytes_ - stored->size() : bytes_ + key.size();
  if (!stored) {
    name_bytes_ += key.size();
    if (IsOfGroup(key)) group_name_bytes_ += key.size();
  }
  stored = std::move(value);
  // Unsigned, so a value that became shorter comes out right in the sum.
  if (IsOfGroup(key)) group_bytes_ += bytes_ - before;
}

void KeySpace::Lengthen(absl::string_view key, absl::string_view more) {
  // A new value, since the old one may be on its way to a client.
  const ValuePtr before = Value(key);
  std::string all;
  all.reserve((before ? before->size() : 0) + more.size());
  if (before) all = *before;
  all.append(more.data(), more.size());
  Put(key, std::make_shared<const std::string>(std::move(all)));
}

bool KeySpace::Delete(absl::string_view key) {
  KeyTable& values = TableOf(key);
  const auto found = values.find(key);
  if (found == values.end()) return false;
  // Before the entry goes, which owns the key.
  const size_t bytes = found->first.size() + found->second->size();
  LOCKSTEP_DCHECK(bytes_ >= bytes && (!IsOfGroup(key) || group_bytes_ >= bytes));
  bytes_ -= bytes;
  name_bytes_ -= key.size();
  if (IsOfGroup(key)) {
    group_bytes_ -= bytes;
    group_name_bytes_ -= key.size();
  }
  values.erase(found);
  return true;
}

void KeySpace::Push(absl::string_view key, ValuePtr value) {
  // The key counts once, whether or not there is also a value under it.
  const auto [queue, is_new] = queues_.try_emplace(key);
  bytes_ += (is_new ? key.size() : 0) + value->size();
  queue->second.push_back(std::move(value));
  ++queued_;
}

ValuePtr KeySpace::Pop(absl::string_view key) {
  const auto queue = queues_.find(key);
  if (queue == queues_.end()) return nullptr;
  LOCKSTEP_DCHECK(!queue->second.empty() && queued_ > 0);  // (3)
  // No queue is empty (3), so there is a first value.
  ValuePtr value = std::move(queue->second.front());
  queue->second.pop_front();
  --queued_;
  bytes_ -= value->size();
  // Invariant (3): a queue that is empty is none.
  if (queue->second.empty()) {
    bytes_ -= queue->first.size();
    queues_.erase(queue);
  }
  return value;
}

void KeySpace::ForgetAll() {
  // The group first: it takes its bytes off the sum, which is zero afterwards.
  ForgetGroup();
  gone_.Add(std::exchange(keys_, {}));
  gone_.Add(std::exchange(queues_, {}));
  queued_ = 0;
  bytes_ = 0;
  name_bytes_ = 0;
}

size_t KeySpace::ForgetGroup() {
  // Before the table goes.
  const size_t count = group_keys_.size();
  gone_.Add(std::exchange(group_keys_, {}));
  LOCKSTEP_DCHECK(bytes_ >= group_bytes_);
  bytes_ -= std::exchange(group_bytes_, 0);
  name_bytes_ -= std::exchange(group_name_bytes_, 0);
  return count;
}

absl::Status KeySpace::ApplyTo(const record::Opened& /*record*/) {
  ForgetAll();
  return absl::OkStatus();
}

// For Attempts, not for the keys.
absl::Status KeySpace::ApplyTo(const record::Used& /*record*/) { return absl::OkStatus(); }

absl::Status KeySpace::ApplyTo(const record::KeySet& record) {
  Put(record.key, record.value);
  return absl::OkStatus();
}

absl::Status KeySpace::ApplyTo(const record::ValueAppended& record) {
  Lengthen(record.key, *record.more);
  return absl::OkStatus();
}

absl::Status KeySpace::ApplyTo(const record::KeyDeleted& record) {
  return Delete(record.key) ? absl::OkStatus() : OutOfPlace("it deletes a key that does not exist");
}

absl::Status KeySpace::ApplyTo(const record::QueuePushed& record) {
  Push(record.key, record.value);
  return absl::OkStatus();
}

absl::Status KeySpace::ApplyTo(const record::QueuePopped& record) {
  if (Pop(record.key) != nullptr) return absl::OkStatus();
  return OutOfPlace("it takes a value from an empty queue");
}

absl::Status KeySpace::ApplyTo(const record::Cleared& /*record*/) {
  ForgetAll();
  return absl::OkStatus();
}

absl::Status KeySpace::ApplyTo(const record::GroupCleared& /*record*/) {
  ForgetGroup();
  return absl::OkStatus();
}

absl::Status KeySpace::Apply(const Record& record) {
  return std::visit([this](const auto& is) { return ApplyTo(is); }, record);
}

std::vector<Record> KeySpace::Snapshot() const {
  std::vector<Record> records;
  records.reserve(size());
  for (const KeyTable* values : {&keys_, &group_keys_}) {
    for (const auto& [key, value] : *values) records.push_back(record::KeySet{key, value});
  }
  for (const auto& [key, queue] : queues_) {
    // Oldest first: pushed again in this order, they are taken in this order.
    for (const ValuePtr& value : queue) records.push_back(record::QueuePushed{key, value});
  }
  return records;
}

void KeySpace::VisitNames(absl::string_view from, NameVisitor visit) const {
  auto key = keys_.lower_bound(from);
  auto of_group = group_keys_.lower_bound(from);
  while (key != keys_.end() || of_group != group_keys_.end()) {
    // No key is in both.
    const bool group_next =
        key == keys_.end() || (of_group != group_keys_.end() && of_group->first < key->first);
    if (!visit(group_next ? (of_group++)->first : (key++)->first)) return;
  }
}

// (1), (2) and (5) by counting all again, (3) and (4) as they are met.
bool KeySpace::InvariantsHold() const {
  size_t bytes = 0;
  size_t group_bytes = 0;
  size_t queued = 0;
  size_t names = 0;
  size_t group_names = 0;
  for (const auto& [key, value] : keys_) {
    if (IsOfGroup(key)) return false;
    names += key.size();
    bytes += key.size() + value->size();
  }
  for (const auto& [key, value] : group_keys_) {
    if (!IsOfGroup(key)) return false;
    group_names += key.size();
    group_bytes += key.size() + value->size();
  }
  for (const auto& [key, queue] : queues_) {
    if (queue.empty()) return false;
    bytes += key.size();
    queued += queue.size();
    for (const ValuePtr& value : queue) bytes += value->size();
  }
  return bytes_ == bytes + group_bytes && group_bytes_ == group_bytes && queued_ == queued &&
         name_bytes_ == names + group_names && group_name_bytes_ == group_names;
}

}  // namespace lockstep::tcpstore

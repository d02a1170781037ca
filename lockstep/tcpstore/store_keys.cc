// Keys and queues of a store: how they are changed, and how they are made again from records.
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/tcpstore/store.h"

namespace lockstep::tcpstore {
namespace {

absl::Status OutOfPlace(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a record out of place: ", what));
}

}  // namespace

void Store::Put(absl::string_view key, ValuePtr value) {
  const size_t before = bytes_;
  ValuePtr& stored = TableOf(key).try_emplace(key).first->second;
  bytes_ += value->size();
  if (stored) {
    bytes_ -= stored->size();
  } else {
    bytes_ += key.size();
  }
  stored = std::move(value);
  if (IsOfGroup(key)) group_bytes_ += bytes_ - before;
}

void Store::Lengthen(absl::string_view key, absl::string_view more) {
  const ValuePtr before = Lookup(key);
  std::string all;
  all.reserve((before ? before->size() : 0) + more.size());
  if (before) all = *before;
  all.append(more.data(), more.size());
  Put(key, std::make_shared<const std::string>(std::move(all)));
}

bool Store::Delete(absl::string_view key) {
  KeyTable& values = TableOf(key);
  const auto found = values.find(key);
  if (found == values.end()) return false;
  const size_t bytes = found->first.size() + found->second->size();
  bytes_ -= bytes;
  if (IsOfGroup(key)) group_bytes_ -= bytes;
  values.erase(found);
  return true;
}

void Store::Push(absl::string_view key, ValuePtr value) {
  const auto [queue, is_new] = queues_.try_emplace(key);
  bytes_ += (is_new ? key.size() : 0) + value->size();
  queue->second.push_back(std::move(value));
  ++queued_;
}

ValuePtr Store::Pop(QueueTable::iterator queue) {
  ValuePtr value = std::move(queue->second.front());
  queue->second.pop_front();
  --queued_;
  bytes_ -= value->size();
  if (queue->second.empty()) {
    bytes_ -= queue->first.size();
    queues_.erase(queue);
  }
  return value;
}

void Store::ForgetAll() {
  ForgetGroup();
  gone_.Add(std::exchange(keys_, {}));
  gone_.Add(std::exchange(queues_, {}));
  queued_ = 0;
  bytes_ = 0;
}

void Store::ForgetGroup() {
  gone_.Add(std::exchange(group_keys_, {}));
  bytes_ -= std::exchange(group_bytes_, 0);
}

absl::Status Store::ApplyTo(const record::Opened& /*record*/) {
  ForgetAll();
  return absl::OkStatus();
}

absl::Status Store::ApplyTo(const record::Used& /*record*/) { return absl::OkStatus(); }

absl::Status Store::ApplyTo(const record::KeySet& record) {
  Put(record.key, record.value);
  return absl::OkStatus();
}

absl::Status Store::ApplyTo(const record::ValueAppended& record) {
  Lengthen(record.key, *record.more);
  return absl::OkStatus();
}

absl::Status Store::ApplyTo(const record::KeyDeleted& record) {
  return Delete(record.key) ? absl::OkStatus() : OutOfPlace("a key that was not there is deleted");
}

absl::Status Store::ApplyTo(const record::QueuePushed& record) {
  Push(record.key, record.value);
  return absl::OkStatus();
}

absl::Status Store::ApplyTo(const record::QueuePopped& record) {
  const auto queue = queues_.find(record.key);
  if (queue == queues_.end()) return OutOfPlace("a value is taken from an empty queue");
  Pop(queue);
  return absl::OkStatus();
}

absl::Status Store::ApplyTo(const record::Cleared& /*record*/) {
  ForgetAll();
  return absl::OkStatus();
}

absl::Status Store::ApplyTo(const record::GroupCleared& /*record*/) {
  ForgetGroup();
  return absl::OkStatus();
}

absl::Status Store::Apply(const Record& record) {
  return std::visit([this](const auto& is) { return ApplyTo(is); }, record);
}

std::vector<Record> Store::Snapshot() const {
  std::vector<Record> records;
  records.reserve(size());
  for (const KeyTable* values : {&keys_, &group_keys_}) {
    for (const auto& [key, value] : *values) records.push_back(record::KeySet{key, value});
  }
  for (const auto& [key, queue] : queues_) {
    for (const ValuePtr& value : queue) records.push_back(record::QueuePushed{key, value});
  }
  return records;
}

}  // namespace lockstep::tcpstore

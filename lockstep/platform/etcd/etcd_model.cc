#include "lockstep/platform/etcd/etcd_model.h"

#include <algorithm>
#include <utility>

namespace lockstep::etcd {
namespace {

// As etcd has it by default.
constexpr size_t kOperationsMax = 128;
constexpr size_t kRequestBytesMax = 1'500'000;

size_t BytesOf(const std::vector<Operation>& operations) {
  size_t bytes = 0;
  for (const Operation& each : operations) {
    if (const auto* put = std::get_if<Put>(&each)) bytes += put->key.size() + put->value.size();
  }
  return bytes;
}

bool Writes(const std::vector<Operation>& operations) {
  return std::any_of(operations.begin(), operations.end(),
                     [](const Operation& each) { return !std::holds_alternative<Range>(each); });
}

}  // namespace

absl::StatusOr<TransactionResult> EtcdModel::Commit(const Transaction& transaction) {
  if (transaction.then.size() > kOperationsMax || BytesOf(transaction.then) > kRequestBytesMax) {
    return absl::InvalidArgumentError("request is too large");
  }
  TransactionResult result;
  result.succeeded = std::all_of(transaction.compare.begin(), transaction.compare.end(),
                                 [this](const Compare& each) { return Holds(each); });
  const std::vector<Operation>& operations =
      result.succeeded ? transaction.then : transaction.otherwise;
  for (const Operation& each : operations) {
    const auto* put = std::get_if<Put>(&each);
    if (put != nullptr && put->lease != 0 && !leases_.contains(put->lease)) {
      return absl::NotFoundError("requested lease not found");
    }
    const auto* range = std::get_if<Range>(&each);
    if (range != nullptr && range->revision != 0 && range->revision < compacted_) {
      return absl::OutOfRangeError("required revision has been compacted");
    }
  }
  if (Writes(operations)) ++revision_;
  for (const Operation& each : operations) {
    OperationResult& to = result.results.emplace_back();
    if (const auto* range = std::get_if<Range>(&each)) to = Read(*range);
    if (const auto* put = std::get_if<Put>(&each)) Write(*put);
    if (const auto* erase = std::get_if<Delete>(&each)) Erase(erase->key, erase->end);
  }
  result.revision = revision_;
  return result;
}

bool EtcdModel::Holds(const Compare& compare) const {
  const auto found = keys_.find(compare.key);
  if (found == keys_.end()) return compare.revision == 0;
  return compare.revision ==
         (compare.what == Compare::What::kCreated ? found->second.created : found->second.modified);
}

OperationResult EtcdModel::Read(const Range& range) const {
  OperationResult result;
  const std::string end = range.end.empty() ? range.key + '\0' : range.end;
  for (auto at = keys_.lower_bound(range.key); at != keys_.end() && at->first < end; ++at) {
    if (range.limit > 0 && result.found.size() == static_cast<size_t>(range.limit)) {
      result.more = true;
      break;
    }
    result.found.push_back(at->second);
  }
  return result;
}

void EtcdModel::Write(const Put& put) {
  KeyValue& key = keys_[put.key];
  if (key.created == 0) key.created = revision_;
  key.key = put.key;
  key.value = put.value;
  key.modified = revision_;
  key.lease = put.lease;
  history_.push_back(key);
}

void EtcdModel::Erase(const std::string& key, const std::string& end) {
  const std::string behind = end.empty() ? key + '\0' : end;
  if (behind <= key) return;
  const auto first = keys_.lower_bound(key);
  const auto last = keys_.lower_bound(behind);
  for (auto at = first; at != last; ++at) {
    history_.push_back({.key = at->first, .modified = revision_});
  }
  keys_.erase(first, last);
}

absl::Status EtcdModel::GrantLease(Time now, int64_t id, absl::Duration ttl) {
  if (!leases_.emplace(id, Lease{.ttl = ttl, .ends = now + ttl}).second) {
    return absl::FailedPreconditionError("lease already exists");
  }
  return absl::OkStatus();
}

absl::Status EtcdModel::RenewLease(Time now, int64_t id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return absl::NotFoundError("requested lease not found");
  found->second.ends = now + found->second.ttl;
  return absl::OkStatus();
}

absl::Status EtcdModel::RevokeLease(int64_t id) {
  if (leases_.erase(id) == 0) return absl::NotFoundError("requested lease not found");
  std::vector<std::string> keys;
  for (const auto& [name, key] : keys_) {
    if (key.lease == id) keys.push_back(name);
  }
  if (!keys.empty()) ++revision_;
  for (const std::string& key : keys) Erase(key, "");
  return absl::OkStatus();
}

absl::Status EtcdModel::Compact(Revision revision) {
  if (revision <= compacted_) return absl::OutOfRangeError("it has been compacted");
  compacted_ = revision;
  std::erase_if(history_, [this](const KeyValue& each) { return each.modified <= compacted_; });
  return absl::OkStatus();
}

void EtcdModel::Expire(Time now) {
  std::vector<int64_t> ended;
  for (const auto& [id, lease] : leases_) {
    if (lease.ends <= now) ended.push_back(id);
  }
  for (const int64_t id : ended) RevokeLease(id).IgnoreError();
}

void EtcdModel::Rearm(Time now) {
  for (auto& [id, lease] : leases_) lease.ends = now + lease.ttl;
}

std::vector<KeyValue> EtcdModel::EventsOf(const std::string& key, Revision since) const {
  std::vector<KeyValue> events;
  for (const KeyValue& each : history_) {
    if (each.key == key && each.modified >= since) events.push_back(each);
  }
  return events;
}

}  // namespace lockstep::etcd

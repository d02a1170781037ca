// For tests: what etcd promises, in memory. Deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/etcd/transaction.h"

namespace lockstep::etcd {

// Keys with their revisions, leases that end, a history that is compacted. Everything is agreed on
// at once: what is slow, lost or done twice is the business of who carries requests to it.
//
// Threads: thread-compatible.
class EtcdModel {
 public:
  // As Client's, at this time.
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction);
  absl::Status GrantLease(Time now, int64_t id, absl::Duration ttl);
  absl::Status RenewLease(Time now, int64_t id);
  absl::Status RevokeLease(int64_t id);
  absl::Status Compact(Revision revision);
  // Ends the leases whose time is over, and deletes their keys.
  void Expire(Time now);
  // A new leader of etcd: leases begin anew, as it does not know when they were renewed last.
  void Rearm(Time now);

  Revision revision() const { return revision_; }
  const std::map<std::string, KeyValue>& keys() const { return keys_; }
  // As it is now, whatever is read later; for damage.
  std::map<std::string, KeyValue>& mutable_keys() { return keys_; }
  // What has happened to a key since this revision, in order; `created` 0: it was deleted.
  std::vector<KeyValue> EventsOf(const std::string& key, Revision since) const;

 private:
  struct Lease {
    absl::Duration ttl;
    Time ends;
  };
  bool Holds(const Compare& compare) const;
  OperationResult Read(const Range& range) const;
  void Write(const Put& put);
  void Erase(const std::string& key, const std::string& end);

  Revision revision_ = 1;
  Revision compacted_ = 0;
  std::map<std::string, KeyValue> keys_;
  std::vector<KeyValue> history_;
  std::map<int64_t, Lease> leases_;
};

}  // namespace lockstep::etcd

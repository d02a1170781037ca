// Calls etcd: one after the other, on the thread of the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/etcd/location.h"
#include "lockstep/platform/etcd/transaction.h"

namespace lockstep::etcd {

// How etcd is called, beside where it is. Empty: not so.
struct Access {
  std::string authority;         // PEM: of the certificates that etcd's members have; TLS
  std::string certificate, key;  // PEM: what this client shows
  std::string password;          // of the location's user

  friend bool operator==(const Access&, const Access&) = default;
};

// What a member of etcd says of itself.
struct MemberStatus {
  std::string version;
  uint64_t member = 0;
  uint64_t leader = 0;  // 0: it knows none
};

// Keeps to a member as long as that answers, and goes on to the next when it does not.
//
// Errors: those of etcd, with the member before them. After one for which `IsUndecided` holds the
// request may or may not have taken effect.
//
// Owns a thread. Threads: thread-safe; `Cancel` ends what the other threads wait for. Bounds: each
// call waits no longer than its time-out; an answer has at most `kAnswerBytesMax`.
class Client {
 public:
  static constexpr size_t kAnswerBytesMax = size_t{64} << 20;

  Client(const Location& location, const Access& access);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction, absl::Duration timeout);
  // Forgets what was overwritten or deleted before this revision. OUT_OF_RANGE: it is forgotten.
  absl::Status Compact(Revision revision, absl::Duration timeout);

  // A lease that ends unless it is renewed within `ttl`, in whole seconds; returns what etcd
  // grants. `id` is not 0. INVALID_ARGUMENT: there is one already.
  absl::StatusOr<absl::Duration> GrantLease(int64_t id, absl::Duration ttl, absl::Duration timeout);
  // NOT_FOUND: it has ended.
  absl::Status RenewLease(int64_t id, absl::Duration timeout);
  // Ends it, and deletes its keys.
  absl::Status RevokeLease(int64_t id, absl::Duration timeout);

  // Tells of changes of the keys of `range` from its revision on, until `take` returns false, or an
  // error. OUT_OF_RANGE: that revision is forgotten. An event of a deleted key has no value, and
  // `created` 0.
  struct Events {
    Revision revision = 0;         // of etcd
    std::vector<KeyValue> events;  // in their order
  };
  absl::Status Watch(const Range& range, absl::AnyInvocable<bool(Events&&)> take);

  // Of each member, in the location's order.
  std::vector<absl::StatusOr<MemberStatus>> StatusOfMembers(absl::Duration timeout);
  const std::vector<std::string>& endpoints() const { return endpoints_; }

  // Whoever waits is told CANCELLED, and so is everybody after this.
  void Cancel();

 private:
  struct Member;
  class Call;
  class Connector;

  // Calls `call` with a member, and with the next ones while they cannot be reached.
  template <class Function>
  absl::Status OnMember(absl::Duration timeout, Function&& call);
  absl::Status Authenticate(Member& member, absl::Duration timeout);
  std::string Token();

  const std::vector<std::string> endpoints_;
  const std::string user_, password_;
  std::vector<std::unique_ptr<Member>> members_;
  std::unique_ptr<Connector> connector_;  // uses the members
  std::atomic<size_t> current_ = 0;       // of `members_`: who answered last
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call*> calls_ ABSL_GUARDED_BY(mutex_);  // that somebody waits for
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::etcd

// Which of several servers writes to a state in etcd: the one whose lease holds the leader's key.
// Pure.
//
// Safety does not hang on it: a row takes effect only while the key is as this server wrote it
// (FencedLog). The election decides when to write it, and when a server has to believe that its
// lease may have ended.
//
//   Follower --claimed--> Leader --resigned, or not renewed in time--> Over
//
// Whoever uses it carries out each request of `Next`, one at a time, and brings the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/etcd/layout.h"
#include "lockstep/platform/etcd/transaction.h"

namespace lockstep::etcd {

// Threads: thread-compatible. Times are of a clock that counts while the host is suspended.
class Election {
 public:
  struct Options {
    Layout layout;
    // What the leader's key says of this server: its address.
    std::string identity;
    // Ids of leases are drawn from here on; not 0.
    int64_t first_lease = 1;
    absl::Duration ttl = absl::Seconds(3);
    // The lease counts as over so long before it is: for what is between the question and etcd.
    absl::Duration margin = absl::Milliseconds(500);
    // A follower looks so often at least, whatever it is told of changes.
    absl::Duration look_interval = absl::Seconds(1);
    // After an error.
    absl::Duration pause = absl::Milliseconds(100);
    // Between two seizures by this server: this long, twice as long after each that follows, no
    // longer than the last.
    absl::Duration seizure_pause = absl::Seconds(2);
    absl::Duration seizure_pause_max = absl::Minutes(2);
    // Nobody is believed to be dead so soon after coming to lead.
    absl::Duration young = absl::Milliseconds(200);
  };

  struct Grant {
    int64_t lease = 0;
    absl::Duration ttl;
  };
  struct Renew {
    int64_t lease = 0;
  };
  struct Revoke {
    int64_t lease = 0;
  };
  using Request = std::variant<Grant, Renew, Revoke, Transaction>;
  // Of a grant what etcd granted, of a transaction its result, of the others nothing.
  struct Answer {
    absl::Status status;
    absl::Duration ttl;
    TransactionResult result;
  };
  enum class Role { kFollower, kLeader, kOver };

  explicit Election(Options options) : options_(std::move(options)) {}

  // What is to be asked now. Nothing: not before `NextDeadline`, unless there is news.
  std::optional<Request> Next(Time now);
  // The answer to it, which was asked at `asked`.
  void Take(Time asked, Time now, const Answer& answer);
  Time NextDeadline() const;
  // How long the next question may wait for its answer.
  absl::Duration Patience(Time now) const;

  // The leader's key was changed to this; `created` 0: it was deleted.
  void Changed(Time now, const KeyValue& leader);
  // The server that has led since this revision is known to be dead: its key may be taken before
  // its lease ends. Ignored if another one leads, or if this one has only begun to: it may be
  // about to listen.
  void Died(Time now, Revision leader);
  // This server is not to lead, or not any more: the next request ends its lease.
  void Resign();

  // `Over` once the lease of a leader may have ended.
  Role role() const { return role_; }
  // Of this server's leadership; after `Leader` only.
  Revision epoch() const { return epoch_; }
  // Who leads, as far as this server knows: absent, nobody.
  const std::optional<KeyValue>& leader() const { return leader_; }
  // The lease that this server has, or had last; 0: none.
  int64_t lease() const { return lease_.granted ? lease_.id : 0; }
  // OK until the role is `Over`.
  const absl::Status& why() const { return why_; }

 private:
  enum class Asked { kNothing, kGrant, kRenewal, kClaim, kRevocation };

  Transaction Claim() const;
  void TookClaim(Time now, const Answer& answer);
  void Know(Time now, std::optional<KeyValue> leader);
  void End(absl::Status why);
  bool has_lease(Time now) const { return lease_.granted && now < lease_.holds_until; }

  const Options options_;
  Role role_ = Role::kFollower;
  Asked asked_ = Asked::kNothing;
  bool resigns_ = false;
  absl::Status why_;

  struct {
    int64_t id = 0;  // the last one that was drawn
    bool granted = false;
    absl::Duration ttl;
    Time holds_until;
    Time renew_at;
  } lease_;

  Revision epoch_ = 0;
  std::optional<KeyValue> leader_;
  Time leader_since_;  // that this server knows of it
  Time look_at_;
  bool news_ = false;  // since the claim that is under way was asked for
  struct {
    std::optional<Revision> of;  // who is dead
    Time next_at;
    int count = 0;
  } seizure_;
};

}  // namespace lockstep::etcd

#include "lockstep/platform/etcd/election.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::etcd {
namespace {

// Of a lease's time, until it is renewed.
constexpr int kRenewalsInTime = 3;

}  // namespace

std::optional<Election::Request> Election::Next(Time now) {
  if (asked_ != Asked::kNothing || role_ == Role::kOver) return std::nullopt;
  if (resigns_) {
    if (!lease_.granted) {
      End(absl::CancelledError("this server has resigned"));
      return std::nullopt;
    }
    asked_ = Asked::kRevocation;
    return Revoke{.lease = lease_.id};
  }
  if (role_ == Role::kLeader && now >= lease_.holds_until - options_.margin) {
    End(absl::FailedPreconditionError(
        absl::StrCat("this server does not lead any more: it could not renew its lease of ",
                     absl::FormatDuration(lease_.ttl), " in etcd in time")));
    return std::nullopt;
  }
  if (!has_lease(now)) {
    if (now < lease_.renew_at) return std::nullopt;
    lease_.granted = false;
    lease_.id = lease_.id == 0 ? options_.first_lease : lease_.id + 1;
    asked_ = Asked::kGrant;
    return Grant{.lease = lease_.id, .ttl = options_.ttl};
  }
  if (now >= lease_.renew_at) {
    asked_ = Asked::kRenewal;
    return Renew{.lease = lease_.id};
  }
  if (role_ == Role::kFollower && now >= look_at_) {
    asked_ = Asked::kClaim;
    news_ = false;
    return Claim();
  }
  return std::nullopt;
}

// Takes the key if there is none, or if it is still that of who is dead.
Transaction Election::Claim() const {
  const std::string key = options_.layout.leader();
  Compare compare = {.what = Compare::What::kCreated, .key = key, .revision = 0};
  if (seizure_.of)
    compare = {.what = Compare::What::kModified, .key = key, .revision = *seizure_.of};
  return {.compare = {std::move(compare)},
          .then = {Put{.key = key, .value = options_.identity, .lease = lease_.id}},
          .otherwise = {Range{.key = key}}};
}

void Election::Take(Time asked, Time now, const Answer& answer) {
  LOCKSTEP_CHECK(asked_ != Asked::kNothing);
  const Asked what = std::exchange(asked_, Asked::kNothing);
  switch (what) {
    case Asked::kGrant:
      lease_.granted = answer.status.ok();
      lease_.ttl = answer.ttl;
      lease_.holds_until = asked + lease_.ttl;
      lease_.renew_at =
          lease_.granted ? asked + lease_.ttl / kRenewalsInTime : now + options_.pause;
      look_at_ = now;
      return;
    case Asked::kRenewal:
      if (answer.status.ok()) {
        lease_.holds_until = asked + lease_.ttl;
        lease_.renew_at = asked + lease_.ttl / kRenewalsInTime;
      } else if (absl::IsNotFound(answer.status)) {
        lease_.holds_until = asked;
        lease_.renew_at = now;
        if (role_ == Role::kLeader) {
          End(absl::FailedPreconditionError(
              "this server does not lead any more: etcd has ended its lease"));
        }
      } else {
        lease_.renew_at = now + options_.pause;
      }
      return;
    case Asked::kClaim:
      return TookClaim(now, answer);
    case Asked::kRevocation:
      lease_.granted = !answer.status.ok();
      return End(absl::CancelledError("this server has resigned"));
    case Asked::kNothing:
      return;
  }
}

void Election::TookClaim(Time now, const Answer& answer) {
  if (!answer.status.ok()) {
    look_at_ = now + options_.pause;
    return;
  }
  if (answer.result.succeeded) {
    Know(now, KeyValue{.key = options_.layout.leader(),
                       .value = options_.identity,
                       .modified = answer.result.revision,
                       .lease = lease_.id});
  } else if (answer.result.results.empty() || answer.result.results[0].found.empty()) {
    // It went while it was being seized.
    leader_.reset();
    seizure_.of.reset();
    look_at_ = now;
    return;
  } else {
    Know(now, answer.result.results[0].found[0]);
  }
  if (seizure_.of && leader_->modified != *seizure_.of) seizure_.of.reset();
  // What it found may be older than the news.
  look_at_ = news_ ? now : now + options_.look_interval;
  // A claim whose answer was lost is recognised by its lease, which no other one has had.
  if (leader_->lease != lease_.id || leader_->value != options_.identity) return;
  epoch_ = leader_->modified;
  role_ = Role::kLeader;
}

void Election::Know(Time now, std::optional<KeyValue> leader) {
  if (!leader_ || leader_->modified != leader->modified) leader_since_ = now;
  leader_ = std::move(leader);
}

Time Election::NextDeadline() const {
  if (role_ == Role::kOver || asked_ != Asked::kNothing) return Time::Infinite();
  if (resigns_) return Time();
  if (role_ == Role::kLeader)
    return std::min(lease_.renew_at, lease_.holds_until - options_.margin);
  return lease_.granted ? std::min(lease_.renew_at, look_at_) : lease_.renew_at;
}

absl::Duration Election::Patience(Time now) const {
  const absl::Duration usual = options_.ttl / kRenewalsInTime;
  if (role_ != Role::kLeader) return usual;
  return std::clamp(lease_.holds_until - options_.margin - now, options_.pause, usual);
}

void Election::Changed(Time now, const KeyValue& leader) {
  if (role_ == Role::kLeader && leader.modified > epoch_) {
    End(absl::FailedPreconditionError(
        absl::StrCat("this server does not lead any more: ",
                     leader.created == 0 ? "its key was deleted" : "another one leads",
                     " since revision ", leader.modified, ", this one led since ", epoch_)));
  }
  if (role_ != Role::kFollower || (leader_ && leader.modified <= leader_->modified)) return;
  if (leader.created != 0) return Know(now, leader);
  leader_.reset();
  seizure_.of.reset();
  look_at_ = Time();
  news_ = true;
}

void Election::Died(Time now, Revision leader) {
  if (role_ != Role::kFollower || !leader_ || leader_->modified != leader || seizure_.of) return;
  if (now < seizure_.next_at || now - leader_since_ < options_.young) return;
  seizure_.of = leader;
  look_at_ = now;
  news_ = true;
  const absl::Duration pause =
      options_.seizure_pause * (int64_t{1} << std::min(seizure_.count, 10));
  ++seizure_.count;
  seizure_.next_at = now + std::min(pause, options_.seizure_pause_max);
}

void Election::Resign() { resigns_ = true; }

void Election::End(absl::Status why) {
  role_ = Role::kOver;
  why_ = std::move(why);
}

}  // namespace lockstep::etcd

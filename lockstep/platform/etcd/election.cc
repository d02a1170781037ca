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
    if (!granted_) {
      End(absl::CancelledError("this server has resigned"));
      return std::nullopt;
    }
    asked_ = Asked::kRevocation;
    return Revoke{.lease = lease_};
  }
  if (role_ == Role::kLeader && now >= holds_until_ - options_.margin) {
    End(absl::FailedPreconditionError(
        absl::StrCat("this server does not lead any more: it could not renew its lease of ",
                     absl::FormatDuration(ttl_), " in etcd in time")));
    return std::nullopt;
  }
  if (!has_lease(now)) {
    if (now < renew_at_) return std::nullopt;
    granted_ = false;
    lease_ = lease_ == 0 ? options_.first_lease : lease_ + 1;
    asked_ = Asked::kGrant;
    return Grant{.lease = lease_, .ttl = options_.ttl};
  }
  if (now >= renew_at_) {
    asked_ = Asked::kRenewal;
    return Renew{.lease = lease_};
  }
  if (role_ == Role::kFollower && now >= look_at_) {
    asked_ = Asked::kClaim;
    return Claim();
  }
  return std::nullopt;
}

// Takes the key if there is none, or if it is still that of who is dead.
Transaction Election::Claim() const {
  const std::string key = options_.layout.leader();
  Compare compare = {.what = Compare::What::kCreated, .key = key, .revision = 0};
  if (seizes_) compare = {.what = Compare::What::kModified, .key = key, .revision = *seizes_};
  return {.compare = {std::move(compare)},
          .then = {Put{.key = key, .value = options_.identity, .lease = lease_}},
          .otherwise = {Range{.key = key}}};
}

void Election::Take(Time asked, Time now, const Answer& answer) {
  LOCKSTEP_CHECK(asked_ != Asked::kNothing);
  const Asked what = std::exchange(asked_, Asked::kNothing);
  switch (what) {
    case Asked::kGrant:
      granted_ = answer.status.ok();
      ttl_ = answer.ttl;
      holds_until_ = asked + ttl_;
      renew_at_ = granted_ ? asked + ttl_ / kRenewalsInTime : now + options_.pause;
      look_at_ = now;
      return;
    case Asked::kRenewal:
      if (answer.status.ok()) {
        holds_until_ = asked + ttl_;
        renew_at_ = asked + ttl_ / kRenewalsInTime;
      } else if (absl::IsNotFound(answer.status)) {
        holds_until_ = asked;
        renew_at_ = now;
        if (role_ == Role::kLeader) {
          End(absl::FailedPreconditionError(
              "this server does not lead any more: etcd has ended its lease"));
        }
      } else {
        renew_at_ = now + options_.pause;
      }
      return;
    case Asked::kClaim:
      return TookClaim(now, answer);
    case Asked::kRevocation:
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
    leader_ = KeyValue{.key = options_.layout.leader(),
                       .value = options_.identity,
                       .modified = answer.result.revision,
                       .lease = lease_};
  } else if (answer.result.results.empty() || answer.result.results[0].found.empty()) {
    // It went while it was being seized.
    leader_.reset();
    seizes_.reset();
    look_at_ = now;
    return;
  } else {
    leader_ = answer.result.results[0].found[0];
  }
  if (seizes_ && leader_->modified != *seizes_) seizes_.reset();
  look_at_ = now + options_.look_interval;
  // A claim whose answer was lost is recognised by its lease, which no other one has had.
  if (leader_->lease != lease_ || leader_->value != options_.identity) return;
  epoch_ = leader_->modified;
  role_ = Role::kLeader;
}

Time Election::NextDeadline() const {
  if (role_ == Role::kOver || asked_ != Asked::kNothing) return Time::Infinite();
  if (resigns_) return Time();
  if (role_ == Role::kLeader) return std::min(renew_at_, holds_until_ - options_.margin);
  return granted_ ? std::min(renew_at_, look_at_) : renew_at_;
}

absl::Duration Election::Patience(Time now) const {
  const absl::Duration usual = options_.ttl / kRenewalsInTime;
  if (role_ != Role::kLeader) return usual;
  return std::clamp(holds_until_ - options_.margin - now, options_.pause, usual);
}

void Election::Changed(const KeyValue& leader) {
  if (role_ == Role::kLeader && leader.modified > epoch_) {
    End(absl::FailedPreconditionError(
        absl::StrCat("this server does not lead any more: ",
                     leader.created == 0 ? "its key was deleted" : "another one leads",
                     " since revision ", leader.modified, ", this one led since ", epoch_)));
  }
  if (role_ != Role::kFollower || (leader_ && leader.modified <= leader_->modified)) return;
  if (leader.created != 0) {
    leader_ = leader;
    return;
  }
  leader_.reset();
  seizes_.reset();
  look_at_ = Time();
}

void Election::Died(Time now, Revision leader) {
  if (role_ != Role::kFollower || !leader_ || leader_->modified != leader || seizes_) return;
  if (now < seize_at_) return;
  seizes_ = leader;
  look_at_ = now;
  const absl::Duration pause = options_.seizure_pause * (int64_t{1} << std::min(seizures_, 10));
  ++seizures_;
  seize_at_ = now + std::min(pause, options_.seizure_pause_max);
}

void Election::Resign() { resigns_ = true; }

void Election::End(absl::Status why) {
  role_ = Role::kOver;
  why_ = std::move(why);
}

}  // namespace lockstep::etcd

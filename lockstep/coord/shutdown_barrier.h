// The barrier at which the members of an attempt wait before they leave it together. Pure.
//
// Fed by Attempt, which decides what its end means for the members.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Gathers the calls of members that leave, and keeps the verdict.
//
//   idle --Open--> open --all wait-----------------------------> passed
//    ^              |  --a loss, a reset, shutdown_timeout-----> failed
//    '-- the last --'
//        waiter left
//
// Recoverable members do not take part: they may die and come back, so no member waits for them.
//
// Invariants: (1) the barrier ends at most once, and its verdict never changes; (2) a call is found
// by its id exactly while it waits in the open barrier.
//
// Threads: thread-compatible. Bounds: one call a member. Time: shutdown_timeout counts from Open.
class ShutdownBarrier {
 public:
  // `job` and `membership` must outlive the barrier.
  ShutdownBarrier(const JobRecord& job, const Membership& membership, ServiceIncarnation service);

  bool open() const { return std::holds_alternative<Gathering>(state_); }
  bool ended() const { return std::holds_alternative<Ended>(state_); }
  // Why the barrier failed; null: it passed, or has not ended.
  ErrorPtr verdict() const;
  // Whether the barrier is open and awaits the member, or has its call.
  bool Includes(MemberIndex member) const;

  // An idle barrier opens. Returns the error of a participant that failed before and thus never
  // arrives, else null: then the caller fails the barrier with it.
  ErrorPtr Open(Time now);

  // A participant waits with `call`; its older call gets CANCELLED (superseded). Returns whether
  // all participants wait by now: then the caller passes the barrier.
  bool Arrive(MemberIndex member, CallId call, Effects& out);

  // The caller left. False when the call does not wait here.
  bool Forget(CallId call);

  // Returns the calls that wait, in the order of their members, for the caller to answer.
  std::vector<Gathering::Arrival> Pass(Effects& out);
  // Every waiter gets the verdict: INTERNAL (shutdown_failed), with `inner` as its cause.
  void Fail(const ErrorPtr& inner, Effects& out);
  // Every waiter gets `error`. No verdict: nothing is recorded, and the barrier is idle.
  void Abandon(const ErrorPtr& error, Effects& out);

  // DEADLINE_EXCEEDED (shutdown_failed) when the time of the open barrier is up: then the caller
  // fails the barrier with it. Null otherwise.
  ErrorPtr Overdue(Time now) const;
  Time NextDeadline() const;

  void Apply(const record::ShutdownEnded& record) { state_ = Ended{record.verdict}; }
  void Snapshot(std::vector<TimedRecord>& records) const;

  size_t waits() const { return calls_.size(); }
  // Empty unless the barrier is open.
  std::optional<BarrierView> View() const;

 private:
  struct Idle {};
  struct Ended {
    ErrorPtr verdict;  // null: passed
  };

  Gathering& gathering() { return std::get<Gathering>(state_); }
  const Gathering& gathering() const { return std::get<Gathering>(state_); }
  bool InvariantsHold() const;

  const JobRecord& job_;
  const Membership& membership_;
  const std::string id_;
  std::variant<Idle, Gathering, Ended> state_;
  absl::flat_hash_map<CallId, MemberIndex> calls_;  // looked up only
};

}  // namespace lockstep::coord

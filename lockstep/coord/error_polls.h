// The calls with which the members of an attempt wait to be told of its failure. Pure.
//
// Fed by Attempt, which checks that the member may poll.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// Parks one poll of each member until the attempt fails, and takes the end of a stock member's poll
// for the end of its connection: such a member keeps no other call open. Between its registration
// and its first poll, the registration stands in for the poll: if that call breaks although it was
// answered, its caller never got the answer.
//
// Invariants: (1) a call is found by its id exactly while it waits, or awaits the first poll; (2)
// no member has both.
//
// Threads: thread-compatible. Bounds: one call a member.
class ErrorPolls {
 public:
  // Both must outlive it.
  ErrorPolls(JobRecord& job, Membership& membership) : job_(job), membership_(membership) {}

  // The member was let in by `registration`, and has no poll. The connection of a native member is
  // its session, so nothing is awaited of it.
  void AwaitFirst(MemberIndex member, CallId registration);

  // The member asks to be let in once more, as the answer to its registration was lost.
  void AwaitFirstAgain(Time now, MemberIndex member, CallId registration);

  // The member polls. Answered when the attempt fails, or with CANCELLED (superseded) when the
  // member polls again; at once with `root_cause` when the attempt has failed (else null).
  void Poll(Time now, MemberIndex member, CallId call, const ErrorPtr& root_cause, Effects& out);

  // Nothing is awaited of the member any more; its poll gets `error`.
  void Cancel(Time now, MemberIndex member, const ErrorPtr& error, Effects& out);

  // Every poll gets `error`. The members are taken to end by it, and to send nothing more.
  void FailAll(const ErrorPtr& error, Effects& out);

  // False when the call neither waits here nor awaits the first poll.
  bool Forget(Time now, const CallLeft& fact);

  // The agent through which these members call has ended, or is back. Says something of those that
  // have not polled yet: of the others their polls do.
  void AgentEnded(Time now, const std::vector<MemberIndex>& members);
  void AgentBack(Time now, const std::vector<MemberIndex>& members);

  // All records are applied: members that are in polled before, and poll again or are lost.
  void Restored() { used_ = membership_.connected() > 0; }

  // Whether any member polls, or did. If none does, members hear of a failure by their heartbeats.
  bool used() const { return used_; }
  // Whether the member was told of the failure, and is expected to go.
  bool WasTold(MemberIndex member) const { return told_.contains(member); }
  size_t waits() const { return polls_.size(); }

 private:
  void Tell(MemberIndex member, CallId call, const ErrorPtr& error, Effects& out);
  void ForgetRegistration(MemberIndex member);
  bool InvariantsHold() const;

  JobRecord& job_;
  Membership& membership_;
  std::map<MemberIndex, CallId> polls_;
  std::map<MemberIndex, CallId> registrations_;     // answered, and not followed by a poll yet
  absl::flat_hash_map<CallId, MemberIndex> calls_;  // of both; looked up only
  std::set<MemberIndex> told_;
  bool used_ = false;
};

}  // namespace lockstep::coord

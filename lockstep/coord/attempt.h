// One attempt of a job: the machines of coordination, put together. Pure.
//
// Fed by Coordinator with the requests that belong to this attempt. What each request means is told
// in docs/protocols/coordination.md.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/coord/alive_sets.h"
#include "lockstep/coord/barrier_table.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/key_values.h"
#include "lockstep/coord/member_watch.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/registration.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

// Owns who is told what: what a lost member means for barriers, polls and everybody else, and which
// failure is the root cause.
//
// Invariants: (1) the first failure that is told is the attempt's root cause and never changes;
// (2) when it is told, every parked poll is answered with it; (3) with members that cannot recover,
// nobody stays parked at a barrier or in shutdown with one that failed, nor at one that was open
// when a member of it left.
//
// Threads: thread-compatible. Bounds: waits_max over all that is parked here but
// registrations and polls, of which there is one a member; and those of the parts.
class Attempt {
 public:
  // `job` must outlive the attempt.
  Attempt(JobRecord& job, ServiceIncarnation service);

  ServiceIncarnation service() const { return service_; }
  // It went wrong, or all who were in it have left: the next registration belongs to another.
  bool failed() const { return root_cause_ != nullptr; }
  bool ended() const;
  bool Knew(MemberIndex member, Incarnation incarnation) const {
    return membership_.Knew(member, incarnation);
  }

  void Handle(Time now, const RegisterMember& request, Effects& out);
  void Handle(Time now, const Heartbeat& request, Effects& out);
  void Handle(Time now, const PollForError& request, Effects& out);
  void Handle(Time now, const ReportError& request, Effects& out);
  void Handle(Time now, const LeaveJob& request, Effects& out);
  void Handle(Time now, const ResetMember& request, Effects& out);
  void Handle(Time now, const WatchMembers& request, Effects& out);
  void Handle(Time now, const SetKey& request, Effects& out);
  void Handle(Time now, const GetKey& request, Effects& out);
  void Handle(Time now, const TryGetKey& request, Effects& out);
  void Handle(Time now, const IncrementKey& request, Effects& out);
  void Handle(Time now, const ListKeys& request, Effects& out);
  void Handle(Time now, const DeleteKey& request, Effects& out);
  void Handle(Time now, const ArriveAtBarrier& request, Effects& out);
  void Handle(Time now, const CancelBarrier& request, Effects& out);
  void Handle(Time now, const GetAliveMembers& request, Effects& out);
  void Handle(Time now, const CallLeft& fact, Effects& out);
  void Handle(Time now, const ProcessEnded& fact, Effects& out);
  void Handle(Time now, const DeadlineReached& fact, Effects& out);
  void Handle(Time now, const Stop& fact, Effects& out);

  // The next attempt begins: all that is parked is told so.
  void Close(const ErrorPtr& error, Effects& out);

  // A new life is about to come in: members whose connection is broken are not waited for any
  // longer, so that it does not join an attempt that is dying.
  void GiveUpBroken(Time now, Effects& out);

  // To be called after every event.
  void Settle(Time now, Effects& out) { watch_.Flush(now, out); }
  Time NextDeadline() const;
  void FillView(Time now, CoordinatorView& view) const;

 private:
  struct Shutdown {
    std::string id;
    std::optional<Gathering> gathering;
    bool ended = false;
    ErrorPtr verdict;  // when ended: null for passed
  };
  enum class Waiting { kPoll, kLeave };
  struct Parked {
    Waiting kind;
    MemberIndex member;
  };
  // A member that is given up, and the error that says why.
  struct Casualty {
    MemberIndex member;
    Time since;
    ErrorPtr error;
  };

  bool CheckMember(MemberIndex member, CallId call, Effects& out) const;
  // Also refuses what a former life of the member sends.
  bool CheckCaller(MemberIndex member, const Caller& caller, Effects& out) const;
  bool MayPark(CallId call, Effects& out) const;
  void NoteLife(Time now, const Caller& caller);

  void Connect(Time now, MemberIndex member);
  void Restarted(Time now, const RegisterMember& request, Effects& out);
  void Disconnect(Time now, MemberIndex member, Effects& out);

  // What happens to the job when members fail: in this order of consequences.
  void Fail(Time now, std::vector<Casualty> casualties, Effects& out);
  void Propagate(Time now, const ErrorPtr& error, Effects& out);
  void SetAllToError(Time now, const ErrorPtr& because, Effects& out);
  std::vector<Casualty> Casualties(const std::vector<Membership::Loss>& losses, Time now) const;
  ErrorPtr LossError(const Membership::Loss& loss, Time now) const;
  void Keep(Time now, const Error& error, bool consequence);

  void BeginShutdown(Time now, Effects& out);
  void EndShutdown(Time now, const ErrorPtr& inner, Effects& out);
  void ReachShutdownDeadline(Time now, Effects& out);

  void NoteRegistration(MemberIndex member, CallId call);
  void ForgetRegistration(MemberIndex member);
  void CancelPoll(MemberIndex member, const ErrorPtr& error, Effects& out);
  void FailPolls(const ErrorPtr& error, Effects& out);

  MemberView ViewOf(Time now, MemberIndex member) const;
  void TellBegun(MemberIndex first, Effects& out) const;
  void TellJoined(MemberIndex member, Effects& out) const;

  JobRecord& job_;
  const ServiceIncarnation service_;
  Membership membership_;
  Registration registration_;
  BarrierTable barriers_;
  KeyValues keys_;
  AliveSets alive_;
  MemberWatch watch_;
  Shutdown shutdown_;
  std::map<MemberIndex, CallId> polls_;
  // Registrations that were answered and not yet followed by a poll: if such a call breaks after
  // all, its caller never got the answer.
  std::map<MemberIndex, CallId> unpolled_;
  absl::flat_hash_map<CallId, MemberIndex> unpolled_calls_;  // the same; looked up only
  absl::flat_hash_map<CallId, Parked> parked_;               // polls and leavers; looked up only
  std::set<MemberIndex> told_;                               // who got the root cause by a poll
  bool all_registered_ = false;
  bool anyone_polls_ = false;
  ErrorPtr root_cause_;
  std::optional<Time> started_;  // with the first registration
};

}  // namespace lockstep::coord

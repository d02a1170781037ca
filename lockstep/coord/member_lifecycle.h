// What becomes of the members of an attempt, and what that means for all. Pure.
//
// Fed by Attempt. What each request means is told in docs/protocols/coordination.md.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/coord/admission.h"
#include "lockstep/coord/call_gate.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error_polls.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/member_losses.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/primitives.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/registration.h"
#include "lockstep/coord/shutdown_barrier.h"

namespace lockstep::coord {

// Decides how members come in, stay, fail and leave, who hears of it, and which failure is the root
// cause of the attempt's. The machines on which it acts belong to the attempt.
//
//   (out) --Admit--> registering --all are there--> in --leaves, is reset--> (out)
//                                                    '--fails, is lost-----> in error
//
// Invariants: (1) the first failure that is told is the attempt's root cause and never changes;
// (2) when it is told, every parked poll is answered with it; (3) with members that cannot recover,
// no member stays parked at a barrier or in shutdown with one that failed, nor at one that was open
// when a member of it left.
//
// Threads: thread-compatible. Bounds: those of the machines.
class MemberLifecycle {
 public:
  // The machines that a change of a member concerns; all must outlive it.
  struct Machines {
    CallGate& gate;
    Membership& membership;
    Registration& registration;
    ErrorPolls& polls;
    ShutdownBarrier& shutdown;
    Primitives& primitives;
  };

  MemberLifecycle(JobRecord& job, ServiceIncarnation service, const Machines& machines);

  // Why the attempt failed; null: it has not.
  const ErrorPtr& root_cause() const { return root_cause_; }
  bool failed() const { return root_cause_ != nullptr; }
  // No member is in, and none asks to be.
  bool empty() const;
  // All who were in have left.
  bool ended() const {
    return (registration_.complete() || membership_.ever_connected()) && empty();
  }

  // A process asks to be let in, whose role and index are lawful. Answered with Registered or
  // Joined when it is in; INVALID_ARGUMENT (unknown_member); ALREADY_EXISTS (superseded) in a life
  // that is over; ABORTED (member_failed, member_restarted).
  void Admit(Time now, const Admission& request, Effects& out);

  // Answered with HeartbeatTaken, or ABORTED (member_restarted) in another life than the member's,
  // which ends the member when that life is new; or as CallGate::CheckIn says.
  void Handle(Time now, const Heartbeat& request, Effects& out);
  // Waits for a failure; FAILED_PRECONDITION (not_registered, member_left, member_failed) for a
  // member that is not in.
  void Handle(Time now, const PollForError& request, Effects& out);
  // The member fails. FAILED_PRECONDITION (not_registered) when it is not in.
  void Handle(Time now, const ReportError& request, Effects& out);
  // Waits for the others at the shutdown barrier. FAILED_PRECONDITION (not_registered) when the
  // member is not in; INTERNAL (shutdown_failed).
  void Handle(Time now, const LeaveJob& request, Effects& out);
  // The member is out at once. FAILED_PRECONDITION (not_registered) when it is not in.
  void Handle(Time now, const ResetMember& request, Effects& out);
  // Facts of launchers, and of the clock.
  void Handle(Time now, const ProcessEnded& fact, Effects& out);
  void Handle(Time now, const ProcessEnding& fact, Effects& out);
  void Handle(Time now, const DeadlineReached& fact, Effects& out);
  // Of the server: all members of that host fail with one error.
  void Handle(Time now, const HostLost& fact, Effects& out);

  // Of the session of a member that is in or registers. RESOURCE_EXHAUSTED (limit_exceeded) for a
  // phase that is too long; or as CallGate::CheckIn says.
  void Handle(Time now, MemberIndex member, const ReportProgress& request, Effects& out);
  void Handle(Time now, MemberIndex member, const SessionBroke& fact, Effects& out);
  void Handle(Time now, MemberIndex member, const OpenSession& request, Effects& out);
  void Handle(Time now, MemberIndex member, const CloseSession& request, Effects& out);

  // A new life is about to come in, of that member when it says which: members whose connection is
  // broken are not waited for any longer, so that it does not join an attempt that is dying.
  void ExpireBrokenLinks(Time now, std::optional<MemberIndex> newcomer, Effects& out);

  void Apply(Time at, const record::AttemptFailed& record);
  void Apply(Time at, const record::MemberChanged& record);
  void Snapshot(std::vector<TimedRecord>& records) const;

 private:
  // Null when the request may come in; else the caller is refused with this.
  ErrorPtr CheckAdmission(const Admission& request) const;
  // A member is let in alone, since the others are in.
  void ComeBack(Time now, const Admission& request, Effects& out);
  // The member is connected: its call is answered.
  void LetIn(MemberIndex member, CallId call, Effects& out);
  // Answers that the member is in.
  Answer AnswerOf(MemberIndex member) const;
  void Disconnect(Time now, MemberIndex member, Effects& out);

  // What happens to the job when members fail: in this order of consequences.
  void Fail(Time now, std::vector<MemberLoss> member_losses, Effects& out);
  void Propagate(Time now, const ErrorPtr& error, Effects& out);
  void SetRootCause(const ErrorPtr& error, Effects& out);
  void SetAllToError(Time now, const ErrorPtr& because, Effects& out);
  // Not all registered in time.
  void FailRegistration(Time now, const ErrorPtr& expired, Effects& out);
  // The shutdown barrier fails, and with it the attempt.
  void FailShutdown(Time now, const ErrorPtr& inner, Effects& out);

  JobRecord& job_;
  const ServiceIncarnation service_;
  CallGate& gate_;
  Membership& membership_;
  Registration& registration_;
  ErrorPolls& polls_;
  ShutdownBarrier& shutdown_;
  Primitives& primitives_;
  ErrorPtr root_cause_;
};

}  // namespace lockstep::coord

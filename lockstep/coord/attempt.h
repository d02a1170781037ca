// One attempt of a job: the machines of coordination, put together. Pure.
//
// Fed by Coordinator with the requests that belong to this attempt. What each request means is told
// in docs/protocols/coordination.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/coord/admission.h"
#include "lockstep/coord/alive_sets.h"
#include "lockstep/coord/barrier_table.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error_polls.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/health_notices.h"
#include "lockstep/coord/index_agreement.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/key_values.h"
#include "lockstep/coord/member_views.h"
#include "lockstep/coord/member_watch.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/preemption_sync.h"
#include "lockstep/coord/registration.h"
#include "lockstep/coord/shutdown_barrier.h"
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
  // `job` must outlive the attempt. `first_revision`: of its empty store of keys.
  Attempt(JobRecord& job, ServiceIncarnation service, int64_t first_revision = 1);

  ServiceIncarnation service() const { return service_; }
  // It went wrong, or all who were in it have left: the next registration belongs to another.
  bool failed() const { return root_cause_ != nullptr; }
  bool ended() const;
  // Nobody is in it, and nobody asks to be.
  bool empty() const;
  AttemptState state() const;
  const ErrorPtr& root_cause() const { return root_cause_; }
  const Membership& membership() const { return membership_; }
  // The member asked to be let in and is not yet.
  bool Registers(MemberIndex member) const { return registration_.Waits(member); }
  // The lowest member of the role that a newcomer may be.
  std::optional<MemberIndex> FreeMember(const RoleRecord& role) {
    return registration_.FreeMember(role);
  }
  // Parked calls.
  size_t waits() const;
  // What members and barriers hold, about as it costs; keys tell of themselves.
  size_t memory() const;
  // Of its keys: the newest.
  int64_t revision() const { return keys_.revision(); }
  // Long deletions that ended since this was last asked.
  std::vector<KeyValues::Deleted> TakeDeleted() { return keys_.TakeDeleted(); }

  // A process asks to be let in, whose role and index are lawful. Answered with Registered or
  // Joined.
  void Admit(Time now, const Admission& request, Effects& out);

  void Handle(Time now, const Heartbeat& request, Effects& out);
  void Handle(Time now, MemberIndex member, const ReportProgress& request, Effects& out);
  void Handle(Time now, const PollForError& request, Effects& out);
  void Handle(Time now, const ReportError& request, Effects& out);
  void Handle(Time now, const LeaveJob& request, Effects& out);
  void Handle(Time now, const ResetMember& request, Effects& out);
  void Handle(Time now, const WatchMembers& request, Effects& out);
  void Handle(Time now, const GetMemberStates& request, Effects& out);
  void Handle(Time now, SetKey request, Effects& out);
  void Handle(Time now, CompareAndSetKey request, Effects& out);
  void Handle(Time now, const GetKey& request, Effects& out);
  void Handle(Time now, const TryGetKey& request, Effects& out);
  void Handle(Time now, GetKeys request, Effects& out);
  void Handle(Time now, const WatchKeys& request, Effects& out);
  void Handle(Time now, const IncrementKey& request, Effects& out);
  void Handle(Time now, const MaxKey& request, Effects& out);
  void Handle(Time now, const ListKeys& request, Effects& out);
  void Handle(Time now, const DeleteKey& request, Effects& out);
  void Handle(Time now, const ArriveAtBarrier& request, Effects& out);
  void Handle(Time now, const CancelBarrier& request, Effects& out);
  void Handle(Time now, const AgreeOnIndex& request, Effects& out);
  void Handle(Time now, GetAliveMembers request, Effects& out);
  void Handle(Time now, const ListBarriers& request, Effects& out);
  void Handle(Time now, const NotifyPreemption& request, Effects& out);
  void Handle(Time now, const WatchPreemption& request, Effects& out);
  void Handle(Time now, const AnswerFence& request, Effects& out);
  void Handle(Time now, const ReportSave& request, Effects& out);
  void Handle(Time now, const CallLeft& fact, Effects& out);
  void Handle(Time now, const ProcessEnded& fact, Effects& out);
  void Handle(Time now, const ProcessEnding& fact, Effects& out);
  void Handle(Time now, const DeadlineReached& fact, Effects& out);
  void Handle(Time now, const Stop& fact, Effects& out);

  // The next attempt begins, with its keys at `next_revision`: all that is parked is told so. A
  // tool's watch of keys goes on there.
  void Close(const ErrorPtr& error, int64_t next_revision, Effects& out);

  // A new life is about to come in, of that member when it says which: members whose connection is
  // broken are not waited for any longer, so that it does not join an attempt that is dying.
  void GiveUpBroken(Time now, std::optional<MemberIndex> newcomer, Effects& out);

  // What became of the session of a member that is in, or is about to be. Back: it is linked again.
  void SessionBroke(Time now, MemberIndex member, bool silent);
  void SessionBack(Time now, MemberIndex member);
  void SessionClosed(Time now, MemberIndex member, Effects& out);

  // A sign of life of a member that is in.
  void Heard(Time now, MemberIndex member) { membership_.Heard(now, member); }

  // Records what has changed of members, and answers watchers. To be called after every event.
  void Settle(Time now, Effects& out);
  void RecordMembers(Effects& out);

  // The last that is recorded of it, when it is over.
  void RecordEnd(Time now, Effects& out);

  // The state is as this record says, which was made at `at`.
  absl::Status Apply(Time at, const record::AttemptRuns& record);
  absl::Status Apply(Time at, const record::AttemptFailed& record);
  absl::Status Apply(Time at, const record::ShutdownEnded& record);
  absl::Status Apply(Time at, const record::MemberChanged& record);
  absl::Status Apply(Time at, const record::KeySet& record);
  absl::Status Apply(Time at, const record::KeyDeleted& record);
  absl::Status Apply(Time at, const record::OwnerGone& record);
  absl::Status Apply(Time at, const record::BarrierEnded& record);
  absl::Status Apply(Time at, const record::IndexAgreed& record);
  absl::Status Apply(Time at, const record::PreemptionChanged& record);
  absl::Status Apply(Time at, const record::SyncMemberChanged& record);
  // All records are applied. `version`: above all that watchers may have been told of.
  void Restored(Time now, int64_t version, Effects& out);
  void Snapshot(std::vector<TimedRecord>& records) const;

  Time NextDeadline() const;
  // All but the members.
  void FillView(Time now, CoordinatorView& view) const;
  const MemberViews& views() const { return views_; }
  const KeyValues& keys() const { return keys_; }

 private:
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

  // Whose key it will be. False: the caller was refused.
  bool FindOwner(const Caller& caller, const KeyLifetime& lifetime,
                 std::optional<MemberIndex>& owner, Effects& out) const;
  // A member left or was lost: its keys die, and nobody agrees with it any more.
  void ForgetTraces(Time now, MemberIndex member, const ErrorPtr& because, Effects& out);

  // A stock member says something of preemptions, by a key.
  void ReadAlong(Time now, const SetKey& request, Effects& out);
  // Stock members are told and heard, watchers answered. After every event.
  void SettlePreemption(Time now, Effects& out);
  static void Append(Effects from, Effects& to);

  void Connect(Time now, MemberIndex member);
  // A member is let in alone, since the attempt runs already.
  void ComeBack(Time now, const Admission& request, Effects& out);
  void Restarted(Time now, const Admission& request, Effects& out);
  Answer LetIn(MemberIndex member) const;
  void Disconnect(Time now, MemberIndex member, Effects& out);

  // What happens to the job when members fail: in this order of consequences.
  void Fail(Time now, std::vector<Casualty> casualties, Effects& out);
  void Propagate(Time now, const ErrorPtr& error, Effects& out);
  void SetAllToError(Time now, const ErrorPtr& because, Effects& out);
  std::vector<Casualty> Casualties(const std::vector<Membership::Loss>& losses, Time now) const;
  ErrorPtr LossError(const Membership::Loss& loss, Time now) const;
  void SetRootCause(const ErrorPtr& error, Effects& out);
  void Keep(Time now, const Error& error, bool consequence, Effects& out);

  // Null when the member may speak as one that is in.
  ErrorPtr CheckIn(Time now, MemberIndex member) const;
  // All wait: they leave.
  void PassShutdown(Time now, Effects& out);
  // It fails, and with it the attempt.
  void FailShutdown(Time now, const ErrorPtr& inner, Effects& out);

  void TellJoined(MemberIndex member, Effects& out) const;

  JobRecord& job_;
  const ServiceIncarnation service_;
  Membership membership_;
  Registration registration_;
  BarrierTable barriers_;
  IndexAgreement agreements_;
  KeyValues keys_;
  AliveSets alive_;
  MemberWatch watch_;
  PreemptionSync preemption_;
  ErrorPolls polls_;
  ShutdownBarrier shutdown_;
  MemberViews views_;
  HealthNotices health_;
  ErrorPtr root_cause_;
};

}  // namespace lockstep::coord

// One attempt of a job: the machines of coordination, put together. Pure.
//
// Fed by Coordinator with the requests that belong to this attempt. What each request means is told
// in docs/protocols/coordination.md.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/coord/admission.h"
#include "lockstep/coord/call_gate.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error_polls.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/health_log.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/key_values.h"
#include "lockstep/coord/member_lifecycle.h"
#include "lockstep/coord/member_views.h"
#include "lockstep/coord/member_watch.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/primitives.h"
#include "lockstep/coord/registration.h"
#include "lockstep/coord/shutdown_barrier.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

// Owns the machines, gives each request to the one that it is for, and does with all of them what
// concerns all: a caller leaves, time passes, the service stops, the attempt is recorded, restored
// and looked at. What members do and what befalls them is MemberLifecycle's; what they share is in
// Primitives.
//
// Threads: thread-compatible. Bounds: waits_max over all that is parked here when a call asks to
// wait at a primitive (registrations, polls and leavers are one a member); and those of the parts.
class Attempt {
 public:
  // `job` must outlive the attempt. `first_revision`: of its empty store of keys.
  Attempt(JobRecord& job, ServiceIncarnation service, int64_t first_revision = 1);

  ServiceIncarnation service() const { return service_; }
  // It went wrong, or all who were in it have left: the next registration belongs to another.
  bool failed() const { return lifecycle_.failed(); }
  bool ended() const { return lifecycle_.ended(); }
  // No member is in it, and none asks to be.
  bool empty() const { return lifecycle_.empty(); }
  AttemptState state() const;
  const ErrorPtr& root_cause() const { return lifecycle_.root_cause(); }
  const Membership& membership() const { return membership_; }
  const Registration& registration() const { return registration_; }
  const KeyValues& keys() const { return primitives_.keys(); }
  const MemberViews& views() const { return views_; }
  // Parked calls.
  size_t waits() const;
  // What members and barriers hold, about as it costs; keys tell of themselves.
  size_t memory() const { return membership_.memory() + primitives_.memory(); }

  // As MemberLifecycle says it, as do the requests and facts that it or Primitives handles.
  void Admit(Time now, const Admission& request, Effects& out) {
    lifecycle_.Admit(now, request, out);
  }
  template <class Event>
  void Handle(Time now, Event event, Effects& out) {
    if constexpr (requires { lifecycle_.Handle(now, event, out); }) {
      lifecycle_.Handle(now, event, out);
    } else {
      primitives_.Handle(now, std::move(event), out);
    }
  }
  template <class Event>
  void Handle(Time now, MemberIndex member, const Event& event, Effects& out) {
    lifecycle_.Handle(now, member, event, out);
  }
  // Of the session of the agent through which these members call.
  void Handle(Time now, const std::vector<MemberIndex>& callers, const OpenSession&) {
    polls_.AgentBack(now, callers);
  }
  void Handle(Time now, const std::vector<MemberIndex>& callers, const SessionBroke& fact) {
    if (!fact.silent) polls_.AgentEnded(now, callers);
  }
  void ExpireBrokenLinks(Time now, std::optional<MemberIndex> newcomer, Effects& out) {
    lifecycle_.ExpireBrokenLinks(now, newcomer, out);
  }

  // A sign of life of a member.
  void Heard(Time now, MemberIndex member) { membership_.detector().Heard(now, member); }

  // Answered with MembersWatched: at once, or with the next change; RESOURCE_EXHAUSTED
  // (limit_exceeded, memory_max).
  void Handle(Time now, const WatchMembers& request, Effects& out);
  // Answered with MembersWatched; INVALID_ARGUMENT (unknown_member).
  void Handle(Time now, const GetMemberStates& request, Effects& out);
  // Answered with BarriersListed.
  void Handle(Time now, const ListBarriers& request, Effects& out);
  void Handle(Time now, const CallLeft& fact, Effects& out);
  void Handle(Time now, const DeadlineReached& fact, Effects& out);
  // All that is parked is answered: ABORTED or CANCELLED (service_stopped); watchers of members get
  // an empty list.
  void Handle(Time now, const Stop& fact, Effects& out);

  // The next attempt begins, with its keys at `next_revision`: all that is parked is told so. A
  // tool's watch of keys goes on there.
  void Close(const ErrorPtr& error, int64_t next_revision, Effects& out);

  // Records what has changed of members, and answers watchers. To be called after every event.
  void Settle(Time now, Effects& out);
  // Long deletions that ended since this was last asked.
  std::vector<KeyDeletions::Ended> TakeDeleted() { return primitives_.TakeDeleted(); }
  // The last that is recorded of it, when it is over.
  void RecordEnd(Time now, Effects& out);

  // The state is as this record says, which was made at `at`. INVALID_ARGUMENT: no state could have
  // written it next.
  template <class Record>
  absl::Status Apply(Time at, const Record& record) {
    return primitives_.Apply(at, record);
  }
  absl::Status Apply(Time at, const record::AttemptRuns& record);
  absl::Status Apply(Time at, const record::AttemptFailed& record);
  absl::Status Apply(Time at, const record::ShutdownEnded& record);
  absl::Status Apply(Time at, const record::MemberChanged& record);
  // All records are applied. `version`: above all that watchers may have been told of.
  void Restored(Time now, int64_t version, Effects& out);
  void Snapshot(std::vector<TimedRecord>& records) const;

  Time NextDeadline() const;
  // All but the members.
  void FillView(Time now, CoordinatorView& view) const;

 private:
  JobRecord& job_;
  const ServiceIncarnation service_;
  Membership membership_;
  Registration registration_;
  ErrorPolls polls_;
  ShutdownBarrier shutdown_;
  MemberWatch watch_;
  CallGate gate_;
  Primitives primitives_;
  MemberLifecycle lifecycle_;
  MemberViews views_;
  HealthLog health_;
};

}  // namespace lockstep::coord

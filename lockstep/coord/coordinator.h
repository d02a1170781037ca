// The coordinator of one job: the machine that all its members talk to. Pure.
//
// Fed by lockstep/server (which owns the loop, the clock and the listeners) or by lockstep/sim.
// What each request means is told in docs/protocols/coordination.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/admission_control.h"
#include "lockstep/coord/attempt_series.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/job_watch.h"
#include "lockstep/coord/key_table.h"
#include "lockstep/coord/native_sessions.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/process_reports.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

// What a job holds, about as it costs.
struct CoordinatorMemory {
  size_t keys = 0;
  size_t key_count = 0;
  size_t others = 0;  // members, sessions, barriers, waits
};

// Decides who is in the job, what its barriers, keys and errors are, and who is told what.
//
// A job lives in attempts (AttemptSeries); the coordinator keeps what outlives one: the sessions of
// native clients (NativeSessions), and the processes, errors and versions of the job (JobRecord).
// The next attempt opens when a member comes after the job's last member has left or after the job
// has failed (AdmissionControl). This type gives each event to the part that it is for.
//
// Invariants: (1) every request is answered exactly once, or its caller left; (2) a request that
// carries another service incarnation than the current attempt's changes nothing; (3) the same
// events at the same times give the same effects; (4) a request of a session that took effect is
// answered again as before, and has no effect again, until its client has the answer; (5) the
// records of all effects so far, or those of a snapshot and of the effects since, give a machine
// that answers as this one, but for what was parked.
//
// Threads: thread-compatible; one loop owns it. Time: `now` must not go back between calls.
// Bounds: CoordinatorOptions.
class Coordinator {
 public:
  // More than a server takes (members_max): as many as the simulation tries.
  static constexpr int32_t kMembersMost = 1 << 20;

  explicit Coordinator(const CoordinatorOptions& options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // `no_room`: why requests that would make it hold more are refused at the moment.
  Effects Handle(Time now, Event event, const NoRoom& no_room = {});

  // Cheap: to be asked after each event.
  CoordinatorMemory Memory() const;

  // Restores what was recorded: `Snapshot` records first, then those of later effects, in order;
  // then `Handle(now, Restored{})`. Only before the first `Handle`. `at` may lie before any `now`.
  // INVALID_ARGUMENT: this record cannot follow those before it; the state is of no use then.
  absl::Status Apply(Time at, const Record& record);

  // The records from which `Apply` makes this state, in a coordinator with the same options.
  std::vector<TimedRecord> Snapshot() const;

  // When to call `Handle(now, DeadlineReached{})`; infinite when nothing is pending. May be early.
  Time NextDeadline() const;

  // Whether the session is open, linked or not.
  bool Knows(SessionId session) const { return sessions_.Knows(session); }

  // The current attempt.
  CoordinatorView View(Time now) const;
  // For people: the newest run, without its members, of which there may be many: those are looked
  // at one by one. Once processes run that nobody has joined from, the newest run is theirs: what
  // became of the attempt's members before says nothing about it. Otherwise it is the attempt.
  CoordinatorView Summary(Time now) const;
  // One member of that run. `heard` is filled when it is first needed; keep it for the others.
  MemberView ViewOf(Time now, MemberIndex member, std::optional<HostsHeard>& heard) const;
  // As who watches the job is told of it.
  MemberView WatchedViewOf(Time now, MemberIndex member) const;
  // The number of that run.
  int64_t attempt() const;
  // As errors list it: "task/2".
  std::string NameOf(MemberIndex member) const;
  bool AnyProcessRuns() const;
  // Members that are in the attempt and have not left it.
  size_t CountConnected() const;
  // Those that called through the agent with this session last, wherever they are by now.
  size_t CountConnected(SessionId agent) const;
  // The first keys of the current attempt below a directory and behind `after`, in order. Returns
  // whether there are more.
  bool ForEachKeyBelow(absl::string_view directory, absl::string_view after, size_t keys_max,
                       KeyTable::Visitor visit) const;

  const CoordinatorOptions& options() const;
  // Of the current attempt.
  ServiceIncarnation service_incarnation() const;

 private:
  // What carries a `Caller`: of a stock client, perhaps passed on by its agent, of a native one,
  // and of any of them, when it may.
  template <class Request>
  void HandleRequest(Time now, Request& request, Effects& out);
  template <class Request>
  void HandleNative(Time now, Request& request, Effects& out);
  // `asks`: absent if the caller is no member.
  template <class Request>
  void Run(Time now, Request& request, std::optional<MemberIndex> asks, Effects& out);

  // What carries none.
  void HandleFact(Time now, const RegisterMember& request, Effects& out);
  void HandleFact(Time now, const OpenSession& request, Effects& out);
  void HandleFact(Time now, const SessionBroke& fact, Effects& out);
  void HandleFact(Time now, const AnsweredThrough& fact, Effects& out);
  void HandleFact(Time now, const CallLeft& fact, Effects& out);
  void HandleFact(Time now, const DeadlineReached& fact, Effects& out);
  void HandleFact(Time now, const ProcessStarted& fact, Effects& out);
  void HandleFact(Time now, const ProcessEnded& fact, Effects& out);
  void HandleFact(Time now, const ProcessEnding& fact, Effects& out);
  void HandleFact(Time now, const ProcessStopped& fact, Effects& out);
  void HandleFact(Time now, const ProcessContinued& fact, Effects& out);
  void HandleFact(Time now, const RunBegan& fact, Effects& out);
  void HandleFact(Time now, const HostLost& fact, Effects& out);
  void HandleFact(Time now, const Restored& fact, Effects& out);
  void HandleFact(Time now, const Stop& fact, Effects& out);

  // To be called after every event.
  void Settle(Time now, Effects& out);

  // Whether people are shown a run that nobody has joined from, in place of the attempt.
  bool ShowsNewerRun() const;
  // The current attempt, without its members.
  CoordinatorView OfAttempt(Time now) const;

  absl::Status ApplyMember(Time at, const record::MemberChanged& record);

  const std::unique_ptr<JobRecord> job_;
  AttemptSeries attempts_;
  NativeSessions sessions_;
  AdmissionControl admission_;
  ProcessReports process_reports_;
  JobWatch job_watch_;
  AttemptState told_state_ = AttemptState::kWaiting;
  bool stopped_ = false;
};

}  // namespace lockstep::coord

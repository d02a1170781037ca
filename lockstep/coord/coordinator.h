// The coordinator of one job: the machine that all its members talk to. Pure.
//
// Fed by lockstep/server (which owns the loop, the clock and the doors) or by lockstep/sim. What
// each request means is told in docs/protocols/coordination.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/job_watch.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/process_reports.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/sessions.h"
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
// A job lives in attempts. All state that clients can reach belongs to the current `Attempt`, so
// that nothing of an old one can touch the new one; the coordinator keeps what outlives an attempt:
// the sessions of native clients, the processes a launcher told of, and the errors for people. It
// opens the next attempt when a member registers after the job's last member has left or after the
// job has failed.
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
  // The first keys of the current attempt below a directory and behind `after`, in order. Returns
  // whether there are more.
  bool ForEachKeyBelow(absl::string_view directory, absl::string_view after, size_t keys_max,
                       KeyTable::Visitor visit) const;

  const CoordinatorOptions& options() const;
  // Of the current attempt.
  ServiceIncarnation service_incarnation() const;

 private:
  // --- coordinator.cc ---

  // Null when the caller belongs to the current attempt.
  ErrorPtr CheckCaller(const Caller& caller) const;
  ErrorPtr WrongService(ServiceIncarnation claimed, bool native) const;
  // Whether a life of a member belongs to the attempt after this one.
  bool OpensNext(MemberIndex member, Incarnation incarnation) const;
  // Null when there is a number left for the attempt after this one.
  ErrorPtr CheckNextAttempt() const;
  // `number`: at least the one after this.
  void OpenNextAttempt(Time now, int64_t number, Effects& out);

  // What carries a `Caller`: of a stock client, of a native one, and of either, when it may.
  template <class Request>
  void HandleRequest(Time now, Request& request, Effects& out);
  template <class Request>
  void HandleNative(Time now, Request& request, Effects& out);
  template <class Request>
  void Run(Time now, Request& request, Effects& out);

  // What carries none.
  void HandleOther(Time now, const RegisterMember& request, Effects& out);
  void HandleOther(Time now, const OpenSession& request, Effects& out);
  void HandleOther(Time now, const SessionBroke& fact, Effects& out);
  void HandleOther(Time now, const AnsweredThrough& fact, Effects& out);
  void HandleOther(Time now, const CallLeft& fact, Effects& out);
  void HandleOther(Time now, const DeadlineReached& fact, Effects& out);
  void HandleOther(Time now, const ProcessStarted& fact, Effects& out);
  void HandleOther(Time now, const ProcessEnded& fact, Effects& out);
  void HandleOther(Time now, const ProcessEnding& fact, Effects& out);
  void HandleOther(Time now, const ProcessStopped& fact, Effects& out);
  void HandleOther(Time now, const ProcessContinued& fact, Effects& out);
  void HandleOther(Time now, const RunBegan& fact, Effects& out);
  void HandleOther(Time now, const Restored& fact, Effects& out);
  void HandleOther(Time now, const Stop& fact, Effects& out);
  // Whether people are shown a run that nobody has joined from, in place of the attempt.
  bool ShowsNewerRun() const;
  bool IsOver() const;
  // The current attempt, without its members.
  CoordinatorView OfAttempt(Time now) const;

  // To be called after every event.
  void Settle(Time now, Effects& out);

  // --- coordinator_native.cc ---

  // Null when the session may ask what only members may, or what `tools` may as well.
  ErrorPtr CheckSeat(const SessionTable::Session& session, bool tools) const;
  // The answer that is kept, given once more. `value`: what the request wrote.
  static Answer AnswerAgain(const record::AnswerKept& kept, const std::string* value);
  // Keeps what the call was answered with, when it took effect: when there are more records and
  // replies than these.
  void KeepAnswer(SessionTable::Session& session, const Caller& caller, size_t records,
                  size_t replies, Effects& out);

  void Join(Time now, SessionTable::Session& session, const JoinJob& request, Effects& out);
  // Null when the request makes sense, whoever is in.
  ErrorPtr CheckJoin(const JoinJob& request, const RoleRecord** role) const;
  // Null when the attempt that the process was started for may take it. `known`: it is, or was, a
  // member of the one that is on.
  ErrorPtr CheckAttempt(const JoinJob& request, bool known) const;
  // Null when the session is not another member already.
  ErrorPtr CheckOnlyOnce(const SessionTable::Session& session, const JoinJob& request,
                         std::optional<MemberIndex> member) const;
  // Null when no other process that lives is this member.
  ErrorPtr CheckHolder(Time now, MemberIndex member, Incarnation incarnation) const;
  void WatchTheJob(Time now, const WatchJob& request, Effects& out);
  void EndSession(Time now, const CloseSession& request, Effects& out);
  bool IsLiveMember(const SessionTable::Session& session) const;

  // --- coordinator_restore.cc ---

  absl::Status ApplyAttempt(const record::AttemptBegan& record);
  absl::Status ApplyMember(Time at, const record::MemberChanged& record);
  void ApplyError(Time at, const record::ErrorKept& record);
  void SnapshotOldAttempts(std::vector<TimedRecord>& records) const;

  const std::unique_ptr<JobRecord> job_;
  SessionTable sessions_;
  ProcessReports process_reports_;
  JobWatch job_watch_;
  std::unique_ptr<Attempt> attempt_;
  bool begun_ = false;  // the current attempt is in the journal
  AttemptState told_state_ = AttemptState::kWaiting;
  bool stopped_ = false;
};

}  // namespace lockstep::coord

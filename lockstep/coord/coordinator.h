// The coordinator of one job: the machine that all its members talk to. Pure.
//
// Fed by lockstep/server (which owns the loop, the clock and the doors) or by lockstep/sim. What
// each request means is told in docs/protocols/coordination.md.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

class Attempt;
struct JobRecord;

// Decides who is in the job, what its barriers, keys and errors are, and who is told what.
//
// A job lives in attempts. All state that clients can reach belongs to the current `Attempt`, so
// that nothing of an old one can touch the new one; the coordinator keeps what outlives an attempt:
// the processes a launcher told of, and the errors for people. It opens the next attempt when a
// member registers after the job's last member has left or after the job has failed.
//
// Invariants: (1) every request is answered exactly once, or its caller left; (2) a request that
// carries another service incarnation than the current attempt's changes nothing; (3) the same
// events at the same times give the same effects.
//
// Threads: thread-compatible; one loop owns it. Time: `now` must not go back between calls.
// Bounds: CoordinatorOptions.
class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  Effects Handle(Time now, Event event);

  // Restores what was recorded: `Snapshot` records first, then those of later effects, in order;
  // then `Handle(now, Restored{})`. Only before the first `Handle`. `at` may lie before any `now`.
  // INVALID_ARGUMENT: this record cannot follow those before it; the state is of no use then.
  absl::Status Apply(Time at, const Record& record);

  // The records from which `Apply` makes this state, in a coordinator with the same options.
  std::vector<TimedRecord> Snapshot() const;

  // When to call `Handle(now, DeadlineReached{})`; infinite when nothing is pending. May be early.
  Time NextDeadline() const;

  CoordinatorView View(Time now) const;

  const CoordinatorOptions& options() const;
  // Of the current attempt.
  ServiceIncarnation service_incarnation() const;

 private:
  // Null when the caller belongs to the current attempt.
  ErrorPtr CheckCaller(const Caller& caller) const;
  ErrorPtr WrongService(ServiceIncarnation claimed) const;
  // Whether the member of the job belongs to the attempt after this one.
  bool OpensNext(const RegisterMember& request) const;
  void OpenNextAttempt(Effects& out);

  // What carries no `Caller`.
  void HandleOther(Time now, const RegisterMember& request, Effects& out);
  void HandleOther(Time now, const CallLeft& fact, Effects& out);
  void HandleOther(Time now, const DeadlineReached& fact, Effects& out);
  void HandleOther(Time now, const ProcessStarted& fact, Effects& out);
  void HandleOther(Time now, const ProcessEnded& fact, Effects& out);
  void HandleOther(Time now, const ProcessStopped& fact, Effects& out);
  void HandleOther(Time now, const ProcessContinued& fact, Effects& out);
  void HandleOther(Time now, const Stop& fact, Effects& out);
  void SetStopped(Time now, MemberIndex member, int64_t pid, bool stopped, Effects& out);

  const std::unique_ptr<JobRecord> job_;
  std::unique_ptr<Attempt> attempt_;
  bool stopped_ = false;
};

}  // namespace lockstep::coord

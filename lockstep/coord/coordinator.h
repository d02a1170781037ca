// The coordinator of one job: the machine that all its members talk to. Pure.
//
// Fed by lockstep/server (which owns the loop, the clock and the doors) or by lockstep/sim. What each
// request means is told in docs/protocols/coordination.md.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/view.h"

namespace lockstep::coord {

class Attempt;
struct ErrorLog;
struct Processes;

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

  Effects Handle(Time now, const Event& event);

  // When to call `Handle(now, DeadlineReached{})`; infinite when nothing is pending. May be early.
  Time NextDeadline() const;

  CoordinatorView View(Time now) const;

  const CoordinatorOptions& options() const { return options_; }
  // Of the current attempt.
  ServiceIncarnation service_incarnation() const;

 private:
  void OpenNextAttempt(Time now, Effects& out);
  void HandleRegister(Time now, const RegisterMember& event, Effects& out);

  const CoordinatorOptions options_;
  std::unique_ptr<ErrorLog> errors_;
  std::unique_ptr<Processes> processes_;
  std::unique_ptr<Attempt> attempt_;
  int64_t attempt_number_ = 1;
  bool stopped_ = false;
};

}  // namespace lockstep::coord

// When the launchers of a job are asked where its processes are, and what was asked last. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/stack_snapshots.h"
#include "lockstep/wire/native/stack_question.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::server {

// A wait that times out is worth a look at the stacks of those who were waited for, while they are
// still where they were. Launchers are asked through a key of the job (wire::native has its name),
// which the job sets like any other: the question is an event, and its shell hands it in.
//
// Owns what was asked last. Promises: of several time-outs the first is looked at (StackSnapshots
// has the interval); nobody is asked while no process runs. Threads: thread-compatible. Bounds: one
// question. Time: `now` must not go back between calls.
class StackQuestions {
 public:
  // What it has to know of its job, whenever it asks.
  struct Job {
    std::function<bool()> any_process_runs;
    // The member that errors call so; nothing: there is none.
    std::function<std::vector<int32_t>(const std::string& names)> members_named;
    std::function<ServiceIncarnation()> service;
  };

  // What has timed out, and the members that others waited for, as far as that is known.
  struct Cause {
    std::string because;
    std::vector<int32_t> awaited;
  };

  explicit StackQuestions(Job job) : job_(std::move(job)) {}

  // What comes in at the listeners: launchers ask, too, and start processes.
  void Saw(Time now, const coord::Event& event);

  // The first of the answers that says a wait has timed out; nothing: none does.
  std::optional<Cause> TimedOut(const std::vector<coord::Reply>& replies) const;
  // The event that asks because of this; nothing: it is not worth a question now. `unix_us` tells
  // questions of different lives of the server apart.
  std::optional<coord::SetKey> Ask(Time now, int64_t unix_us, Cause cause);

  // The question whose answers can still be read; nothing: there is none.
  std::optional<wire::native::StacksTaken> Last(Time now) const;

 private:
  const Job job_;
  coord::StackSnapshots looks_{{.kept = wire::native::kStacksOfTimeoutLive}};
};

}  // namespace lockstep::server

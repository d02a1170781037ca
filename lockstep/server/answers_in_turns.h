// Sends the answers of one event over several turns of the loop when there are too many for one.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "lockstep/coord/effects.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/work_in_turns.h"
#include "lockstep/server/shared_answers.h"

namespace lockstep::server {

// Answers the calls of a job event by event: at once if they are few and none waits here, else in
// turns of runtime::TurnBudget::kTime. A barrier of 100,000 ends so. What calls of one link share
// goes out last, when all answers of its event are known.
//
// Threads: loop-confined. Ownership: the loop outlives it. Destroying it drops what is not
// answered. Bounds: the calls that wait in the job.
class AnswersInTurns {
 public:
  // Answers these; what several calls of one link share may be left in `shared`.
  using Answer = std::function<void(const std::vector<coord::Reply>&, SharedAnswers& shared)>;

  static constexpr size_t kStep = 64;  // answers, or links, between two looks at the clock

  // `fan_out`: as SharedAnswers.
  AnswersInTurns(runtime::Loop& loop, Answer answer, FanOut* fan_out)
      : answer_(std::move(answer)), shared_(fan_out), work_(loop, [this] { return Step(); }) {}

  // Of one event.
  void Add(std::vector<coord::Reply>&& replies);
  // Answers all at once, and from now on whatever is added: at shutdown.
  void Finish();
  // Bytes held by unsent replies, not counting their values.
  size_t bytes() const { return waiting_ * sizeof(coord::Reply); }

 private:
  // The next few; false: there are none.
  bool Step();

  const Answer answer_;
  std::deque<std::vector<coord::Reply>> events_;
  size_t sent_ = 0;     // of the first event
  size_t waiting_ = 0;  // of all events
  SharedAnswers shared_;
  bool at_once_ = false;
  runtime::WorkInTurns work_;
};

}  // namespace lockstep::server

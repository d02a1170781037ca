// The server of a simulation: feeds the machine, answers callers, and has every step checked. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/coord/error.h"
#include "lockstep/sim/call_book.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/machine.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/scenario.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/trace.h"

namespace lockstep::sim {

// How often each kind of event and each reason of an error has been seen.
struct Coverage {
  std::array<int64_t, std::variant_size_v<coord::Event>> events = {};
  std::array<int64_t, static_cast<size_t>(coord::kLastReason) + 1> reasons = {};

  void Add(const Coverage& other);
};

// Does what the shell in lockstep/server does, under the virtual clock. The first broken rule is
// kept and ends the run.
class Server {
 public:
  using Answer = std::function<void(const coord::Reply&)>;

  // All references must outlive the server.
  Server(Schedule& schedule, Random random, const Scenario& scenario, Machine& machine,
         Trace& trace, Answer answer);

  void Handle(const coord::Event& event);

  int64_t steps() const { return steps_; }
  // Empty as long as all rules hold, else which one was broken, and how.
  const std::string& failure() const { return failure_; }
  const Coverage& coverage() const { return coverage_; }
  const coord::CoordinatorView& view() const { return view_; }

 private:
  void Check(const coord::Event& event, const coord::Effects& effects,
             const coord::CoordinatorView& before);
  void Arm();

  Schedule& schedule_;
  Random random_;
  const Scenario& scenario_;
  Machine& machine_;
  Trace& trace_;
  const Answer answer_;

  CallBook calls_;
  std::vector<CheckerPtr> checkers_;
  coord::CoordinatorView view_;
  Time armed_ = Time::Infinite();
  int64_t steps_ = 0;
  bool stopped_ = false;
  std::string failure_;
  Coverage coverage_;
};

}  // namespace lockstep::sim

// What the simulation drives: the coordinator, or a spoilt one that the checkers must catch.
#pragma once

#include <utility>

#include "lockstep/base/time.h"
#include "lockstep/coord/coordinator.h"

namespace lockstep::sim {

// The face of coord::Coordinator as an interface.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual coord::Effects Handle(Time now, const coord::Event& event) = 0;
  virtual Time NextDeadline() const = 0;
  virtual coord::CoordinatorView View(Time now) const = 0;
  virtual ServiceIncarnation service_incarnation() const = 0;
};

// The real one.
class CoordinatorMachine : public Machine {
 public:
  explicit CoordinatorMachine(coord::CoordinatorOptions options)
      : coordinator_(std::move(options)) {}

  coord::Effects Handle(Time now, const coord::Event& event) override {
    return coordinator_.Handle(now, event);
  }
  Time NextDeadline() const override { return coordinator_.NextDeadline(); }
  coord::CoordinatorView View(Time now) const override { return coordinator_.View(now); }
  ServiceIncarnation service_incarnation() const override {
    return coordinator_.service_incarnation();
  }

 private:
  coord::Coordinator coordinator_;
};

}  // namespace lockstep::sim

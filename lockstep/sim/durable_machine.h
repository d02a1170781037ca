// What the simulation of native clients drives: a coordinator that can die and be restored. Pure.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/coord/coordinator.h"

namespace lockstep::sim {

// The face of coord::Coordinator with what is needed to restore it, as an interface, so that one
// with a mistake can take its place.
class DurableMachine {
 public:
  virtual ~DurableMachine() = default;
  virtual coord::Effects Handle(Time now, coord::Event event) = 0;
  virtual absl::Status Apply(Time at, const coord::Record& record) = 0;
  virtual std::vector<coord::TimedRecord> Snapshot() const = 0;
  virtual Time NextDeadline() const = 0;
  virtual coord::CoordinatorView View(Time now) const = 0;
};

using MakeDurableMachine =
    std::function<std::unique_ptr<DurableMachine>(const coord::CoordinatorOptions&)>;

// The real one.
class DurableCoordinator : public DurableMachine {
 public:
  explicit DurableCoordinator(coord::CoordinatorOptions options)
      : coordinator_(std::move(options)) {}

  coord::Effects Handle(Time now, coord::Event event) override {
    return coordinator_.Handle(now, std::move(event));
  }
  absl::Status Apply(Time at, const coord::Record& record) override {
    return coordinator_.Apply(at, record);
  }
  std::vector<coord::TimedRecord> Snapshot() const override { return coordinator_.Snapshot(); }
  Time NextDeadline() const override { return coordinator_.NextDeadline(); }
  coord::CoordinatorView View(Time now) const override { return coordinator_.View(now); }

 private:
  coord::Coordinator coordinator_;
};

}  // namespace lockstep::sim

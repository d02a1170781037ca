// Runs what looks for notices, a thread each, and tells what changed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/preempt/notice.h"
#include "lockstep/preempt/source.h"

namespace lockstep::preempt {

// One thing that is looked at. All but `Acknowledge` is called on one thread at a time: `Open` and
// `Close` by who starts and stops the source, `Look` in between on a thread of its own.
class Watch {
 public:
  using Clock = Now (*)();

  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;

  // What `Source::Start` fails with; the watches before this one are closed then.
  virtual absl::Status Open() { return absl::OkStatus(); }
  // After the last `Look`; not after an `Open` that failed.
  virtual void Close() {}
  // Looks once. May wait, until the descriptor `interrupt` is readable; then it returns soon, with
  // CANCELLED when it has seen nothing.
  virtual Sight Look(Clock clock, int interrupt) = 0;
  // As `Source::Acknowledge`; true when it is to look at once. Thread-safe.
  virtual bool Acknowledge(const std::string& /*id*/) { return false; }
  // What it looks at, for people; from `Open` on.
  virtual std::string detail() const = 0;
};

// Watches are independent: one that fails makes the source unhealthy, and the others go on. Times
// between looks are spread by a tenth, so that hosts that started together do not ask together.
std::unique_ptr<Source> MakeWatchedSource(std::string name,
                                          std::vector<std::unique_ptr<Watch>> watches);

}  // namespace lockstep::preempt

// Says in the log that the disk is slow, while changes wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "lockstep/platform/runtime/loop.h"

namespace lockstep::server {

// Looks at the journal's progress each second while changes wait, and warns when no write has
// finished since the last look. Costs no timer while nothing waits.
//
// Threads: loop-confined, but everything may be called while the loop does not run.
class StallWatch {
 public:
  struct Progress {
    uint64_t durable = 0;  // the newest entry that is
    size_t waiting = 0;    // changes; 0 ends the watch
    size_t bytes = 0;      // of their entries
  };

  // `progress` is called from `Begin` and on the loop.
  StallWatch(runtime::Loop& loop, std::function<Progress()> progress);

  // A change begins to wait. Does nothing while others wait.
  void Begin();

 private:
  void Look(uint64_t durable_before);

  const std::function<Progress()> progress_;
  runtime::Timer timer_;
  bool watching_ = false;
};

}  // namespace lockstep::server

// Follows the preemptions of a job from one attempt to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "lockstep/base/time.h"
#include "lockstep/client/job_preemptions.h"
#include "lockstep/client/preemption.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

// With an attempt end all watches of it: this begins another one, at most five a second.
//
// Threads: loop-confined; what the client's threads bring is posted to the loop. Destroy it when
// the loop has stopped. Ownership: the loop and the session of `job` outlive it.
class PreemptionFollower {
 public:
  // On the loop.
  struct Callbacks {
    // How the job's preemption stands, with each change.
    std::function<void(const PreemptionNotice&)> changed;
    // Before `changed` says so: a preemption has ended. Once for each.
    std::function<void(const PreemptionNotice&)> ended;
    // The watch broke off, and another has begun: of an attempt that knows nothing of what the
    // former was told.
    std::function<void()> resumed;
  };

  // Begins the first watch.
  PreemptionFollower(runtime::Loop& loop, JobPreemptions job, Callbacks callbacks);
  PreemptionFollower(const PreemptionFollower&) = delete;
  PreemptionFollower& operator=(const PreemptionFollower&) = delete;

  // Begins another watch, since another attempt begins. What is still to come of the former one is
  // dropped.
  void Restart();
  // Calls `done` on the loop with how the preemption stands now, or with the error of the server;
  // not at all when the session is closed first.
  void Get(std::function<void(absl::StatusOr<PreemptionNotice>)> done);

 private:
  void Take(const absl::StatusOr<PreemptionNotice>& notice);

  runtime::Loop& loop_;
  const JobPreemptions job_;
  const Callbacks callbacks_;
  std::unique_ptr<JobPreemptionWatch> watch_;
  uint64_t number_ = 0;  // of the watch
  Time began_;           // the watch
  runtime::Timer again_;
  // Attempt and id of the last preemption that `ended` was called for.
  std::pair<int64_t, int64_t> ended_ = {0, 0};
};

}  // namespace lockstep::cli

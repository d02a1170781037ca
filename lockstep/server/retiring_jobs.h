// Jobs that have ended, while their last answers go out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "lockstep/platform/runtime/loop.h"
#include "lockstep/server/job_host.h"
#include "lockstep/server/native_listener.h"

namespace lockstep::server {

// Shuts each down on a thread of its own where somebody may still be answered, since gRPC's end
// blocks for seconds and the loop has to run meanwhile.
//
// Threads: loop-confined, but everything may be called while the loop does not run. The loop and
// the listener outlive it. The destructor waits for the threads.
class RetiringJobs {
 public:
  RetiringJobs(runtime::Loop& loop, NativeListener& listener) : loop_(loop), listener_(listener) {}
  ~RetiringJobs();

  // Keeps a job that is in no table any more. `Begin` must follow.
  JobHost& Keep(std::unique_ptr<JobHost> job);
  // What the job has to say was said: ends its connections, and destroys it when they have ended.
  void Begin(JobHost& job);
  // Calls `done` on the loop once no job is left.
  void WhenNone(std::function<void()> done);

 private:
  struct Retiring {
    std::unique_ptr<JobHost> job;
    std::thread thread;
  };
  void Ended(const JobHost* job);

  runtime::Loop& loop_;
  NativeListener& listener_;
  std::map<const JobHost*, Retiring> jobs_;
  std::function<void()> when_none_;
};

}  // namespace lockstep::server

// Starts the processes of a model job, ends them, and starts them anew when they fail. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lockstep/sim/network.h"
#include "lockstep/sim/process.h"
#include "lockstep/sim/program.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/scenario.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/server.h"
#include "lockstep/sim/trace.h"

namespace lockstep::sim {

// One launcher for all processes of the job, as `lockstep run` is. After a failure it ends the
// whole job and starts it again, or only what failed, as the scenario says; it tells the server of
// its processes in the order in which things happened, at once or late.
class Launcher {
 public:
  // All references must outlive the launcher.
  Launcher(Schedule& schedule, Network& network, Server& server, Trace& trace,
           const Scenario& scenario, Random random, Work& work);

  // Starts a job and restarts what fails, up to the scenario's `attempts_max`.
  void StartFaultyJobs();

  // Ends all processes, and starts nothing any more.
  void EndAll();
  // When the server will have been told of everything that has happened so far.
  Time told_by() const { return last_report_; }
  // Starts a job of which nothing may fail.
  void StartHealthyJob();
  // Starts a job that may fail, once.
  void StartDoomedJob();

  // All processes of the job have ended well.
  bool done() const;
  // Of a healthy job: empty, or which process failed and why.
  const std::string& failure() const { return failure_; }

  // Processes that run now.
  std::vector<Process*> Running() const;
  void Kill(Process& process, bool silently);
  void StopForAWhile(Process& process, absl::Duration pause);
  void ContinueAll();

 private:
  void StartJob(int operations, absl::Duration timeout);
  void StartProcess(MemberIndex member);
  void Ended(Process& process, int code, absl::string_view why);
  void AfterFailure(MemberIndex member);
  void RestartJob();
  void Tell(coord::Event fact);

  Schedule& schedule_;
  Network& network_;
  Server& server_;
  Trace& trace_;
  const Scenario& scenario_;
  Random random_;
  Work& work_;

  std::vector<std::unique_ptr<Process>> processes_;  // all that there ever were
  std::vector<Process*> current_;                    // by member
  std::vector<bool> ended_well_;
  std::shared_ptr<const std::vector<Operation>> program_;
  int64_t job_ = 0;  // whatever was planned for an older one is void
  int64_t last_pid_ = 1000;
  int starts_left_ = 0;
  bool healthy_ = false;
  bool failing_ = false;  // and the job's end is planned
  Time last_report_;
  std::string failure_;
};

}  // namespace lockstep::sim

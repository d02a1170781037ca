// What `lockstep run` does once its command line is understood.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/launch/launcher.h"

namespace lockstep::cli {

struct RunOptions {
  int32_t processes = 0;    // 0: as many as the job has members
  std::string coordinator;  // empty: a server is started for this run
  std::string job;          // empty: "job", or the only one that the server has
  std::string role = "task";
  absl::Duration grace = absl::Seconds(10);
  std::vector<std::string> notices = {"auto"};  // sources of preemption notices; "none": none
  launch::OnPreempt on_preempt = launch::OnPreempt::kExit;
  absl::Duration term_grace = absl::InfiniteDuration();
  bool show_server_log = false;
  std::vector<std::string> server_arguments;  // for the server that is started
  std::vector<std::string> command;
};

// Returns the exit code.
int RunJob(const RunOptions& options);

}  // namespace lockstep::cli

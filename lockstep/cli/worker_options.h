// What `lockstep worker` can be told, by flags, variables or the section `worker` of a file.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/data/worker/worker.h"
#include "lockstep/platform/config/option_table.h"

namespace lockstep::cli {

// The options, and the table that is bound to them.
struct DeclaredWorker {
  DeclaredWorker();
  DeclaredWorker(const DeclaredWorker&) = delete;
  DeclaredWorker& operator=(const DeclaredWorker&) = delete;

  std::string dispatcher = "127.0.0.1:7070";
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  bool insecure_network = false;
  absl::Duration end_timeout = absl::Seconds(5);
  std::vector<std::string> allow_paths;
  std::vector<std::string> allow_functions;
  std::vector<std::string> allow_uids;
  std::vector<std::string> tags;
  std::string python = "python3";
  int threads = 1;  // the constructor: as many as the host has cores
  data::WorkerOptions options;
  config::OptionTable table;
};

}  // namespace lockstep::cli

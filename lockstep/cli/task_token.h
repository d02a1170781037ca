// The token of the processes that a launcher starts, which may do less than its own.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/link/client.h"

namespace lockstep::cli {

// Asks the server for a token for tasks of the job, keeps it in a file of the run's folder, and
// asks for a new one when half of its time is over; a process reads the file whenever it connects.
//
// Threads: has one of its own; the rest, one. Ownership: the folder outlives it.
class TaskToken {
 public:
  // Null: the launcher has no token either, or the server knows its callers without. Errors as
  // link::Client's, and of the file.
  static absl::StatusOr<std::unique_ptr<TaskToken>> Obtain(const std::string& coordinator,
                                                           const std::string& job,
                                                           const std::string& folder);
  ~TaskToken();
  TaskToken(const TaskToken&) = delete;
  TaskToken& operator=(const TaskToken&) = delete;

  // For LOCKSTEP_TOKEN_FILE.
  const std::string& path() const { return path_; }

 private:
  TaskToken(std::string coordinator, std::string job, std::string path)
      : coordinator_(std::move(coordinator)), job_(std::move(job)), path_(std::move(path)) {}
  // How long the new one lasts; zero: none is needed.
  absl::StatusOr<absl::Duration> Renew(const absl::StatusOr<std::unique_ptr<link::Client>>& client);
  void KeepFresh(absl::Duration lasts);

  const std::string coordinator_;
  const std::string job_;
  const std::string path_;
  Mutex mutex_;
  CondVar over_changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::cli

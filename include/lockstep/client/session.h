// Looking into a job without being a member: for tools. Public.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/client/call.h"
#include "lockstep/client/errors.h"
#include "lockstep/client/job.h"
#include "lockstep/client/job_preemptions.h"
#include "lockstep/client/keys.h"

namespace lockstep {

struct SessionOptions {
  std::string address;                         // as JoinOptions
  std::string job;                             // as JoinOptions
  int32_t size = 0;                            // > 0: makes the job if it is not there
  std::string who = "lockstep client";         // for the server's log
  absl::Duration timeout = absl::Seconds(10);  // until it is open
  absl::Duration grace = absl::Minutes(1);     // as JoinOptions
  Interrupted interrupted = nullptr;
};

// A conversation about one job: its keys, its state, and its preemptions. Comes back by itself like
// a member, and is thread-safe. What only members may do answers `not_a_member`.
class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Open(SessionOptions options);
  // Ends what waits with CANCELLED; as ~Member.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::string& job() const;
  int64_t attempt() const;  // of the job when the session was opened
  int32_t size() const;     // of the job

  Keys keys() const;
  JobPreemptions preemptions() const;
  std::unique_ptr<JobWatch> OnJobChange(std::function<void(absl::StatusOr<JobChange>)> changed);
  std::unique_ptr<JobWatch> WatchJob();

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

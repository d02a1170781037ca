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
  // Returns when the server has opened it. INVALID_ARGUMENT: no such address, or no job is named.
  // DEADLINE_EXCEEDED: no server within `timeout`. NOT_FOUND: no such job, and no `size` to make it
  // with.
  static absl::StatusOr<std::unique_ptr<Session>> Open(SessionOptions options);
  // Ends what waits with CANCELLED; as ~Member.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Its name; of the options, or of LOCKSTEP_JOB.
  const std::string& job() const;
  int64_t attempt() const;  // of the job when the session was opened
  int32_t size() const;     // of the job

  // Of the whole job. May outlive this session, and then answers FAILED_PRECONDITION.
  Keys keys() const;
  // Of the whole job. As `keys` once the session is gone.
  JobPreemptions preemptions() const;
  // As Member::OnJobChange: an error is the last call.
  std::unique_ptr<JobWatch> OnJobChange(std::function<void(absl::StatusOr<JobChange>)> changed);
  // To pull the same with `JobWatch::Next`.
  std::unique_ptr<JobWatch> WatchJob();

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

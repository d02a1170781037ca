// Following a job: who is in it, how each is, what went wrong. Public.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/client/call.h"

namespace lockstep {

struct MemberInfo {
  int32_t member = 0;  // in the whole job
  std::string name;    // "trainer/4#1"
  std::string
      condition;    // "missing", "registering", "connected", "suspect", "lost", "failed", "left"
  std::string why;  // of suspect, lost, failed: one sentence
  std::string host;
  int64_t pid = 0;              // 0: not known
  std::string peer;             // where it joined from
  std::optional<int64_t> step;  // as far as it reported it, as is the phase
  std::string phase;
  std::string doing;  // "waits at barrier 'b' for 12s"; empty: not known
};

struct JobError {
  absl::Status status;       // with its reason
  std::string origin;        // the member it is about, or empty
  bool consequence = false;  // it followed from the attempt's first error
  int64_t attempt = 0;
};

struct JobChange {
  int64_t version = 0;
  bool snapshot = false;  // all there is, instead of what has changed
  int64_t attempt = 0;
  std::string state;  // "waiting", "running", "leaving", "ended", "failed", "stopped"
  std::vector<MemberInfo> members;
  std::vector<JobError> errors;
};

// Follows a job. Stops when destroyed. One `Next` at a time.
class JobWatch {
 public:
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  // What has changed since the last one; the first says all there is.
  absl::StatusOr<JobChange> Next(CallOptions options = {});
  // As `Next`. FAILED_PRECONDITION `call_open`: one is open already.
  Pending NextAsync(CallOptions options, Completion<JobChange> done);

  // As KeyWatch::Stop.
  void Stop();

 private:
  friend class Member;
  friend class Session;
  class Impl;
  explicit JobWatch(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep

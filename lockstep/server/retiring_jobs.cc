#include "lockstep/server/retiring_jobs.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/error.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

RetiringJobs::~RetiringJobs() {
  for (auto& [job, retiring] : jobs_) {
    if (retiring.thread.joinable()) retiring.thread.join();
  }
}

JobHost& RetiringJobs::Keep(std::unique_ptr<JobHost> job) {
  JobHost& host = *job;
  jobs_[&host].job = std::move(job);
  return host;
}

void RetiringJobs::Begin(JobHost& job) {
  // Links that end later must not look for a job that has gone.
  listener_.JobDeleted(job, wire::native::WithReason(
                                absl::UnavailableError("the server is shutting down"),
                                std::string(coord::ReasonName(coord::Reason::kServiceStopped))));
  if (!job.shutdown_blocks()) {
    job.Shutdown();
    return loop_.Post([this, &job] { Ended(&job); });
  }
  // The loop has to go on while gRPC sends what was answered.
  LOCKSTEP_DCHECK(!jobs_.at(&job).thread.joinable());
  jobs_.at(&job).thread = std::thread([this, &job] {
    job.Shutdown();
    loop_.Post([this, &job] { Ended(&job); });
  });
}

void RetiringJobs::Ended(const JobHost* job) {
  const auto found = jobs_.find(job);
  LOCKSTEP_DCHECK(found != jobs_.end());
  if (found->second.thread.joinable()) found->second.thread.join();
  jobs_.erase(found);
  if (jobs_.empty() && when_none_) std::exchange(when_none_, nullptr)();
}

void RetiringJobs::WhenNone(std::function<void()> done) {
  if (jobs_.empty()) return loop_.Post(std::move(done));
  LOCKSTEP_DCHECK(when_none_ == nullptr);
  when_none_ = std::move(done);
}

}  // namespace lockstep::server

// The jobs of a server: made at its start or while it runs, found by name, ended.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/time.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/job_host.h"
#include "lockstep/server/native_door.h"
#include "lockstep/server/options.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/store/entry.h"

namespace lockstep::server {

// Letters, digits, '.', '_' and '-', up to 128; INVALID_ARGUMENT says so.
absl::Status CheckJobName(const std::string& name);

// Jobs that were made while the server runs and that nobody uses for `job_rest` are deleted. A job
// that is not used costs its memory and one listening socket: no timer, no thread.
//
// Threads: loop-confined, but everything may be called while the loop does not run. Bounds:
// ServerOptions::jobs_max.
class JobTable {
 public:
  using Jobs = std::map<std::string, std::unique_ptr<JobHost>>;

  // `door` answers native calls, `commits` keeps what happens, `feed` is told of it; all outlive
  // the table.
  JobTable(runtime::Loop& loop, const ServerOptions& options, CommitQueue& commits,
           NativeDoor& door, EventFeed& feed, Counters& counters);
  ~JobTable();

  // Makes a job and takes its address. The job serves once `Start` was called on it.
  // ALREADY_EXISTS (`job_exists`), RESOURCE_EXHAUSTED (`limit_exceeded`), or the address' error.
  absl::StatusOr<JobHost*> Add(const JobOptions& options);
  void Start(JobHost& job);

  // One entry of the journal, in order, before anything else. INVALID_ARGUMENT: it cannot follow
  // those before it.
  absl::Status Restore(const wire::store::ReadEntry& entry);
  // All entries were given: takes the addresses that the jobs had.
  absl::Status Resume();
  // That a restored job is what the command line says it is. FAILED_PRECONDITION: another one.
  absl::Status CheckRestored(const JobHost& job, const JobOptions& options) const;

  // Null: there is none.
  JobHost* Find(const std::string& name) const;
  // The same, or NOT_FOUND (`unknown_job`) with the names that there are.
  absl::StatusOr<JobHost*> Get(const std::string& name) const;
  // What is told of a job, without its members.
  absl::StatusOr<wire::native::JobStatus> Summary(Time now, const std::string& name) const;

  // What clients ask for. A job made here expires.
  absl::StatusOr<NativeJob*> Open(const wire::native::OpenSession& request);
  absl::StatusOr<wire::native::CreateJobReply> Create(const wire::native::CreateJob& request);
  absl::Status Delete(const wire::native::DeleteJob& request);
  // The store of an attempt of a job, which begins with the first request for it.
  absl::StatusOr<wire::native::OpenStoreReply> OpenStore(const wire::native::OpenStore& request);

  const Jobs& jobs() const { return jobs_; }

  // Answers all waits, lets the answers go out and calls `done` on the loop. Nothing is made later.
  void Drain(std::function<void()> done);

 private:
  // Takes the job out of the table; once that is durable, who waits in it is told `why` and it is
  // shut down.
  void Remove(Jobs::iterator job, const absl::Status& why);
  void Retire(std::unique_ptr<JobHost> job);
  void BeginRetirement(JobHost* job);
  void Retired(const JobHost* job);
  absl::StatusOr<JobHost*> Make(JobOptions options);
  bool InUse(JobHost& job) const;
  void ArmSweep();
  void Sweep();

  runtime::Loop& loop_;
  const ServerOptions& options_;
  CommitQueue& commits_;
  NativeDoor& door_;
  EventFeed& feed_;
  Counters& counters_;
  Jobs jobs_;
  // Where restored jobs listened, until they do so again.
  std::map<std::string, runtime::Address> restored_;
  // Jobs whose last answers go out, each on a thread, since gRPC's end blocks for seconds.
  struct Retiring {
    std::unique_ptr<JobHost> job;
    std::thread thread;
  };
  std::map<const JobHost*, Retiring> retiring_;
  runtime::Timer sweep_;
  bool draining_ = false;
  std::function<void()> drained_;
};

}  // namespace lockstep::server

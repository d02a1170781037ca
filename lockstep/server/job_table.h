// The jobs of a server: made at its start or while it runs, found by name, ended.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/rights.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/job_host.h"
#include "lockstep/server/native_listener.h"
#include "lockstep/server/options.h"
#include "lockstep/server/restored_events.h"
#include "lockstep/server/retiring_jobs.h"
#include "lockstep/server/set_aside_jobs.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/store/entry.h"

namespace lockstep::server {

// Jobs that were made while the server runs and that nobody uses for `idle_job_timeout` are
// deleted. A job that is not used costs its memory and one listening socket: no timer, no thread.
//
// Threads: loop-confined, but everything may be called while the loop does not run. Bounds:
// ServerOptions::jobs_max, members_total_max; and the memory's account.
class JobTable {
 public:
  using Jobs = std::map<std::string, std::unique_ptr<JobHost>>;

  // `listener` answers native calls, `commits` keeps what happens, `feed` is told of it, in
  // `memory` is what jobs hold; all outlive the table.
  JobTable(runtime::Loop& loop, const ServerOptions& options, CommitQueue& commits,
           NativeListener& listener, EventFeed& feed, Counters& counters,
           runtime::MemoryAccount& memory);
  ~JobTable();

  // Makes a job and takes its address. The job serves once `Start` was called on it.
  // ALREADY_EXISTS (`job_exists`), RESOURCE_EXHAUSTED (`limit_exceeded`), or the address' error.
  absl::StatusOr<JobHost*> Add(const JobOptions& options);
  // Serves it from now on, and tells the feed, once.
  void Start(JobHost& job);

  // One entry of the journal, in order, before anything else. One that cannot follow those before
  // it sets its job aside. INVALID_ARGUMENT: it is of no job.
  absl::Status Restore(const wire::store::ReadEntry& entry);
  // All entries were given: takes the addresses that the jobs had. A job whose address cannot be
  // had is set aside, and comes back with a server that can have it. An error: other hosts reach
  // one of them, which the command line does not allow.
  absl::Status TakeAddresses();
  // An entry cannot be used: the job is set aside, or, under kDataServiceName, the data service as
  // a whole. `why` says what is wrong with it.
  void SetAsideUnfit(const std::string& name, std::string_view why);
  // Goes on with the jobs that have their addresses.
  void Resume();
  // That a restored job is what the command line says it is. FAILED_PRECONDITION: another one.
  absl::Status CheckRestored(const JobHost& job, const JobOptions& options) const;

  // Null: there is none.
  JobHost* Find(const std::string& name) const;
  // The same, or NOT_FOUND (`unknown_job`) with the names that there are, for who may know of them.
  enum class Others { kNamed, kNotNamed };
  absl::StatusOr<JobHost*> Get(const std::string& name, Others others = Others::kNamed) const;
  // What is told of a job, without its members.
  absl::StatusOr<wire::native::JobStatus> Summary(Time now, const std::string& name) const;

  // Whether the job knows this session already.
  bool Knows(const wire::native::OpenSession& request) const;

  // What clients ask for. A job made here expires. PERMISSION_DENIED (`not_permitted`): there is no
  // such job, and a caller with these rights may not create it.
  absl::StatusOr<NativeJob*> Open(const wire::native::OpenSession& request,
                                  const link::Rights& rights);
  // OK also for a job of this shape that is there. Errors as `Add`; INVALID_ARGUMENT: a name or
  // roles that no job may have.
  absl::StatusOr<wire::native::CreateJobReply> Create(const wire::native::CreateJob& request);
  // NOT_FOUND (`unknown_job`). FAILED_PRECONDITION (`job_running`): members are connected, and the
  // request does not insist.
  absl::Status Delete(const wire::native::DeleteJob& request);
  // The store of an attempt of a job, which begins with the first request for it.
  absl::StatusOr<wire::native::OpenStoreReply> OpenStore(const wire::native::OpenStore& request);

  const Jobs& jobs() const { return jobs_; }
  // Those of a former life that are served to nobody.
  SetAsideJobs& set_aside() { return set_aside_; }
  const SetAsideJobs& set_aside() const { return set_aside_; }

  // Called with the name of each job that is deleted, and why.
  void OnDeleted(std::function<void(const std::string&, const absl::Status&)> function) {
    on_deleted_ = std::move(function);
  }

  // Called with job, host and pid of each member that a job has lost, where they are known.
  using MemberLost =
      std::function<void(const std::string& job, const std::string& host, int64_t pid)>;
  void OnMemberLost(MemberLost function) { on_member_lost_ = std::move(function); }

  // Answers all waits, lets the answers go out and calls `done` on the loop. Nothing is made later.
  void Drain(std::function<void()> done);

 private:
  // Takes the job out of the table; once that is durable, who waits in it is told `why` and it is
  // shut down.
  void Remove(Jobs::iterator job, const absl::Status& why);
  absl::Status Apply(const wire::store::ReadEntry& entry);
  void SetAside(const std::string& name, std::string why);
  runtime::Address AddressOf(const std::string& name) const;
  absl::StatusOr<JobHost*> Make(JobOptions options);
  // A job that the command line names must not come back as another one: no server would start on
  // that state.
  absl::Status CheckNamed(const JobOptions& options) const;
  std::unique_ptr<JobHost> MakeHost(coord::CoordinatorOptions options);
  absl::Status CheckRoom(const JobOptions& options) const;
  bool InUse(JobHost& job) const;
  void ArmSweep();
  void Sweep();

  runtime::Loop& loop_;
  const ServerOptions& options_;
  CommitQueue& commits_;
  NativeListener& listener_;
  EventFeed& feed_;
  Counters& counters_;
  runtime::MemoryAccount& memory_;
  Jobs jobs_;
  // Where restored jobs listened, until they do so again.
  std::map<std::string, runtime::Address> restored_;
  RestoredEvents restored_events_;
  SetAsideJobs set_aside_;
  std::function<void(const std::string&, const absl::Status&)> on_deleted_;
  MemberLost on_member_lost_;
  RetiringJobs retiring_;
  runtime::Timer sweep_;
  bool draining_ = false;
};

}  // namespace lockstep::server

#include "lockstep/server/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loopback.h"
#include "lockstep/server/job_name.h"
#include "lockstep/server/listen_address.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/from_store_view.h"
#include "lockstep/wire/native/from_view.h"
#include "lockstep/wire/native/to_event.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

// What a job costs before anybody comes: itself, and the places of its members.
constexpr size_t kJobBytes = size_t{64} << 10;
constexpr size_t kMemberBytes = 32;

using wire::native::WithReason;

constexpr size_t kNamesInTextMax = 10;

// Idle jobs are swept at most idle_job_timeout/8 late.
constexpr int kSweepsPerIdleTimeout = 8;

absl::Status Invalid(std::string text) {
  return WithReason(absl::InvalidArgumentError(std::move(text)), "invalid_argument");
}

absl::Status Unknown(const std::string& job, const std::string& others) {
  return WithReason(absl::NotFoundError(absl::StrCat("this server has no job '", job, "'", others)),
                    "unknown_job");
}

coord::CoordinatorOptions CoordinatorOf(const JobOptions& job, const ServerOptions& server) {
  coord::CoordinatorOptions options = server.coordinator;
  options.job = job.name;
  options.size = job.size;
  options.roles = job.roles;
  options.recoverable = job.recoverable;
  options.incarnation_seed = runtime::RandomNumber();
  return options;
}

// "4", "worker:2,ps:1": as it is said on the command line.
std::string ShapeOf(const coord::CoordinatorOptions& job) {
  if (job.roles.empty()) return absl::StrCat(job.size);
  return absl::StrJoin(job.roles, ",", [](std::string* out, const coord::RoleOptions& role) {
    absl::StrAppend(out, role.name, ":", role.size);
  });
}

absl::Status AnotherShape(const coord::CoordinatorOptions& job, const std::string& asked) {
  return WithReason(
      absl::AlreadyExistsError(absl::StrFormat("job '%s' already exists as %s=%s%s, not as %s: use "
                                               "that one, delete it first, or choose another name",
                                               job.job, job.job, ShapeOf(job),
                                               job.recoverable ? " (recoverable)" : "", asked)),
      "job_exists");
}

bool SameRoles(const std::vector<coord::RoleOptions>& a, const std::vector<coord::RoleOptions>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.name == y.name && x.size == y.size;
  });
}

absl::StatusOr<JobOptions> OptionsOf(const wire::native::CreateJob& request) {
  JobOptions options{.name = request.job, .recoverable = request.recoverable, .temporary = true};
  int64_t size = 0;
  for (const wire::native::RoleSize& role : request.roles) {
    if (role.name.empty() || role.size < 1) {
      return Invalid("each role has a name and a size of 1 or more");
    }
    for (const coord::RoleOptions& other : options.roles) {
      if (other.name == role.name) {
        return Invalid(absl::StrCat("role '", role.name, "' comes twice"));
      }
    }
    options.roles.push_back({.name = role.name, .size = role.size});
    size += role.size;
  }
  if (request.roles.empty()) size = request.size;
  if (!request.roles.empty() && request.size != 0 && request.size != size) {
    return Invalid(absl::StrFormat("size %d, but the roles add up to %d", request.size, size));
  }
  if (size < 1 || size > kMembersMax) {
    return Invalid(absl::StrFormat("a job has 1 to %d members, not %d", kMembersMax, size));
  }
  options.size = static_cast<int32_t>(size);
  return options;
}

// Where several hosts share the state, another one may have written it: there the address was free,
// or there was such an address.
absl::Status ListenAgain(JobHost& job, const runtime::Address& address, bool may_move,
                         const std::string& host) {
  const absl::Status status = job.Listen(address);
  if (status.ok() || !may_move) return status;
  spdlog::warn(
      "job '{}': {}; choosing another address, which stock clients without an agent do not "
      "know",
      job.name(), std::string(status.message()));
  return ListenOnChosenPort(host, [&](const runtime::Address& at) { return job.Listen(at); });
}

}  // namespace

JobTable::JobTable(runtime::Loop& loop, const ServerOptions& options, CommitQueue& commits,
                   NativeListener& listener, EventFeed& feed, Counters& counters,
                   runtime::MemoryAccount& memory)
    : loop_(loop),
      options_(options),
      commits_(commits),
      listener_(listener),
      feed_(feed),
      counters_(counters),
      memory_(memory),
      restored_events_(options.events_max),
      set_aside_(commits, feed, memory),
      retiring_(loop, listener),
      sweep_(loop) {}

JobTable::~JobTable() {
  // What was never served has no calls that would need the loop.
  for (auto& [name, job] : jobs_) job->Shutdown();
}

std::unique_ptr<JobHost> JobTable::MakeHost(coord::CoordinatorOptions options) {
  const std::string name = options.job;
  net::StockListenerOptions stock = options_.listener;
  if (stock.tls && options_.member_uri) {
    stock.member_of_uris = [uri = *options_.member_uri,
                            name](const std::vector<std::string>& uris) {
      return uri.FindIn(name, uris);
    };
  }
  auto host = std::make_unique<JobHost>(loop_, std::move(options), commits_, listener_, feed_,
                                        counters_, memory_, options_.stores, std::move(stock),
                                        options_.journal_queue_bytes_max);
  host->outlet().OnMemberLost([this, name](const std::string& on, int64_t pid) {
    if (on_member_lost_) on_member_lost_(name, on, pid);
  });
  return host;
}

absl::Status JobTable::CheckRoom(const JobOptions& options) const {
  if (jobs_.size() + set_aside_.jobs().size() >= options_.jobs_max) {
    return WithReason(absl::ResourceExhaustedError(
                          absl::StrFormat("the server already has %d jobs (jobs_max): delete one",
                                          jobs_.size() + set_aside_.jobs().size())),
                      "limit_exceeded");
  }
  size_t members = 0;
  for (const auto& [name, job] : jobs_) members += static_cast<size_t>(job->size());
  const auto size = static_cast<size_t>(options.size);
  if (members + size > options_.members_total_max) {
    return WithReason(absl::ResourceExhaustedError(absl::StrFormat(
                          "a job of %d members does not fit: the server's jobs already have %d "
                          "(members_total_max %d); delete a job, or make this one smaller",
                          size, members, options_.members_total_max)),
                      "limit_exceeded");
  }
  const size_t bytes = kJobBytes + size * kMemberBytes;
  if (memory_.HasRoom(bytes)) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(memory_.Refusal(bytes)), "memory_max");
}

absl::StatusOr<JobHost*> JobTable::Add(const JobOptions& options) {
  if (draining_) return absl::UnavailableError("the server is shutting down");
  if (absl::Status status = CheckJobName(options.name); !status.ok()) return status;
  if (jobs_.contains(options.name)) {
    return WithReason(absl::AlreadyExistsError(absl::StrCat("job '", options.name, "' exists")),
                      "job_exists");
  }
  if (absl::Status status = set_aside_.Check(options.name); !status.ok()) return status;
  if (absl::Status status = CheckRoom(options); !status.ok()) return status;
  std::unique_ptr<JobHost> job = MakeHost(CoordinatorOf(options, options_));
  const runtime::Address address =
      options.address.value_or(runtime::Address{.host = HostOfStockClients(options_), .port = 0});
  const auto listen = [&](const runtime::Address& at) { return job->Listen(at); };
  absl::Status status =
      address.port == 0 ? ListenOnChosenPort(address.host, listen) : listen(address);
  if (status.ok()) status = job->ListenForTorch();
  if (!status.ok()) return status;
  job->life().temporary = options.temporary;
  if (commits_.keeps()) {
    std::string entry = journal::NewEntry();
    wire::store::EncodeJob(job->saved(), absl::Now(), entry);
    commits_.Commit(std::move(entry), [](bool) {});
  }
  job->stores().Keep();
  return jobs_.emplace(options.name, std::move(job)).first->second.get();
}

absl::Status JobTable::Restore(const wire::store::ReadEntry& entry) {
  if (entry.job.empty()) {
    return absl::InvalidArgumentError(
        "an entry that belongs neither to a job nor to the data service: a newer version wrote it; "
        "use that version, or move the directory away");
  }
  if (entry.deleted) {
    restored_.erase(entry.job);
    restored_events_.Erase(entry.job);
    jobs_.erase(entry.job);
    set_aside_.Erase(entry.job);
    return absl::OkStatus();
  }
  if (set_aside_.contains(entry.job)) return absl::OkStatus();
  const absl::Status status = entry.unfit.ok() ? Apply(entry) : entry.unfit;
  // Nobody else has to suffer from it.
  if (!status.ok()) {
    SetAsideUnfit(entry.job, {status.message().data(), status.message().size()});
  }
  return absl::OkStatus();
}

absl::Status JobTable::Apply(const wire::store::ReadEntry& entry) {
  if (entry.created) {
    const wire::store::Job& job = *entry.created;
    coord::CoordinatorOptions options = CoordinatorOf(
        {.name = job.name, .size = job.size, .roles = job.roles, .recoverable = job.recoverable},
        options_);
    options.incarnation_seed = job.incarnation_seed;
    std::unique_ptr<JobHost> host = MakeHost(std::move(options));
    host->life().temporary = job.temporary;
    host->life().restored = true;
    if (job.name != entry.job || !jobs_.emplace(job.name, std::move(host)).second) {
      return absl::InvalidArgumentError("the job is created twice");
    }
    restored_[job.name] = {.host = job.host, .port = job.port};
  }
  const auto found = jobs_.find(entry.job);
  if (found == jobs_.end()) return absl::InvalidArgumentError("the job was never created");
  for (const coord::TimedRecord& record : entry.records) {
    if (absl::Status status = found->second->Apply(record); !status.ok()) return status;
  }
  for (const tcpstore::Record& record : entry.torch) {
    absl::Status status = found->second->stores().Apply(record);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("torch's store: ", std::string(status.message())));
    }
  }
  restored_events_.Add(entry.job, entry.events);
  return absl::OkStatus();
}

void JobTable::SetAside(const std::string& name, std::string why) {
  restored_.erase(name);
  restored_events_.Erase(name);
  jobs_.erase(name);
  set_aside_.Add(name, std::move(why));
}

void JobTable::SetAsideUnfit(const std::string& name, std::string_view why) {
  SetAside(name, absl::StrCat("its records in the state directory cannot be used: ",
                              absl::string_view(why.data(), why.size())));
}

absl::Status JobTable::CheckRestored(const JobHost& job, const JobOptions& options) const {
  const coord::CoordinatorOptions& is = job.options();
  if (is.size == options.size && SameRoles(is.roles, options.roles) &&
      is.recoverable == options.recoverable) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("the state directory has this job as %s%s: use that shape, delete the job "
                      "(`lockstep job delete %s`), or choose another name or --state",
                      ShapeOf(is), is.recoverable ? " (recoverable)" : "", is.job));
}

// One that the command line names anew counts.
runtime::Address JobTable::AddressOf(const std::string& name) const {
  for (const JobOptions& options : options_.jobs) {
    if (options.name == name && options.address && options.address->port != 0) {
      return *options.address;
    }
  }
  return restored_.at(name);
}

absl::Status JobTable::TakeAddresses() {
  std::vector<std::pair<std::string, std::string>> without;
  for (const auto& [name, had] : restored_) {
    const runtime::Address address = AddressOf(name);
    if (!AllowsStockNetwork(options_)) {
      if (absl::Status status =
              runtime::CheckLoopback(loop_.io(), address, "--insecure-stock-network");
          !status.ok()) {
        return absl::Status(status.code(), absl::StrFormat("job '%s' of the state directory: %s",
                                                           name, std::string(status.message())));
      }
    }
    JobHost& job = *jobs_.at(name);
    const absl::Status own = ListenAgain(job, address, /*may_move=*/options_.etcd && address == had,
                                         HostOfStockClients(options_));
    const absl::Status torch = own.ok() ? job.ListenForTorch() : absl::OkStatus();
    if (own.ok() && torch.ok()) continue;
    job.Shutdown();
    std::string why(torch.message());
    if (!own.ok()) {
      why = absl::StrFormat(
          "%s (its clients know no other address: restart the server when the address is free, or "
          "with --job %s=%s@HOST:PORT)",
          std::string(own.message()), name, ShapeOf(job.options()));
    }
    without.emplace_back(name, std::move(why));
  }
  for (auto& [name, why] : without) SetAside(name, std::move(why));
  return absl::OkStatus();
}

void JobTable::Resume() {
  restored_events_.TellTo(feed_);
  set_aside_.Tell();
  for (const auto& [name, address] : restored_) {
    JobHost& job = *jobs_.at(name);
    job.stores().Keep();
    job.Handle(coord::Restored{});
  }
  restored_.clear();
  ArmSweep();
}

JobHost* JobTable::Find(const std::string& name) const {
  const auto found = jobs_.find(name);
  return found == jobs_.end() ? nullptr : found->second.get();
}

absl::StatusOr<JobHost*> JobTable::Get(const std::string& name, Others others) const {
  if (JobHost* job = Find(name)) return job;
  if (absl::Status status = set_aside_.Check(name); !status.ok()) return status;
  if (others == Others::kNotNamed) return Unknown(name, "");
  std::vector<std::string> known;
  for (const auto& [other, job] : jobs_) {
    if (known.size() < kNamesInTextMax) known.push_back(other);
  }
  std::string text = known.empty() ? "none" : absl::StrJoin(known, ", ");
  if (jobs_.size() > known.size())
    absl::StrAppend(&text, " +", jobs_.size() - known.size(), " more");
  return Unknown(name, absl::StrCat("; its jobs: ", text));
}

void JobTable::Start(JobHost& job) {
  job.Start();
  const bool again = job.life().restored;
  job.outlet().TellServed(
      absl::StrFormat("job '%s' of %s is served%s; stock clients call %s", job.name(),
                      ShapeOf(job.options()), again ? " again after a restart of the server" : "",
                      job.grpc_address()),
      again);
}

absl::Status JobTable::CheckNamed(const JobOptions& options) const {
  for (const JobOptions& named : options_.jobs) {
    if (named.name != options.name) continue;
    if (named.size == options.size && SameRoles(named.roles, options.roles) &&
        named.recoverable == options.recoverable) {
      return absl::OkStatus();
    }
    const coord::CoordinatorOptions is = CoordinatorOf(named, options_);
    return WithReason(
        absl::FailedPreconditionError(absl::StrFormat(
            "the server's command line has job '%s' as %s%s, and would not start again with "
            "another shape: create it in that shape, or choose another name",
            is.job, ShapeOf(is), is.recoverable ? " (recoverable)" : "")),
        "job_exists");
  }
  return absl::OkStatus();
}

absl::StatusOr<JobHost*> JobTable::Make(JobOptions options) {
  if (options_.no_client_jobs) {
    return WithReason(absl::PermissionDeniedError(
                          absl::StrFormat("no job '%s': this server creates no jobs for clients "
                                          "(--no-client-jobs); start the server with --job for it",
                                          options.name)),
                      "client_jobs_off");
  }
  if (absl::Status status = CheckNamed(options); !status.ok()) return status;
  auto job = Add(options);
  if (!job.ok()) return job.status();
  Start(**job);
  ArmSweep();
  return job;
}

bool JobTable::Knows(const wire::native::OpenSession& request) const {
  const JobHost* const job = Find(request.job);
  const auto session = wire::native::ToSessionId(request.session);
  return job != nullptr && session.ok() && job->coordinator().Knows(*session);
}

absl::StatusOr<NativeJob*> JobTable::Open(const wire::native::OpenSession& request,
                                          const link::Rights& rights) {
  if (JobHost* job = Find(request.job)) {
    const coord::CoordinatorOptions& is = job->options();
    if (!request.resume && request.create_size != 0 && request.create_size != is.size) {
      return AnotherShape(is, absl::StrCat(request.create_size));
    }
    return job;
  }
  if (request.create_size == 0) {
    return Get(request.job, rights.job.empty() ? Others::kNamed : Others::kNotNamed).status();
  }
  if (rights.role == wire::native::Role::kTask) {
    return WithReason(
        absl::PermissionDeniedError(absl::StrFormat(
            "there is no job '%s', and a token of role task may not create it: run `lockstep job "
            "create`, start the server with --job, or use a token of role launch",
            request.job)),
        "not_permitted");
  }
  auto options = OptionsOf({.job = request.job, .size = request.create_size});
  if (!options.ok()) return options.status();
  return Make(*std::move(options));
}

absl::StatusOr<wire::native::CreateJobReply> JobTable::Create(
    const wire::native::CreateJob& request) {
  auto options = OptionsOf(request);
  if (!options.ok()) return options.status();
  if (JobHost* job = Find(request.job)) {
    const coord::CoordinatorOptions& is = job->options();
    if (is.size == options->size && SameRoles(is.roles, options->roles) &&
        is.recoverable == options->recoverable) {
      return wire::native::CreateJobReply{
          .created = false, .grpc = job->grpc_address(), .store = job->stores().address()};
    }
    const coord::CoordinatorOptions asked = CoordinatorOf(*options, options_);
    return AnotherShape(is, ShapeOf(asked) + (asked.recoverable ? " (recoverable)" : ""));
  }
  auto job = Make(*std::move(options));
  if (!job.ok()) return job.status();
  return wire::native::CreateJobReply{
      .created = true, .grpc = (*job)->grpc_address(), .store = (*job)->stores().address()};
}

absl::StatusOr<wire::native::JobStatus> JobTable::Summary(Time now, const std::string& name) const {
  const auto job = Get(name);
  if (!job.ok()) return job.status();
  auto status =
      wire::native::FromView(now, (*job)->coordinator().Summary(now), (*job)->grpc_address());
  status.stacks = (*job)->LastStacks(now);
  const StoreHost& stores = (*job)->stores();
  if (stores.address().empty()) return status;
  status.store = stores.address();
  status.torch_store =
      wire::native::FromStoreView(now, stores.View(), stores.attempt(), (*job)->size());
  return status;
}

absl::StatusOr<wire::native::OpenStoreReply> JobTable::OpenStore(
    const wire::native::OpenStore& request) {
  auto job = Get(request.job);
  if (!job.ok()) return job.status();
  if (request.attempt < 0) return Invalid("attempts are counted from 1");
  StoreHost& stores = (*job)->stores();
  const int64_t of_job = (*job)->coordinator().attempt();
  if (absl::Status status = stores.Open(request.attempt, of_job); !status.ok()) return status;
  return wire::native::OpenStoreReply{.attempt = stores.attempt(), .store = stores.address()};
}

absl::Status JobTable::Delete(const wire::native::DeleteJob& request) {
  if (set_aside_.contains(request.job)) {
    set_aside_.Delete(request.job);
    return absl::OkStatus();
  }
  const auto found = jobs_.find(request.job);
  if (found == jobs_.end()) return Get(request.job).status();
  const size_t connected = found->second->coordinator().CountConnected();
  if (connected > 0 && !request.force) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrFormat(
            "job '%s' has %d connected members, who would all fail: end it first, or delete it "
            "anyway (lockstep job delete --force)",
            request.job, connected)),
        "job_running");
  }
  Remove(found,
         WithReason(
             absl::NotFoundError(absl::StrFormat(
                 "job '%s' was deleted on request, with all its state: stop, or create it again",
                 request.job)),
             "job_deleted"));
  return absl::OkStatus();
}

void JobTable::Remove(Jobs::iterator found, const absl::Status& why) {
  std::unique_ptr<JobHost> job = std::move(found->second);
  jobs_.erase(found);
  JobHost* const host = &retiring_.Keep(std::move(job));
  host->Forget();
  const auto deleted = [this, host, why](bool /*durable*/) {
    feed_.TellOfJob(host->name(), wire::native::EventKind::kJobDeleted, std::string(why.message()));
    listener_.JobDeleted(*host, why);
    if (on_deleted_) on_deleted_(host->name(), why);
    host->Stop();
    feed_.JobDeleted(host->name(), why);
    retiring_.Begin(*host);
  };
  if (!commits_.keeps()) return commits_.Follow(deleted);
  std::string entry = journal::NewEntry();
  wire::store::EncodeJobDeleted(host->name(), absl::Now(), entry);
  commits_.Commit(std::move(entry), deleted);
}

void JobTable::Drain(std::function<void()> done) {
  draining_ = true;
  sweep_.Cancel();
  for (auto& [name, job] : jobs_) job->Stop();
  for (auto& [name, job] : jobs_) {
    JobHost& host = retiring_.Keep(std::move(job));
    // What was answered before may wait for the journal.
    commits_.Follow([this, &host](bool /*durable*/) { retiring_.Begin(host); });
  }
  jobs_.clear();
  retiring_.WhenNone(std::move(done));
}

bool JobTable::InUse(JobHost& job) const {
  return job.CountStockConnections() > 0 || job.stores().connections() > 0 ||
         listener_.CountSessions(job) > 0;
}

void JobTable::ArmSweep() {
  const bool any = std::any_of(jobs_.begin(), jobs_.end(),
                               [](const auto& entry) { return entry.second->life().temporary; });
  if (!any || options_.idle_job_timeout == absl::InfiniteDuration()) return sweep_.Cancel();
  sweep_.Arm(runtime::MonotonicNow() + options_.idle_job_timeout / kSweepsPerIdleTimeout,
             [this] { Sweep(); });
}

void JobTable::Sweep() {
  const Time now = runtime::MonotonicNow();
  for (auto next = jobs_.begin(); next != jobs_.end();) {
    const auto entry = next++;
    JobHost& job = *entry->second;
    if (!job.life().temporary) continue;
    if (InUse(job)) {
      job.life().last_used = now;
    } else if (now - job.life().last_used >= options_.idle_job_timeout) {
      const std::string idle = absl::FormatDuration(options_.idle_job_timeout);
      Remove(entry,
             WithReason(absl::NotFoundError(absl::StrFormat(
                            "job '%s' was deleted: nobody used it for %s (--idle-job-timeout)",
                            job.name(), idle)),
                        "job_deleted"));
    }
  }
  ArmSweep();
}

}  // namespace lockstep::server

#include "lockstep/server/server.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/link/native_service.h"
#include "lockstep/server/listen_address.h"
#include "lockstep/server/native_requests.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/from_view.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

uint64_t RandomNumber() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

absl::Status UnknownJob(const std::string& name,
                        const std::vector<std::unique_ptr<JobHost>>& jobs) {
  const std::string known =
      absl::StrJoin(jobs, ", ", [](std::string* out, const std::unique_ptr<JobHost>& job) {
        absl::StrAppend(out, job->name());
      });
  return wire::native::WithReason(
      absl::NotFoundError(absl::StrCat("this server has no job '", name, "'; its jobs: ", known)),
      "unknown_job");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(options));
  if (absl::Status status = server->StartLink(); !status.ok()) return status;
  if (absl::Status status = server->StartJobs(); !status.ok()) return status;
  return server;
}

Server::Server(const ServerOptions& options)
    : options_(options),
      started_(runtime::MonotonicNow()),
      signals_(loop_.io()),
      ready_file_(options.ready_file) {}

Server::~Server() {
  // What was started but never run has no calls that would need the loop.
  for (const std::unique_ptr<JobHost>& job : jobs_) job->Shutdown();
}

absl::Status Server::StartLink() {
  if (!options_.insecure_network) {
    absl::Status status = CheckLoopback(loop_.io(), options_.listen);
    if (!status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("--listen ", std::string(status.message())));
    }
  }
  link::NativeService service = {
      .status = [this](const wire::native::StatusRequest& request) { return Status(request); },
      .report = [this](const wire::native::ProcessReport& report) { return Report(report); }};
  link::Server::Options options;
  options.listen = runtime::ToString(options_.listen);
  options.connections_max = options_.links_max;
  options.link = options_.link;
  options.service_instance = RandomNumber();
  options.notice = [](std::string text) { spdlog::warn("link: {}", text); };
  auto link =
      link::Server::Listen(loop_, std::move(options), link::MakeHandler(std::move(service)));
  if (!link.ok()) {
    return absl::Status(link.status().code(),
                        absl::StrCat("--listen: ", std::string(link.status().message())));
  }
  link_ = *std::move(link);
  return absl::OkStatus();
}

absl::Status Server::StartJobs() {
  for (const JobOptions& options : options_.jobs) {
    if (absl::Status status = StartJob(options); !status.ok()) {
      return absl::Status(
          status.code(), absl::StrCat("--job ", options.name, ": ", std::string(status.message())));
    }
  }
  // Only when all addresses are ours: what has started has to be shut down again.
  for (const std::unique_ptr<JobHost>& job : jobs_) {
    if (absl::Status status = job->Start(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Server::StartJob(const JobOptions& options) {
  coord::CoordinatorOptions coordinator = options_.coordinator;
  coordinator.job = options.name;
  coordinator.size = options.size;
  coordinator.recoverable = options.recoverable;
  coordinator.incarnation_seed = RandomNumber();

  runtime::Address address =
      options.address.value_or(runtime::Address{.host = options_.listen.host, .port = 0});
  if (!options_.insecure_network) {
    if (absl::Status status = CheckLoopback(loop_.io(), address); !status.ok()) return status;
  }
  auto job = std::make_unique<JobHost>(loop_, std::move(coordinator), options_.door);
  const auto listen = [&](const runtime::Address& at) { return job->Listen(at); };
  absl::Status status =
      address.port == 0 ? ListenOnChosenPort(address.host, listen) : listen(address);
  if (status.ok()) jobs_.push_back(std::move(job));
  return status;
}

std::vector<std::string> Server::AddressLines() const {
  std::vector<std::string> lines;
  lines.push_back(
      absl::StrFormat("lockstep-server %s answers at %s", LOCKSTEP_VERSION, link_->address()));
  for (const std::unique_ptr<JobHost>& job : jobs_) {
    lines.push_back(absl::StrFormat("job '%s' of %d: stock JAX clients call %s", job->name(),
                                    job->size(), job->grpc_address()));
  }
  return lines;
}

absl::Status Server::Run() {
  std::map<std::string, std::string> grpc_of_job;
  for (const std::unique_ptr<JobHost>& job : jobs_) grpc_of_job[job->name()] = job->grpc_address();
  // Whoever calls from here on is answered: the addresses are taken and the loop is about to run.
  absl::Status status = ready_file_.Write(ReadyText(link_->address(), getpid(), grpc_of_job));
  if (!status.ok()) Drain();
  loop_.Run();
  for (std::thread& shutdown : shutdowns_) shutdown.join();
  shutdowns_.clear();
  return status;
}

void Server::Drain() {
  loop_.Post([this] { BeginDrain(); });
}

void Server::DrainOnSignals() {
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  AwaitSignal();
}

void Server::AwaitSignal() {
  signals_.async_wait([this](const asio::error_code& error, int signal) {
    if (error) return;
    if (draining_) std::_Exit(128 + signal);
    spdlog::info("signal {}: draining; a second one ends the server at once", signal);
    BeginDrain();
    AwaitSignal();
  });
}

void Server::BeginDrain() {
  if (draining_) return;
  draining_ = true;
  parts_to_drain_ = jobs_.size() + 1;
  for (const std::unique_ptr<JobHost>& job : jobs_) job->Stop();
  link_->Drain([this] { PartDrained(); });
  // The loop has to go on while gRPC sends what was answered, so each job ends on a thread.
  for (const std::unique_ptr<JobHost>& job : jobs_) {
    shutdowns_.emplace_back([this, job = job.get()] {
      job->Shutdown();
      loop_.Post([this] { PartDrained(); });
    });
  }
}

void Server::PartDrained() {
  if (--parts_to_drain_ > 0) return;
  loop_.Stop();
}

const JobHost* Server::FindJob(const std::string& name) const {
  for (const std::unique_ptr<JobHost>& job : jobs_) {
    if (job->name() == name) return job.get();
  }
  return nullptr;
}

JobHost* Server::JobNamed(const std::string& name) {
  return const_cast<JobHost*>(std::as_const(*this).FindJob(name));
}

absl::StatusOr<wire::native::StatusReply> Server::Status(
    const wire::native::StatusRequest& request) {
  if (request.job && JobNamed(*request.job) == nullptr) return UnknownJob(*request.job, jobs_);
  const Time now = runtime::MonotonicNow();
  wire::native::StatusReply reply;
  reply.server = {.version = LOCKSTEP_VERSION,
                  .pid = getpid(),
                  .started_ago_us = absl::ToInt64Microseconds(now - started_),
                  .listen = link_->address()};
  for (const std::unique_ptr<JobHost>& job : jobs_) {
    if (request.job && *request.job != job->name()) continue;
    reply.jobs.push_back(wire::native::FromView(now, job->View(), job->grpc_address()));
  }
  return reply;
}

absl::Status Server::Report(const wire::native::ProcessReport& report) {
  JobHost* job = JobNamed(report.job);
  if (job == nullptr) return UnknownJob(report.job, jobs_);
  absl::StatusOr<coord::Event> event = EventOf(report, job->size());
  if (!event.ok()) return event.status();
  job->Handle(*event);
  return absl::OkStatus();
}

}  // namespace lockstep::server

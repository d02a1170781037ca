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
#include "lockstep/wire/native/to_event.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

uint64_t RandomNumber() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
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
      ready_file_(options.ready_file),
      native_([this](const wire::native::OpenSession& request) { return jobs_.Open(request); },
              [this](link::LinkId link, absl::Status why) {
                link_->Close(link, std::move(why), "superseded");
              }),
      jobs_(loop_, options_, native_) {}

Server::~Server() = default;

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
      .report = [this](const wire::native::ProcessReport& report) { return Report(report); },
      .create_job =
          [this](const wire::native::CreateJob& request) { return jobs_.Create(request); },
      .delete_job =
          [this](const wire::native::DeleteJob& request) { return jobs_.Delete(request); }};
  link::ServerEvents events;
  events.request = [this, others = link::MakeHandler(std::move(service))](
                       link::Request request, link::Responder responder) {
    if (wire::native::IsSessionRequest(request.kind)) {
      return native_.Take(std::move(request), std::move(responder));
    }
    others(std::move(request), std::move(responder));
  };
  events.cancelled = [this](link::LinkId link, uint64_t id) { native_.Cancelled(link, id); };
  events.answered = [this](link::LinkId link, uint64_t id) { native_.Answered(link, id); };
  events.ended = [this](link::LinkId link, bool by_peer) { native_.Ended(link, by_peer); };
  link::Server::Options options;
  options.listen = runtime::ToString(options_.listen);
  options.connections_max = options_.links_max;
  options.link = options_.link;
  options.service_instance = RandomNumber();
  options.notice = [](std::string text) { spdlog::warn("{}", text); };
  auto link = link::Server::Listen(loop_, std::move(options), std::move(events));
  if (!link.ok()) {
    return absl::Status(link.status().code(),
                        absl::StrCat("--listen: ", std::string(link.status().message())));
  }
  link_ = *std::move(link);
  return absl::OkStatus();
}

absl::Status Server::StartJobs() {
  for (const JobOptions& options : options_.jobs) {
    absl::Status status;
    if (options.address && !options_.insecure_network) {
      status = CheckLoopback(loop_.io(), *options.address);
    }
    if (status.ok()) status = jobs_.Add(options).status();
    if (!status.ok()) {
      return absl::Status(
          status.code(), absl::StrCat("--job ", options.name, ": ", std::string(status.message())));
    }
  }
  // Only when all addresses are ours: what has started has to be shut down again.
  for (const auto& [name, job] : jobs_.jobs()) job->Start();
  return absl::OkStatus();
}

std::vector<std::string> Server::AddressLines() const {
  std::vector<std::string> lines;
  lines.push_back(
      absl::StrFormat("lockstep-server %s answers at %s", LOCKSTEP_VERSION, link_->address()));
  for (const auto& [name, job] : jobs_.jobs()) {
    lines.push_back(absl::StrFormat("job '%s' of %d: stock JAX clients call %s", job->name(),
                                    job->size(), job->grpc_address()));
  }
  return lines;
}

absl::Status Server::Run() {
  std::map<std::string, std::string> grpc_of_job;
  for (const auto& [name, job] : jobs_.jobs()) grpc_of_job[name] = job->grpc_address();
  // Whoever calls from here on is answered: the addresses are taken and the loop is about to run.
  absl::Status status = ready_file_.Write(ReadyText(link_->address(), getpid(), grpc_of_job));
  if (!status.ok()) Drain();
  loop_.Run();
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
  parts_to_drain_ = 2;
  jobs_.Drain([this] { PartDrained(); });
  link_->Drain([this] { PartDrained(); });
}

void Server::PartDrained() {
  if (--parts_to_drain_ > 0) return;
  loop_.Stop();
}

absl::StatusOr<wire::native::StatusReply> Server::Status(
    const wire::native::StatusRequest& request) {
  if (request.job) {
    if (auto job = jobs_.Get(*request.job); !job.ok()) return job.status();
  }
  const Time now = runtime::MonotonicNow();
  wire::native::StatusReply reply;
  reply.server = {.version = LOCKSTEP_VERSION,
                  .pid = getpid(),
                  .started_ago_us = absl::ToInt64Microseconds(now - started_),
                  .listen = link_->address()};
  for (const auto& [name, job] : jobs_.jobs()) {
    if (request.job && *request.job != job->name()) continue;
    reply.jobs.push_back(wire::native::FromView(now, job->View(), job->grpc_address()));
  }
  return reply;
}

absl::Status Server::Report(const wire::native::ProcessReport& report) {
  auto job = jobs_.Get(report.job);
  if (!job.ok()) return job.status();
  absl::StatusOr<coord::Event> event = EventOf(report, (*job)->size());
  if (!event.ok()) return event.status();
  (*job)->Handle(*std::move(event));
  return absl::OkStatus();
}

}  // namespace lockstep::server

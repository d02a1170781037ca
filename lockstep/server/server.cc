#include "lockstep/server/server.h"

#include <unistd.h>

#include <algorithm>
#include <future>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/link/native_service.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loopback.h"
#include "lockstep/platform/runtime/reached_at.h"
#include "lockstep/server/http_admission.h"
#include "lockstep/server/listen_address.h"
#include "lockstep/server/native_requests.h"
#include "lockstep/server/saved_state.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_view.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/from_view.h"
#include "lockstep/wire/native/last_attempt.h"
#include "lockstep/wire/native/to_event.h"
#include "lockstep/wire/native/utf8.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

// Of a server that a signal did not end in time.
constexpr int kExitNotDrained = 1;

// Of the memory, for gRPC.
constexpr size_t kGrpcPart = 4;
// Holders of memory that a status names.
constexpr size_t kHoldersShown = 16;

ServerOptions Complete(ServerOptions options) {
  if (options.certificate_directory.empty()) {
    options.certificate_directory = options.state_directory;
  }
  options.stores.moves = options.etcd.has_value();
  if (options.memory_max == 0) options.memory_max = runtime::MemoryOfProcess() / 2;
  // So that several are lost before the host is.
  constexpr int kPingsInTime = 6;
  options.hosts.interval = std::min(options.hosts.interval, options.hosts.timeout / kPingsInTime);
  options.listener.budget = std::make_shared<net::GrpcBudget>(options.memory_max / kGrpcPart);
  return options;
}

wire::native::EventSeverity SeverityOf(dispatch::Severity severity) {
  switch (severity) {
    case dispatch::Severity::kInfo:
      return wire::native::EventSeverity::kInfo;
    case dispatch::Severity::kWarning:
      return wire::native::EventSeverity::kWarning;
    case dispatch::Severity::kError:
      break;
  }
  return wire::native::EventSeverity::kError;
}

// Where the job's service listens that a tunnel leads to, as this host reaches it.
absl::StatusOr<runtime::Address> AddressFor(const wire::native::OpenTunnel& asked,
                                            const JobHost& job) {
  using wire::native::StockService;
  std::string address;
  if (asked.service == StockService::kCoordination) {
    address = job.grpc_address();
  } else if (asked.service == StockService::kTorchStore) {
    const int64_t current = job.stores().attempt();
    if (asked.attempt != 0 && asked.attempt != current) {
      return wire::native::WithReason(
          absl::FailedPreconditionError(
              absl::StrFormat("attempt %d of job '%s' has no store: the store is attempt %d's",
                              asked.attempt, job.name(), current)),
          "attempt_over");
    }
    address = job.stores().address();
  }
  if (address.empty()) {
    return wire::native::WithReason(
        absl::UnavailableError(absl::StrFormat(
            "job '%s' does not offer this service to stock clients (StockService %d)", job.name(),
            static_cast<int>(asked.service))),
        "no_stock_service");
  }
  return runtime::ParseAddress(runtime::ReachedAt(address, "127.0.0.1:0"));
}

// Whose token is for one job is told when that is not there, but not which others are.
absl::Status CheckThere(const JobTable& jobs, const link::Request& request) {
  if (request.rights.job.empty()) return absl::OkStatus();
  switch (request.kind) {
    case wire::native::KindOf<wire::native::StatusRequest>::kKind:
    case wire::native::KindOf<wire::native::ProcessReport>::kKind:
    case wire::native::KindOf<wire::native::DeleteJob>::kKind:
    case wire::native::KindOf<wire::native::WatchEvents>::kKind:
    case wire::native::KindOf<wire::native::OpenStore>::kKind:
    case wire::native::KindOf<wire::native::PollNodeGroup>::kKind:
    case wire::native::KindOf<wire::native::TellNodeGroup>::kKind:
      // That it is about this job was checked with the rights.
      return jobs.Get(request.rights.job, JobTable::Others::kNotNamed).status();
    default:
      return absl::OkStatus();
  }
}

// What follows from the loss of a host, for its job and for the launchers of that.
HostTable::Callbacks ToldOfHosts(JobTable& jobs, NativeListener& native, NodeGroupHost& launchers) {
  const auto lost = [&jobs, &native, &launchers](const HostTable::Loss& loss) {
    const std::string text = absl::StrCat("host ", loss.name, " has not been heard for ",
                                          coord::FormatSpan(loss.unheard));
    if (JobHost* const job = jobs.Find(loss.job)) {
      job->outlet().Tell(
          {.severity = coord::Severity::kError,
           .text = absl::StrCat("job '", loss.job, "': ", text, "; it is given up")});
      native.Ended(*job, loss.agent,
                   wire::native::WithReason(absl::UnavailableError(text), "host_lost"));
      job->Handle(coord::HostLost{.agent = loss.agent, .host = loss.name, .unheard = loss.unheard});
    }
    launchers.HostLost(loss.job, loss.node, text);
  };
  return {.lost = lost, .stopped = [&launchers](const HostTable::Loss& loss) {
            launchers.HostStopped(loss.job, loss.node);
          }};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  auto server = Listen(options);
  if (!server.ok()) return server;
  if (absl::Status status = (*server)->WriteReadyFile(); !status.ok()) return status;
  const MutexLock lock((*server)->running_mutex_);
  (*server)->runner_ = std::thread([server = server->get()] { server->loop_.Run(); });
  return server;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(options));
  if (absl::Status status = server->OpenState(); !status.ok()) return status;
  if (absl::Status status = server->StartLink(); !status.ok()) return status;
  if (absl::Status status = server->StartJobs(); !status.ok()) return status;
  if (absl::Status status = server->StartHttp(); !status.ok()) return status;
  return server;
}

Server::Server(const ServerOptions& options)
    : options_(Complete(options)),
      started_(runtime::MonotonicNow()),
      memory_(options_.memory_max, /*names_owners=*/!TakesTokens(options_)),
      ready_file_(options.ready_file),
      commits_(loop_, &memory_),
      held_answers_(std::make_shared<HeldAnswers>(commits_)),
      feed_(runtime::RandomNumber() | 1, options.events_max, &memory_),
      native_([this](const wire::native::OpenSession& request,
                     const link::Rights& rights) { return jobs_.Open(request, rights); },
              [this](link::LinkId link, absl::Status why) {
                link_->Close(link, std::move(why), "superseded");
              },
              [this](const NativeJob& job, SessionId agent, link::LinkId link,
                     const wire::native::JoinHosts& asked) {
                // All jobs of a server are of that type.
                return hosts_->Join(static_cast<const JobHost&>(job).name(), agent, link, asked);
              },
              std::make_unique<FanOut>(loop_, &memory_, options_.fan_out)),
      jobs_(loop_, options_, commits_, native_, feed_, counters_, memory_),
      data_(loop_, options_.data, /*keeps=*/KeepsState(options_), commits_,
            options_.journal_queue_bytes_max, memory_,
            [this](dispatch::Severity severity, std::string text) {
              feed_.Tell(wire::native::EventKind::kDataService, std::move(text),
                         SeverityOf(severity));
            }),
      node_groups_(
          loop_, memory_,
          {.last_attempt = [this](const std::string& job) -> absl::StatusOr<int64_t> {
             const auto status = jobs_.Summary(runtime::MonotonicNow(), job);
             if (!status.ok()) return status.status();
             return wire::native::LastAttempt(*status);
           },
           .began =
               [this](const std::string& job, const coord::RunBegan& fact) {
                 if (JobHost* const host = jobs_.Find(job)) host->Handle(fact);
               },
           .tell =
               [this](const std::string& job, std::string text) {
                 const coord::LogEntry entry = {.text = std::move(text)};
                 JobHost* const host = jobs_.Find(job);
                 host != nullptr ? host->outlet().Tell(entry) : feed_.Tell(job, entry);
               },
           .grace = [this](const std::string& job,
                           node_group::NodeId node) { return hosts_->GraceOf(job, node); }}),
      status_(loop_, MakeStatusSource()) {
  jobs_.OnDeleted([this](const std::string& job, const absl::Status& why) {
    node_groups_.JobDeleted(job, why);
    if (hosts_ != nullptr) hosts_->JobDeleted(job);
  });
  jobs_.OnMemberLost([this](const std::string& job, const std::string& host, int64_t pid) {
    data_.MemberLost(job, TakesTokens(options_), host, pid);
  });
}

Server::~Server() { Stop(); }

void Server::Stop() {
  const MutexLock lock(running_mutex_);
  if (!runner_.joinable()) return;
  Drain();
  runner_.join();
}

bool Server::OnLoop(const std::function<void()>& function) {
  const MutexLock lock(running_mutex_);
  if (!runner_.joinable()) return false;
  std::promise<void> done;
  loop_.Post([&] {
    function();
    done.set_value();
  });
  done.get_future().wait();
  return true;
}

std::string Server::GrpcAddress(const std::string& job) {
  std::string address;
  OnLoop([&] {
    if (const JobHost* host = FindJob(job)) address = host->grpc_address();
  });
  return address;
}

absl::StatusOr<wire::native::StatusReply> Server::CurrentStatus() {
  std::promise<absl::StatusOr<StatusBoard::Bytes>> told;
  const bool runs = OnLoop([&] {
    status_.Ask(std::nullopt, [this, &told](absl::StatusOr<StatusBoard::Bytes> bytes) {
      commits_.Follow([&told, bytes = std::move(bytes)](bool durable) mutable {
        told.set_value(durable ? std::move(bytes)
                               : absl::UnavailableError(
                                     "the server cannot write its state and is shutting down"));
      });
    });
  });
  if (!runs) return absl::UnavailableError("the server has stopped");
  const auto bytes = told.get_future().get();
  if (!bytes.ok()) return bytes.status();
  return wire::native::Decode<wire::native::StatusReply>(**bytes);
}

absl::Status Server::OpenState() {
  auto journal = server::OpenState(options_, jobs_, data_);
  if (!journal.ok()) {
    return absl::Status(journal.status().code(),
                        absl::StrCat("--state: ", std::string(journal.status().message())));
  }
  if (*journal == nullptr) return absl::OkStatus();
  const auto failed = [this](absl::Status reason) {
    // Whoever leads now answers.
    if (absl::IsAborted(reason)) return loop_.Stop();
    spdlog::error("{}", std::string(reason.message()));
    BeginDrain();
  };
  absl::Status status = commits_.Keep(*std::move(journal), failed, [this] { return Snapshot(); });
  if (!status.ok()) return status;
  jobs_.Resume();
  data_.Resume();
  SayWhatWasThere();
  return absl::OkStatus();
}

// Whoever gave no --state may not expect jobs of an earlier server.
void Server::SayWhatWasThere() {
  constexpr size_t kNamedMax = 10;
  std::vector<std::string> names;
  for (const auto& [name, job] : jobs_.jobs()) {
    if (names.size() < kNamedMax) names.push_back(name);
  }
  if (names.empty()) return;
  const size_t more = jobs_.jobs().size() - names.size();
  spdlog::info("jobs from the state in {}: {}{}", PlaceOf(options_), absl::StrJoin(names, ", "),
               more == 0 ? "" : absl::StrCat(", +", more, " more"));
}

journal::SnapshotSource Server::Snapshot() const { return SnapshotOf(jobs_, data_); }

// `others` answers requests of the server itself that take nothing but a function.
void Server::Hand(link::Request&& request, link::Responder&& responder,
                  const link::Server::Handler& others) {
  if (absl::Status status = CheckThere(jobs_, request); !status.ok()) return responder.Fail(status);
  switch (wire::native::RouteOf(request.kind)) {
    case wire::native::Route::kDispatcher:
      return data_.Take(std::move(request), std::move(responder));
    case wire::native::Route::kLaunchers:
      // What launchers agree on is in no journal, so a server that does not lead may tell of it.
      return node_groups_.Take(request, options_.etcd ? held_answers_->Hold(std::move(responder))
                                                      : std::move(responder));
    case wire::native::Route::kSession:
      return native_.Take(std::move(request), std::move(responder));
    case wire::native::Route::kStock:
      return native_.TakeStock(request, std::move(responder));
    case wire::native::Route::kServer:
    case wire::native::Route::kWorker:
    case wire::native::Route::kUnspecified:
      break;
  }
  if (request.kind == wire::native::KindOf<wire::native::WatchEvents>::kKind) {
    return WatchEvents(request, std::move(responder));
  }
  if (request.kind == wire::native::KindOf<wire::native::StatusRequest>::kKind) {
    return TakeStatus(request, held_answers_->Hold(std::move(responder)));
  }
  if (request.kind == wire::native::KindOf<wire::native::ProcessReport>::kKind) Reports(request);
  others(std::move(request), held_answers_->Hold(std::move(responder)));
}

absl::Status Server::StartLink() {
  link::NativeService service = {
      .report = [this](const wire::native::ProcessReport& report,
                       const link::Rights& rights) { return Report(report, rights); },
      .create_job =
          [this](const wire::native::CreateJob& request) { return jobs_.Create(request); },
      .delete_job =
          [this](const wire::native::DeleteJob& request) { return jobs_.Delete(request); },
      .open_store =
          [this](const wire::native::OpenStore& request) { return jobs_.OpenStore(request); },
      .create_task_token =
          [this](const wire::native::CreateTaskToken& request, const link::Rights& rights) {
            return link_->CreateTaskToken(request.job, rights.until);
          }};
  link::ServerEvents events;
  events.request = [this, others = link::MakeHandler(std::move(service))](
                       link::Request&& request, link::Responder&& responder) {
    Hand(std::move(request), std::move(responder), others);
  };
  events.cancelled = [this](link::LinkId link, uint64_t id) {
    native_.Cancelled(link, id);
    data_.Cancelled(link, id);
    node_groups_.Cancelled(link, id);
  };
  events.answered = [this](link::LinkId link, uint64_t id) { native_.Answered(link, id); };
  events.ended = [this](link::LinkId link, bool by_peer) {
    native_.Ended(link, by_peer);
    data_.Ended(link);
    node_groups_.Ended(link, by_peer);
    hosts_->Ended(link, by_peer);
    reporters_.erase(link);
  };
  events.holds = [this](link::LinkId link) { return Holds(link); };
  events.leadership = [this] { return link::Leadership{.epoch = commits_.epoch()}; };
  events.resumes = [this](const link::Request& request) { return Resumes(request); };
  auto link = LinkListener::Listen(
      loop_, options_, memory_, std::move(events),
      [this](const wire::native::OpenTunnel& asked) -> absl::StatusOr<runtime::Address> {
        const auto job = jobs_.Get(asked.job, JobTable::Others::kNotNamed);
        if (!job.ok()) return job.status();
        return AddressFor(asked, **job);
      });
  if (!link.ok()) return link.status();
  link_ = *std::move(link);
  hosts_ = std::make_unique<HostTable>(loop_, memory_, link_->address(), options_.hosts,
                                       ToldOfHosts(jobs_, native_, node_groups_));
  return absl::OkStatus();
}

absl::Status Server::StartJobs() {
  for (const JobOptions& options : options_.jobs) {
    absl::Status status;
    if (options.address && !AllowsStockNetwork(options_)) {
      status = runtime::CheckLoopback(loop_.io(), *options.address, "--insecure-stock-network");
    }
    if (status.ok()) {
      // The server starts, and says so; the job comes back when it has been deleted and made again.
      if (jobs_.set_aside().contains(options.name)) continue;
      const JobHost* const restored = jobs_.Find(options.name);
      status = restored != nullptr ? jobs_.CheckRestored(*restored, options)
                                   : jobs_.Add(options).status();
    }
    if (!status.ok()) {
      return absl::Status(
          status.code(), absl::StrCat("--job ", options.name, ": ", std::string(status.message())));
    }
  }
  // Only when all addresses are ours: what has started has to be shut down again.
  for (const auto& [name, job] : jobs_.jobs()) jobs_.Start(*job);
  return absl::OkStatus();
}

absl::Status Server::StartHttp() {
  feed_.Tell(wire::native::EventKind::kServerStarted,
             absl::StrCat("lockstep-server ", LOCKSTEP_VERSION, " serves at ", link_->address()));
  if (!options_.http) return absl::OkStatus();
  auto access = AccessOfHttp(loop_.io(), options_, *link_);
  if (!access.ok()) return access.status();
  HttpSource source = {
      .view = [this](const std::string& job,
                     HttpSource::Viewed viewed) { View(job, std::move(viewed)); },
      .not_ready = [this] { return NotReady(); },
      .events = [this](const wire::native::WatchEvents& request)
          -> absl::StatusOr<wire::native::WatchEventsReply> {
        const absl::Status there = CheckFollowed(request.job, JobTable::Others::kNotNamed);
        if (!there.ok()) return there;
        return feed_.Read(request);
      },
      .when_durable = [this](HttpSource::Release release) { commits_.Follow(std::move(release)); }};
  HttpListener::Options listener{
      .listen = *options_.http, .names = options_.http_names, .allowed = options_.allowed};
  listener.memory = &memory_;
  listener.access = *std::move(access);
  listener.names.push_back(options_.http->host);
  auto http = HttpListener::Listen(loop_, std::move(listener), std::move(source));
  if (!http.ok()) {
    return absl::Status(http.status().code(),
                        absl::StrCat("--http: ", std::string(http.status().message())));
  }
  http_ = *std::move(http);
  return absl::OkStatus();
}

std::vector<std::string> Server::AddressLines() const {
  std::vector<std::string> lines;
  lines.push_back(
      absl::StrFormat("lockstep-server %s answers at %s", LOCKSTEP_VERSION, link_->address()));
  lines.push_back(absl::StrFormat("join string: %s", link_->JoinString("")));
  for (const auto& [name, job] : jobs_.jobs()) {
    lines.push_back(absl::StrFormat("job '%s' of %d: stock JAX clients call %s", job->name(),
                                    job->size(), job->grpc_address()));
    if (const std::string store = job->stores().address(); !store.empty()) {
      lines.push_back(
          absl::StrFormat("job '%s': PyTorch's clients call %s (MASTER_ADDR, "
                          "MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE=True)",
                          job->name(), store));
    }
  }
  if (http_) {
    lines.push_back(
        absl::StrFormat("%s://%s/metrics", http_->secure() ? "https" : "http", http_->address()));
  }
  return lines;
}

// Whoever calls from here on is answered: the addresses are taken and the loop is about to run.
absl::Status Server::WriteReadyFile() {
  std::map<std::string, JobAddresses> jobs;
  for (const auto& [name, job] : jobs_.jobs()) {
    jobs[name] = {.grpc = job->grpc_address(), .store = job->stores().address()};
  }
  return ready_file_.Write(ReadyText({.listen = link_->address(),
                                      .join = link_->JoinString(""),
                                      .pid = getpid(),
                                      .jobs = std::move(jobs),
                                      .http = http_address()}));
}

absl::Status Server::Run() {
  absl::Status status = WriteReadyFile();
  if (!status.ok()) Drain();
  loop_.Run();
  // What it asks the loop from here on is not answered any more.
  http_.reset();
  absl::Status kept = commits_.Close();
  // It was to end anyway, and another one leads already.
  if (drain_.begun && absl::IsAborted(kept)) kept = absl::OkStatus();
  return status.ok() ? kept : status;
}

void Server::Drain() {
  loop_.Post([this] { BeginDrain(); });
}

void Server::DrainOnSignals() {
  signals_ =
      std::make_unique<runtime::StopSignals>(loop_, [this](int signal) { BeginEnd(signal); });
}

void Server::BeginEnd(int signal) {
  spdlog::info("signal {}: shutting down; a second signal ends the server at once", signal);
  // Nothing is lost with what hangs: what was answered is durable.
  end_limit_ = std::make_unique<runtime::EndLimit>(
      options_.end_timeout, kExitNotDrained, [limit = options_.end_timeout] {
        spdlog::error(
            "the server did not shut down within {} (end_timeout) and exits now; everything it has "
            "answered is saved",
            absl::FormatDuration(limit));
        spdlog::shutdown();
      });
  BeginDrain();
}

void Server::BeginDrain() {
  if (drain_.begun) return;
  drain_ = {.begun = true, .parts_left = 2};
  data_.Stop();
  node_groups_.Stop();
  jobs_.Drain([this] { PartDrained(); });
  // After the answers that wait for the journal.
  commits_.Follow([this](bool /*durable*/) { link_->Drain([this] { PartDrained(); }); });
}

void Server::PartDrained() {
  if (--drain_.parts_left > 0) return;
  commits_.Follow([this](bool /*durable*/) { loop_.Stop(); });
}

StatusSource Server::MakeStatusSource() {
  return {
      .head =
          [this](Time now, bool of_all) {
            wire::native::StatusReply reply{
                .server = {.version = LOCKSTEP_VERSION,
                           .pid = getpid(),
                           .started_ago_us = absl::ToInt64Microseconds(now - started_),
                           .listen = link_->address(),
                           .memory = Memory()}};
            // Who holds memory is about all jobs, too.
            if (!of_all) reply.server.memory->holders.clear();
            if (!of_all) return reply;
            for (const auto& [name, job] : jobs_.set_aside().jobs()) {
              reply.set_aside.push_back({.job = name, .why = job.why, .kept_bytes = job.bytes});
            }
            return reply;
          },
      .jobs =
          [this] {
            std::vector<std::string> names;
            for (const auto& [name, job] : jobs_.jobs()) names.push_back(name);
            return names;
          },
      .job =
          [this](Time now, const std::string& name) {
            auto status = jobs_.Summary(now, name);
            const JobHost* const job = jobs_.Find(name);
            if (status.ok() && job != nullptr) hosts_->Show(job->coordinator(), *status);
            return status;
          },
      .members =
          [this](Time now, const std::string& name, std::optional<int64_t> attempt, int32_t first,
                 int32_t count, std::vector<wire::native::MemberStatus>& out) {
            JobHost* const job = jobs_.Find(name);
            if (job == nullptr || (attempt && *attempt != job->coordinator().attempt()))
              return false;
            for (int32_t i = first; i < std::min(first + count, job->size()); ++i) {
              out.push_back(wire::native::FromMember(now, job->members().At(now, MemberIndex(i))));
            }
            return true;
          }};
}

void Server::TakeStatus(const link::Request& request, link::Responder responder) {
  auto ask = wire::native::Decode<wire::native::StatusRequest>(request.payload);
  if (!ask.ok()) {
    return responder.Fail(wire::native::WithReason(ask.status(), "invalid_argument"));
  }
  ++counters_.status_requests;
  status_.Ask(std::move(ask->job),
              [responder = std::move(responder)](absl::StatusOr<StatusBoard::Bytes> bytes) mutable {
                if (!bytes.ok()) return responder.Fail(bytes.status());
                responder.Send({.failed = false, .bytes = "", .shared = *std::move(bytes)});
              });
}

wire::native::MemoryStatus Server::Memory() const {
  wire::native::MemoryStatus status = {.limit = static_cast<int64_t>(memory_.limit()),
                                       .held = static_cast<int64_t>(memory_.held())};
  for (runtime::MemoryAccount::Holder& holder : memory_.Owners(kHoldersShown)) {
    status.holders.push_back({.owner = wire::native::ToUtf8(holder.owner),
                              .part = wire::native::ToUtf8(holder.part),
                              .bytes = static_cast<int64_t>(holder.bytes)});
  }
  return status;
}

bool Server::Resumes(const link::Request& request) const {
  if (request.kind != wire::native::KindOf<wire::native::OpenSession>::kKind) return false;
  const auto open = wire::native::Decode<wire::native::OpenSession>(request.payload);
  return open.ok() && open->resume && jobs_.Knows(*open);
}

void Server::WatchEvents(const link::Request& request, link::Responder responder) {
  const auto ask = wire::native::Decode<wire::native::WatchEvents>(request.payload);
  if (!ask.ok()) {
    return responder.Fail(wire::native::WithReason(ask.status(), "invalid_argument"));
  }
  // A token for one job came no further, if that job is not there.
  if (absl::Status status = CheckFollowed(ask->job, JobTable::Others::kNamed); !status.ok()) {
    return responder.Fail(status);
  }
  feed_.Watch(*ask, std::move(responder));
}

absl::Status Server::CheckFollowed(const std::string& job, JobTable::Others others) const {
  return job.empty() ? absl::OkStatus() : jobs_.Get(job, others).status();
}

std::vector<std::string> Server::NotReady() const {
  if (!drain_.begun) return {};
  return {"the server is shutting down"};
}

void Server::View(const std::string& job, HttpSource::Viewed viewed) {
  StatusBoard::Wish wish;
  if (!job.empty()) {
    const auto there = jobs_.Get(job, JobTable::Others::kNotNamed);
    if (!there.ok()) return viewed(there.status());
    wish = job;
  }
  ++counters_.status_requests;
  status_.Ask(std::move(wish), [this, job, viewed = std::move(viewed)](
                                   absl::StatusOr<StatusBoard::Bytes> bytes) mutable {
    if (!bytes.ok()) return viewed(bytes.status());
    auto view = std::make_shared<ServerView>(
        ServerView{.at = runtime::MonotonicNow(),
                   .encoded_status = *std::move(bytes),
                   .counters = counters_,
                   .fan_out = native_.fan_out()->counts(),
                   .memory = memory_.Parts(),
                   .links = link_->connections(),
                   .data = {.polls_of_workers = data_.counters().polls_of_workers,
                            .polls_of_consumers = data_.counters().polls_of_consumers,
                            .refused = data_.counters().refused,
                            .records = data_.counters().records},
                   .not_ready = NotReady(),
                   .longest_turn = loop_.turns().longest(),
                   .turns = loop_.turns().turns()});
    if (commits_.keeps()) {
      view->journal = JournalPlace{.newest = commits_.newest(), .durable = commits_.durable()};
    }
    for (const auto& [name, host] : jobs_.jobs()) {
      if (job.empty() || job == name) view->counts.push_back({.job = name});
    }
    auto shared = std::make_shared<HttpSource::Viewed>(std::move(viewed));
    data_.AskView([this, view = std::move(view),
                   shared = std::move(shared)](DataHost::SharedView data) mutable {
      view->encoded_data = std::move(data);
      CountJobs(std::move(view), std::move(shared));
    });
  });
}

void Server::CountJobs(std::shared_ptr<ServerView> view,
                       std::shared_ptr<HttpSource::Viewed> viewed) {
  runtime::RunInTurns(
      loop_, [this, view, viewed, next = size_t{0}, keys = RendezvousTotalsOfKeys()]() mutable {
        if (next == view->counts.size()) {
          (*viewed)(std::move(*view));
          return false;
        }
        JobCounts& counts = view->counts[next];
        JobHost* const host = jobs_.Find(counts.job);
        if (host != nullptr && keys.AddSomeOf(host->coordinator())) return true;
        if (host != nullptr) {
          counts.sessions = native_.CountSessions(*host);
          counts.connections = host->CountStockConnections();
          counts.torch_commands = host->stores().commands();
        }
        counts.rendezvous = std::exchange(keys, {}).totals();
        ++next;
        return true;
      });
}

bool Server::Holds(link::LinkId link) const {
  return native_.Holds(link) || data_.Holds(link) || node_groups_.Holds(link) ||
         reporters_.contains(link);
}

void Server::Reports(const link::Request& request) {
  if (reporters_.contains(request.link)) return;
  const auto report = wire::native::Decode<wire::native::ProcessReport>(request.payload);
  if (report.ok() && jobs_.Find(report->job) != nullptr) reporters_.insert(request.link);
}

absl::Status Server::Report(const wire::native::ProcessReport& report, const link::Rights& rights) {
  auto job = jobs_.Get(report.job);
  if (!job.ok()) return job.status();
  absl::StatusOr<coord::Event> event = EventOf(report, (*job)->size());
  if (!event.ok()) return event.status();
  (*job)->Handle(*std::move(event));
  if (report.event == wire::native::ProcessEvent::kEnded)
    data_.ProcessEnded(report.job, rights, report.host, report.pid);
  return absl::OkStatus();
}

}  // namespace lockstep::server

#include "lockstep/server/link_listener.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loopback.h"
#include "lockstep/server/admission.h"
#include "lockstep/server/server_certificate.h"
#include "lockstep/server/stock_tunnels.h"
#include "lockstep/server/token_reviewer.h"
#include "lockstep/wire/native/error_reply.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

// Lines of the log about links, since whoever reaches the port can cause them.
constexpr int kLogLines = 10;
constexpr absl::Duration kLogInterval = absl::Seconds(10);
// Of the links, the last ones are for sessions that go on.
constexpr size_t kLinksReservedPart = 8;

// Of one question to Kubernetes. A caller waits for two of them at most, within its hello time-out.
constexpr absl::Duration kReviewTimeout = absl::Seconds(2);

constexpr absl::Duration kReminderInterval = absl::Minutes(1);

}  // namespace

LinkListener::LinkListener(runtime::Loop& loop)
    : log_(kLogLines, kLogInterval), reminder_(loop), loop_(loop) {}

absl::StatusOr<std::unique_ptr<LinkListener>> LinkListener::Listen(runtime::Loop& loop,
                                                                   const ServerOptions& options,
                                                                   runtime::MemoryAccount& memory,
                                                                   link::ServerEvents events,
                                                                   FindStockService find) {
  const absl::Status loopback =
      runtime::CheckLoopback(loop.io(), options.listen, "--insecure-network");
  if (!loopback.ok() && !options.insecure_network && !TakesTokens(options)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--listen ", runtime::ToString(options.listen),
        " can be reached from other hosts, and the server has no keys to authenticate clients: "
        "make some with `lockstep auth init DIR` and give --auth DIR; or, on a network that you "
        "trust, give --insecure-network; or use 127.0.0.1"));
  }
  std::unique_ptr<LinkListener> self(new LinkListener(loop));
  const auto warn = [](const std::string& text) { spdlog::warn("{}", text); };
  auto certificate =
      ServerCertificate::Load(loop, options.certificate, options.certificate_directory, warn);
  if (!certificate.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("TLS: ", std::string(certificate.status().message())));
  }
  self->certificate_ = *std::move(certificate);
  if (absl::Status status = self->LoadAdmission(options); !status.ok()) return status;

  link::Server::Options link;
  link.listen = runtime::ToString(options.listen);
  link.connections_max = options.links_max;
  link.connections_per_host_max = options.links_per_host_max;
  link.connections_reserved = options.links_max / kLinksReservedPart;
  link.memory = &memory;
  link.allowed = options.allowed;
  link.admit = [self = self.get()](link::LinkId id, const link::Greeting& greeting) {
    return self->Admit(id, greeting);
  };
  if (self->reviewer_ != nullptr) {
    link.left = [self = self.get()](link::LinkId id) { self->reviewer_->Leave(id.value()); };
  }
  link.allows_plain = loopback.ok() || options.insecure_network;
  link.accept_secure = [certificate = self->certificate_] { return certificate->Accept(); };
  link.link = options.link;
  link.service_instance = runtime::RandomNumber();
  link.log = [self = self.get()](std::string text) {
    const auto line = self->log_.Pass(runtime::MonotonicNow(), std::move(text));
    if (line) spdlog::warn("link: {}", *line);
  };
  self->tunnels_ = std::make_unique<StockTunnels>(
      loop, memory,
      StockTunnels::Events{.find = std::move(find),
                           .send =
                               [self = self.get()](link::LinkId to, link::Message frame) {
                                 self->link_->Send(to, std::move(frame));
                               },
                           .close =
                               [self = self.get()](link::LinkId at, absl::Status why) {
                                 self->link_->Close(at, std::move(why), "protocol");
                               }});
  auto server = link::Server::Listen(loop, std::move(link), self->WithTunnels(std::move(events)));
  if (!server.ok()) {
    return absl::Status(server.status().code(),
                        absl::StrCat("--listen: ", std::string(server.status().message())));
  }
  self->link_ = *std::move(server);
  if (!loopback.ok() && options.insecure_network) self->Remind();
  return self;
}

LinkListener::~LinkListener() = default;

link::ServerEvents LinkListener::WithTunnels(link::ServerEvents events) {
  events.request = [this, others = std::move(events.request)](link::Request&& request,
                                                              link::Responder&& responder) {
    if (request.kind != link::KindOf<wire::native::OpenTunnel>::kKind) {
      return others(std::move(request), std::move(responder));
    }
    tunnels_->Open(request, std::move(responder));
  };
  events.tunnel = [this](link::LinkId from, link::Message frame) {
    tunnels_->Take(from, std::move(frame));
  };
  events.ended = [this, others = std::move(events.ended)](link::LinkId link, bool by_peer) {
    tunnels_->Ended(link);
    others(link, by_peer);
  };
  events.holds = [this, others = std::move(events.holds)](link::LinkId link) {
    return tunnels_->Holds(link) || others(link);
  };
  return events;
}

absl::Status LinkListener::LoadAdmission(const ServerOptions& options) {
  const auto warn = [](const std::string& text) { spdlog::warn("{}", text); };
  auto admission = Admission::Load({.token_keys = options.token_keys,
                                    .insecure_network = options.insecure_network,
                                    .kubernetes = !options.kubernetes.accounts.empty(),
                                    .member_uri = options.member_uri},
                                   warn);
  if (!admission.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--token-keys: ", std::string(admission.status().message())));
  }
  admission_ = *std::move(admission);
  if (options.kubernetes.accounts.empty()) return absl::OkStatus();
  auto reviewer =
      TokenReviewer::Start({.kubernetes = options.kubernetes,
                            .timeout = std::min(kReviewTimeout, options.link.hello_timeout / 3),
                            .log = warn});
  if (!reviewer.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--kubernetes-api: ", std::string(reviewer.status().message())));
  }
  reviewer_ = *std::move(reviewer);
  return absl::OkStatus();
}

std::optional<link::Verdict> LinkListener::Admit(link::LinkId link,
                                                 const link::Greeting& greeting) {
  const bool reviewed =
      reviewer_ != nullptr && greeting.secure && IsServiceAccountToken(greeting.token);
  if (!reviewed) return admission_->Admit(greeting);
  return reviewer_->Ask(greeting.token, {.id = link.value(), .host = greeting.host},
                        [this, link, weak = std::weak_ptr<bool>(here_)](link::Verdict verdict) {
                          loop_.Post([this, link, weak, verdict = std::move(verdict)]() mutable {
                            if (!weak.expired()) link_->Admit(link, std::move(verdict));
                          });
                        });
}

std::string LinkListener::JoinString(const std::string& job) const {
  auto at = runtime::ParseAddress(address());
  if (!at.ok()) return address();
  at->fingerprint = certificate_->fingerprint();
  return runtime::ToString(runtime::JoinString{.address = *std::move(at), .job = job});
}

absl::StatusOr<wire::native::CreateTaskTokenReply> LinkListener::CreateTaskToken(
    const std::string& job, absl::Time until) const {
  if (job.empty()) {
    return wire::native::WithReason(absl::InvalidArgumentError("the token's job is missing"),
                                    "invalid_argument");
  }
  auto made = admission_->MakeTaskToken(job, until);
  if (!made.ok()) return made.status();
  return wire::native::CreateTaskTokenReply{.token = std::move(made->token),
                                            .lasts_us = absl::ToInt64Microseconds(made->lasts)};
}

void LinkListener::Remind() {
  spdlog::warn(
      "anyone who reaches {} can read and change all jobs: --insecure-network accepts clients "
      "without TLS and without a token; use --auth instead",
      address());
  reminder_.Arm(runtime::MonotonicNow() + kReminderInterval, [this] { Remind(); });
}

}  // namespace lockstep::server

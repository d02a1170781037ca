// Where programs of ours call a server: the link, its TLS, and what other hosts may reach of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/observe/log_limiter.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/options.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::server {

class Admission;
class ServerCertificate;
class StockTunnels;
class TokenReviewer;

// Takes TLS everywhere, and plain connections where only this host can call. Where other hosts can
// reach it, callers need a token; or the operator said that the network is safe
// (`insecure_network`), of which the log reminds.
//
// Threads: loop-confined. Ownership: `loop` and `memory` outlive it. Bounds: link::Server's.
class LinkListener {
 public:
  // Where the service of a job listens that a tunnel leads to.
  using FindStockService =
      std::function<absl::StatusOr<runtime::Address>(const wire::native::OpenTunnel&)>;

  // FAILED_PRECONDITION: other hosts can reach the address, and may not; or the certificate or the
  // keys of tokens are not right. UNAVAILABLE: the address cannot be had. The errors name the
  // option.
  static absl::StatusOr<std::unique_ptr<LinkListener>> Listen(runtime::Loop& loop,
                                                              const ServerOptions& options,
                                                              runtime::MemoryAccount& memory,
                                                              link::ServerEvents events,
                                                              FindStockService find);
  ~LinkListener();

  const std::string& address() const { return link_->address(); }  // HOST:PORT
  // What a program on another host joins with; `job` may be empty.
  std::string JoinString(const std::string& job) const;
  // For the processes of a job, from a launcher whose own token lasts until then. INVALID_ARGUMENT:
  // no job can have that name; UNAUTHENTICATED (`token_expired`): that is over.
  absl::StatusOr<wire::native::CreateTaskTokenReply> CreateTaskToken(const std::string& job,
                                                                     absl::Time until) const;
  size_t connections() const { return link_->connections(); }
  // By which clients know the server, and it knows them; for other listeners.
  const std::shared_ptr<ServerCertificate>& certificate() const { return certificate_; }
  const std::shared_ptr<Admission>& admission() const { return admission_; }

  // As link::Server.
  void Close(link::LinkId link, absl::Status why, std::string_view farewell_reason) {
    link_->Close(link, std::move(why), farewell_reason);
  }
  void Drain(std::function<void()> done) { link_->Drain(std::move(done)); }

 private:
  explicit LinkListener(runtime::Loop& loop);
  void Remind();
  // And the reviewer, where tokens of Kubernetes are taken.
  absl::Status LoadAdmission(const ServerOptions& options);
  // Nullopt: the reviewer says it.
  std::optional<link::Verdict> Admit(link::LinkId link, const link::Greeting& greeting);
  // The same, with what tunnels need of them.
  link::ServerEvents WithTunnels(link::ServerEvents events);

  observe::LogLimiter log_;
  std::shared_ptr<ServerCertificate> certificate_;
  std::shared_ptr<Admission> admission_;
  std::unique_ptr<StockTunnels> tunnels_;
  std::unique_ptr<link::Server> link_;  // after the tunnels, which its events use
  runtime::Timer reminder_;
  runtime::Loop& loop_;
  const std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // for what is posted
  std::unique_ptr<TokenReviewer> reviewer_;  // null: none. The first to go, with its threads
};

}  // namespace lockstep::server

// How a worker and its consumers know each other where other hosts reach it: by a certificate and a
// secret that the dispatcher hands to consumers only.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/platform/link/rights.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/platform/tls/context.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::data {

// Of one life of a worker. Kept nowhere, and in no log.
//
// Threads: immutable.
class WorkerIdentity {
 public:
  // INTERNAL: this OpenSSL makes no certificates.
  static absl::StatusOr<std::unique_ptr<const WorkerIdentity>> Make();

  // Tells who has the card: the fingerprint of the certificate, and the secret.
  void WriteTo(wire::native::Card& card) const;
  // The worker's end of a new connection.
  std::unique_ptr<runtime::SecureLayer> Accept() const { return context_->Accept(); }
  // What a consumer may that said hello: all that consumers ask for. UNAUTHENTICATED,
  // `worker_secret`: it does not send the secret, by TLS.
  absl::StatusOr<link::Rights> Admit(const link::Greeting& greeting) const;

 private:
  WorkerIdentity(std::shared_ptr<const tls::ServerContext> context, std::string fingerprint);

  const std::shared_ptr<const tls::ServerContext> context_;
  const std::string fingerprint_;
  const std::string secret_;  // raw
};

}  // namespace lockstep::data

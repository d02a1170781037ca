// The certificate by which clients know a server, and TLS with it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/platform/tls/context.h"
#include "lockstep/server/options.h"

namespace lockstep::server {

// Files are read again when they have changed; what is wrong with the new ones is logged, and the
// old ones hold. Connections that are open stay.
//
// Threads: loop-confined; made and destroyed while the loop does not run, too. `AcceptHttp` is
// thread-safe.
class ServerCertificate {
 public:
  using Log = std::function<void(std::string)>;

  // `directory`: keeps the certificate that the server makes, so that clients know it again
  // after a restart; empty: it lasts as long as the server. INVALID_ARGUMENT, NOT_FOUND or
  // FAILED_PRECONDITION name the file that is not right, and why.
  static absl::StatusOr<std::shared_ptr<ServerCertificate>> Load(runtime::Loop& loop,
                                                                 CertificateFiles files,
                                                                 const std::string& directory,
                                                                 Log log);

  // The server's end of a new connection.
  std::unique_ptr<runtime::SecureLayer> Accept() const { return context_->Accept(); }
  // The same of a connection of the HTTP listener.
  std::unique_ptr<runtime::SecureLayer> AcceptHttp() const;
  // SHA-256 of the last certificate that is sent, an authority's if there is one: it is still right
  // when the server has got a new certificate of that authority.
  const std::string& fingerprint() const { return fingerprint_; }

  // Looks at the files; for tests, who do not wait for the timer.
  void LookAtFiles();

 private:
  ServerCertificate(runtime::Loop& loop, CertificateFiles files, Log log);
  absl::Status Read();
  absl::Status Use(const tls::Identity& identity, const std::string& client_authorities);
  void ArmTimer();
  std::vector<runtime::FileState> States() const;

  const CertificateFiles files_;
  const Log log_;
  std::vector<runtime::FileState> states_;  // of the files, when they were last looked at
  std::shared_ptr<const tls::ServerContext> context_;
  mutable Mutex mutex_;
  std::shared_ptr<const tls::ServerContext> http_context_ ABSL_GUARDED_BY(mutex_);
  std::string fingerprint_;
  runtime::Timer timer_;
};

}  // namespace lockstep::server

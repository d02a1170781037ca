// TLS between two ends that share a secret and have no certificates.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/platform/tls/context.h"
#include "lockstep/platform/tls/openssl.h"
#include "lockstep/platform/tls/tls_layer.h"

namespace lockstep::tls {

// Of one end of connections: TLS 1.3 with the secret as an external pre-shared key, and a key
// exchange of its own, so that who learns the secret later cannot read what was recorded. An end
// that does not know the secret does not get through the handshake.
//
// Threads: immutable.
class SecretContext : public std::enable_shared_from_this<SecretContext> {
 public:
  // `secret`: runtime::kSecretBytes. FAILED_PRECONDITION: this OpenSSL has no pre-shared keys.
  static absl::StatusOr<std::shared_ptr<const SecretContext>> Make(const OpenSsl& openssl,
                                                                   TlsLayer::Side side,
                                                                   std::string_view secret);

  // Of one connection.
  std::unique_ptr<runtime::SecureLayer> Open() const;
  const std::string& secret() const { return secret_; }

 private:
  SecretContext(const OpenSsl& openssl, TlsLayer::Side side, std::string_view secret)
      : openssl_(openssl), side_(side), secret_(secret) {}

  const OpenSsl& openssl_;
  const TlsLayer::Side side_;
  const std::string secret_;
  ContextPtr context_;
};

}  // namespace lockstep::tls

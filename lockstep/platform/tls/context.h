// What both ends of TLS need before they connect: certificates, keys and whom they believe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/platform/tls/openssl.h"
#include "lockstep/platform/tls/tls_layer.h"

namespace lockstep::tls {

// A certificate, perhaps with those of the authorities between it and the root, and its private
// key; both PEM.
struct Identity {
  std::string certificates;
  std::string key;
};

struct FreeContext {
  const OpenSsl* openssl = nullptr;
  void operator()(SSL_CTX* context) const { openssl->SSL_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<SSL_CTX, FreeContext>;

// What contexts of all kinds have: TLS 1.3 only, no tickets, elliptic curves that are quick.
absl::StatusOr<ContextPtr> NewContext(const OpenSsl& openssl, const SSL_METHOD* method);
// Of a server: `protocol`, which outlives it, is taken if the client offers it, and nothing else.
void TakeOnly(const OpenSsl& openssl, SSL_CTX* context, const Protocol& protocol);

// What a server's connections are for. A client of HTTP is asked for a certificate where there are
// authorities, and may come without one: it may have a token.
enum class Serves { kLink, kHttp };

// Of a server: TLS 1.3 only, no early data, no resumption: a whole handshake costs both ends
// together less than two milliseconds (bench/tls.py), and a ticket would be one more secret.
//
// Threads: immutable. Ownership: outlives none of its layers' needs; they hold what they use.
class ServerContext {
 public:
  // `client_authorities`: PEM; whose certificates clients must have; empty: clients need none.
  // INVALID_ARGUMENT says which of the texts is wrong.
  static absl::StatusOr<std::shared_ptr<const ServerContext>> Make(
      const OpenSsl& openssl, const Identity& identity, const std::string& client_authorities,
      Serves serves = Serves::kLink);

  // The accepting end of a new connection.
  std::unique_ptr<runtime::SecureLayer> Accept() const;

 private:
  ServerContext(ContextPtr context, Serves serves)
      : context_(std::move(context)), serves_(serves) {}
  ContextPtr context_;
  const Serves serves_;
};

// Whom a client takes for the server. At least one of the first two is there.
struct Expected {
  // SHA-256, as 64 hexadecimal digits, of the server's certificate, or of an authority that it
  // sends with it and that has signed it.
  std::string fingerprint;
  // PEM: believed as authorities.
  std::string authorities;
  // HOST that was called; must stand in a certificate that is believed because of an authority.
  std::string host;
};

// Of calls to one server.
//
// Threads: immutable.
class ClientContext {
 public:
  // `own`: for a server that asks for one; empty: none. INVALID_ARGUMENT as above.
  static absl::StatusOr<std::shared_ptr<const ClientContext>> Make(const OpenSsl& openssl,
                                                                   Expected expected,
                                                                   const Identity& own);

  // The calling end of a new connection, which keeps this.
  static std::unique_ptr<runtime::SecureLayer> Call(std::shared_ptr<const ClientContext> context);

  const Expected& expected() const { return expected_; }
  // Of the OpenSSL that verifies: 1 when the certificate is believed. Sets the error otherwise.
  int Verify(X509_STORE_CTX* chain) const;

 private:
  ClientContext(const OpenSsl& openssl, Expected expected)
      : openssl_(openssl), expected_(std::move(expected)) {}
  bool HasFingerprint(X509* certificate) const;
  // False: no certificate can hold for that host.
  bool ExpectHost(X509_STORE_CTX* chain) const;

  const OpenSsl& openssl_;
  const Expected expected_;
  ContextPtr context_;
};

}  // namespace lockstep::tls

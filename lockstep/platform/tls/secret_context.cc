#include "lockstep/platform/tls/secret_context.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "lockstep/platform/tls/errors.h"

namespace lockstep::tls {
namespace {

// Of both ends; the secret is what counts.
constexpr char kIdentity[] = "lockstep";
// Pre-shared keys of OpenSSL's callbacks go with SHA-256.
constexpr char kCiphers[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";

// For OpenSSL's callbacks, which are given a connection and nothing else. A process has one
// OpenSSL.
std::atomic<const OpenSsl*>& TableOfCallbacks() {
  static std::atomic<const OpenSsl*> table = nullptr;
  return table;
}

unsigned int GiveSecret(const SSL* ssl, unsigned char* to, unsigned int max) {
  const OpenSsl& openssl = *TableOfCallbacks();
  // SSL_CTX_get_app_data
  const auto* const context = static_cast<const SecretContext*>(
      openssl.SSL_CTX_get_ex_data(openssl.SSL_get_SSL_CTX(ssl), 0));
  const std::string& secret = context->secret();
  if (secret.size() > max) return 0;
  std::memcpy(to, secret.data(), secret.size());
  return static_cast<unsigned int>(secret.size());
}

unsigned int OfCaller(SSL* ssl, const char* /*hint*/, char* identity, unsigned int identity_max,
                      unsigned char* secret, unsigned int secret_max) {
  if (sizeof(kIdentity) > identity_max) return 0;
  std::memcpy(identity, kIdentity, sizeof(kIdentity));
  return GiveSecret(ssl, secret, secret_max);
}

unsigned int OfAccepter(SSL* ssl, const char* identity, unsigned char* secret,
                        unsigned int secret_max) {
  if (identity == nullptr || std::string_view(identity) != kIdentity) return 0;
  return GiveSecret(ssl, secret, secret_max);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SecretContext>> SecretContext::Make(const OpenSsl& openssl,
                                                                         TlsLayer::Side side,
                                                                         std::string_view secret) {
  if (openssl.SSL_CTX_set_psk_client_callback == nullptr ||
      openssl.SSL_CTX_set_psk_server_callback == nullptr) {
    return absl::FailedPreconditionError("this process's OpenSSL has no pre-shared keys");
  }
  TableOfCallbacks() = &openssl;
  std::shared_ptr<SecretContext> made(new SecretContext(openssl, side, secret));
  const bool calls = side == TlsLayer::Side::kClient;
  auto context =
      NewContext(openssl, calls ? openssl.TLS_client_method() : openssl.TLS_server_method());
  if (!context.ok()) return context.status();
  made->context_ = *std::move(context);
  SSL_CTX* const raw = made->context_.get();
  openssl.SSL_CTX_set_ex_data(raw, 0, made.get());
  if (openssl.SSL_CTX_set_ciphersuites(raw, kCiphers) != 1) {
    return absl::FailedPreconditionError(TakeErrors(openssl, "ciphers of TLS"));
  }
  if (calls) {
    // A server with a certificate, and without the secret, is none of ours.
    openssl.SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);
    openssl.SSL_CTX_set_alpn_protos(raw, kLinkProtocol.name, kLinkProtocol.bytes);
    openssl.SSL_CTX_set_psk_client_callback(raw, &OfCaller);
  } else {
    openssl.SSL_CTX_set_num_tickets(raw, 0);
    TakeOnly(openssl, raw, kLinkProtocol);
    openssl.SSL_CTX_set_psk_server_callback(raw, &OfAccepter);
  }
  return made;
}

std::unique_ptr<runtime::SecureLayer> SecretContext::Open() const {
  return std::make_unique<TlsLayer>(openssl_, context_.get(), side_, kLinkProtocol,
                                    shared_from_this());
}

}  // namespace lockstep::tls

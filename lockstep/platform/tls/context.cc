#include "lockstep/platform/tls/context.h"

#include <array>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "asio/ip/address.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/tls/errors.h"
#include "lockstep/platform/tls/pem.h"

namespace lockstep::tls {
namespace {

absl::Status Use(const OpenSsl& openssl, SSL_CTX* context, const Identity& identity) {
  auto certificates = ReadCertificates(openssl, identity.certificates);
  if (!certificates.ok()) return certificates.status();
  auto key = ReadKey(openssl, identity.key);
  if (!key.ok()) return key.status();
  const bool used = openssl.SSL_CTX_use_certificate(context, certificates->front().get()) == 1 &&
                    openssl.SSL_CTX_use_PrivateKey(context, key->get()) == 1 &&
                    openssl.SSL_CTX_check_private_key(context) == 1;
  if (!used) {
    return absl::InvalidArgumentError(
        TakeErrors(openssl, "the private key does not match the certificate"));
  }
  for (size_t i = 1; i < certificates->size(); ++i) {
    // SSL_CTX_add1_chain_cert
    openssl.SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, (*certificates)[i].get());
  }
  return absl::OkStatus();
}

absl::Status Believe(const OpenSsl& openssl, SSL_CTX* context, const std::string& authorities) {
  auto certificates = ReadCertificates(openssl, authorities);
  if (!certificates.ok()) return certificates.status();
  X509_STORE* const store = openssl.SSL_CTX_get_cert_store(context);
  for (const CertificatePtr& certificate : *certificates) {
    openssl.X509_STORE_add_cert(store, certificate.get());
  }
  return absl::OkStatus();
}

const Protocol& ProtocolOf(Serves serves) {
  return serves == Serves::kHttp ? kHttpProtocol : kLinkProtocol;
}

int SelectProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                   const unsigned char* offered, unsigned int offered_bytes, void* served) {
  const auto& protocol = *static_cast<const Protocol*>(served);
  for (unsigned int at = 0; at < offered_bytes; at += offered[at] + 1u) {
    const unsigned int bytes = offered[at] + 1u;
    if (at + bytes > offered_bytes) break;
    if (bytes != protocol.bytes || std::memcmp(offered + at, protocol.name, bytes) != 0) continue;
    *chosen = offered + at + 1;
    *chosen_bytes = offered[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int VerifyServer(X509_STORE_CTX* chain, void* context) {
  return static_cast<const ClientContext*>(context)->Verify(chain);
}

}  // namespace

absl::StatusOr<ContextPtr> NewContext(const OpenSsl& openssl, const SSL_METHOD* method) {
  ContextPtr context(openssl.SSL_CTX_new(method), FreeContext{&openssl});
  if (context == nullptr) return absl::InternalError(TakeErrors(openssl, "no TLS context"));
  // SSL_CTX_set_min_proto_version, SSL_CTX_set_mode, SSL_CTX_set_session_cache_mode.
  openssl.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr);
  openssl.SSL_CTX_ctrl(context.get(), SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY,
                       nullptr);
  openssl.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  openssl.SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  // OpenSSL prefers AES-256 with SHA-384; what hashes with SHA-256 takes less time in a handshake,
  // of which hashing is a good part, and is as safe for us.
  openssl.SSL_CTX_set_ciphersuites(
      context.get(), "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384");
  // SSL_CTX_set1_groups_list. By default a client may choose groups of which one handshake takes 16
  // ms of the server's time. Where only FIPS's are there, the second.
  for (const char* groups : {"X25519:P-256", "P-256"}) {
    if (openssl.SSL_CTX_ctrl(context.get(), SSL_CTRL_SET_GROUPS_LIST, 0,
                             const_cast<char*>(groups)) == 1) {
      openssl.ERR_clear_error();
      return context;
    }
  }
  return absl::InternalError(TakeErrors(openssl, "no elliptic curve for TLS"));
}

void TakeOnly(const OpenSsl& openssl, SSL_CTX* context, const Protocol& protocol) {
  openssl.SSL_CTX_set_alpn_select_cb(context, &SelectProtocol, const_cast<Protocol*>(&protocol));
}

absl::StatusOr<std::shared_ptr<const ServerContext>> ServerContext::Make(
    const OpenSsl& openssl, const Identity& identity, const std::string& client_authorities,
    Serves serves) {
  auto context = NewContext(openssl, openssl.TLS_server_method());
  if (!context.ok()) return context.status();
  openssl.SSL_CTX_set_num_tickets(context->get(), 0);
  TakeOnly(openssl, context->get(), ProtocolOf(serves));
  if (absl::Status used = Use(openssl, context->get(), identity); !used.ok()) return used;
  if (!client_authorities.empty()) {
    absl::Status believed = Believe(openssl, context->get(), client_authorities);
    if (!believed.ok()) return believed;
    const int required = serves == Serves::kHttp ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    openssl.SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER | required, nullptr);
  }
  return std::shared_ptr<const ServerContext>(new ServerContext(*std::move(context), serves));
}

std::unique_ptr<runtime::SecureLayer> ServerContext::Accept() const {
  const OpenSsl& openssl = *context_.get_deleter().openssl;
  return std::make_unique<TlsLayer>(openssl, context_.get(), TlsLayer::Side::kServer,
                                    ProtocolOf(serves_), nullptr);
}

absl::StatusOr<std::shared_ptr<const ClientContext>> ClientContext::Make(const OpenSsl& openssl,
                                                                         Expected expected,
                                                                         const Identity& own) {
  LOCKSTEP_CHECK(!expected.fingerprint.empty() || !expected.authorities.empty());
  std::shared_ptr<ClientContext> made(new ClientContext(openssl, std::move(expected)));
  auto context = NewContext(openssl, openssl.TLS_client_method());
  if (!context.ok()) return context.status();
  made->context_ = *std::move(context);
  SSL_CTX* const raw = made->context_.get();
  openssl.SSL_CTX_set_alpn_protos(raw, kLinkProtocol.name, kLinkProtocol.bytes);
  openssl.SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nullptr);
  openssl.SSL_CTX_set_cert_verify_callback(raw, &VerifyServer, made.get());
  if (!made->expected_.authorities.empty()) {
    absl::Status believed = Believe(openssl, raw, made->expected_.authorities);
    if (!believed.ok()) return believed;
  }
  if (!own.certificates.empty()) {
    if (absl::Status used = Use(openssl, raw, own); !used.ok()) return used;
  }
  return std::shared_ptr<const ClientContext>(std::move(made));
}

std::unique_ptr<runtime::SecureLayer> ClientContext::Call(
    std::shared_ptr<const ClientContext> context) {
  const OpenSsl& openssl = context->openssl_;
  SSL_CTX* const raw = context->context_.get();
  return std::make_unique<TlsLayer>(openssl, raw, TlsLayer::Side::kClient, kLinkProtocol,
                                    std::move(context));
}

bool ClientContext::HasFingerprint(X509* certificate) const {
  std::array<unsigned char, 32> digest;
  unsigned int bytes = 0;
  if (openssl_.X509_digest(certificate, openssl_.EVP_sha256(), digest.data(), &bytes) != 1 ||
      bytes != digest.size()) {
    return false;
  }
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}) ==
         expected_.fingerprint;
}

bool ClientContext::ExpectHost(X509_STORE_CTX* chain) const {
  X509_VERIFY_PARAM* const expected = openssl_.X509_STORE_CTX_get0_param(chain);
  // Certificates know no zones: fe80::1%eth0.
  const std::string host = expected_.host.substr(0, expected_.host.find('%'));
  asio::error_code is_name;
  asio::ip::make_address(host, is_name);
  return is_name ? openssl_.X509_VERIFY_PARAM_set1_host(expected, host.data(), host.size()) == 1
                 : openssl_.X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1;
}

int ClientContext::Verify(X509_STORE_CTX* chain) const {
  X509* const own = openssl_.X509_STORE_CTX_get0_cert(chain);
  // Whoever has exactly this certificate's key is the server, whatever else stands in it: how long
  // it is valid, too, since who gave us its fingerprint could give us another.
  if (!expected_.fingerprint.empty() && HasFingerprint(own)) return 1;
  if (!ExpectHost(chain)) {
    openssl_.X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
    return 0;
  }
  if (expected_.fingerprint.empty()) return openssl_.X509_verify_cert(chain);

  // An authority that was sent along: believed if it is the one that we know.
  const auto* const sent =
      reinterpret_cast<const OPENSSL_STACK*>(openssl_.X509_STORE_CTX_get0_untrusted(chain));
  const int count = sent == nullptr ? 0 : openssl_.OPENSSL_sk_num(sent);
  for (int i = 0; i < count; ++i) {
    auto* const authority = static_cast<X509*>(openssl_.OPENSSL_sk_value(sent, i));
    if (!HasFingerprint(authority)) continue;
    OPENSSL_STACK* const believed = openssl_.OPENSSL_sk_new_null();
    if (believed == nullptr || openssl_.OPENSSL_sk_push(believed, authority) == 0) break;
    openssl_.X509_STORE_CTX_set0_trusted_stack(chain, reinterpret_cast<STACK_OF(X509)*>(believed));
    const int verdict = openssl_.X509_verify_cert(chain);
    // What was found stays in the chain's own list; the stack itself is ours.
    openssl_.X509_STORE_CTX_set0_trusted_stack(chain, nullptr);
    openssl_.OPENSSL_sk_free(believed);
    return verdict;
  }
  openssl_.X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REJECTED);
  return 0;
}

}  // namespace lockstep::tls

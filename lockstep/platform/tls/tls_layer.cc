#include "lockstep/platform/tls/tls_layer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/platform/tls/errors.h"

namespace lockstep::tls {
namespace {

// At a time, to OpenSSL, which counts in int.
constexpr size_t kPieceBytesMax = size_t{1} << 30;

int Piece(size_t bytes) { return static_cast<int>(std::min(bytes, kPieceBytesMax)); }

// What this end found out about the other's certificate.
bool IsAboutIdentity(const std::string& text) {
  return absl::StrContains(text, "certificate") || absl::StrContains(text, "unknown ca");
}

}  // namespace

TlsLayer::TlsLayer(const OpenSsl& openssl, SSL_CTX* context, Side side, const Protocol& protocol,
                   std::shared_ptr<const void> keeps)
    : openssl_(openssl),
      protocol_(protocol),
      keeps_(std::move(keeps)),
      ssl_(openssl.SSL_new(context)) {
  in_ = openssl_.BIO_new(openssl_.BIO_s_mem());
  out_ = openssl_.BIO_new(openssl_.BIO_s_mem());
  if (ssl_ == nullptr || in_ == nullptr || out_ == nullptr) {
    openssl_.BIO_free(in_);
    openssl_.BIO_free(out_);
    if (ssl_ != nullptr) openssl_.SSL_free(std::exchange(ssl_, nullptr));
    failed_ = absl::ResourceExhaustedError("no memory for a TLS connection");
    return;
  }
  openssl_.SSL_set_bio(ssl_, in_, out_);
  if (side == Side::kServer) {
    openssl_.SSL_set_accept_state(ssl_);
  } else {
    openssl_.SSL_set_connect_state(ssl_);
    failed_ = Shake();  // begins it
  }
}

TlsLayer::~TlsLayer() {
  if (ssl_ != nullptr) openssl_.SSL_free(ssl_);
}

absl::Status TlsLayer::Outcome(int result) {
  const int error = openssl_.SSL_get_error(ssl_, result);
  switch (error) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return absl::OkStatus();
    case SSL_ERROR_ZERO_RETURN:
      ended_ = true;
      return absl::OkStatus();
    default:
      break;
  }
  std::string text = TakeErrors(openssl_, "TLS");
  // An alert is what the other end says of this one.
  if (absl::StrContains(text, "alert")) return failed_ = absl::PermissionDeniedError(text);
  failed_ = IsAboutIdentity(text) ? absl::UnauthenticatedError(std::move(text))
                                  : absl::InvalidArgumentError(std::move(text));
  return failed_;
}

absl::Status TlsLayer::Shake() {
  openssl_.ERR_clear_error();
  const int result = openssl_.SSL_do_handshake(ssl_);
  if (result != 1) return Outcome(result);
  if (!Agrees()) {
    return failed_ = absl::InvalidArgumentError("the other end speaks another protocol over TLS");
  }
  established_ = true;
  return Encrypt(std::exchange(early_, {}));
}

bool TlsLayer::Agrees() const {
  const unsigned char* name = nullptr;
  unsigned int bytes = 0;
  openssl_.SSL_get0_alpn_selected(ssl_, &name, &bytes);
  if (bytes == 0) return protocol_.may_be_unnamed;
  return bytes == protocol_.bytes - 1 && std::memcmp(name, protocol_.name + 1, bytes) == 0;
}

bool TlsLayer::certified() const {
  if (!established_ || !failed_.ok()) return false;
  // There is a chain only where a certificate came; one that is not right ends the handshake.
  const STACK_OF(X509)* const chain = openssl_.SSL_get0_verified_chain(ssl_);
  return chain != nullptr &&
         openssl_.OPENSSL_sk_num(reinterpret_cast<const OPENSSL_STACK*>(chain)) > 0;
}

std::vector<std::string> TlsLayer::peer_uris() const {
  std::vector<std::string> uris;
  if (!certified()) return uris;
  const auto* const chain =
      reinterpret_cast<const OPENSSL_STACK*>(openssl_.SSL_get0_verified_chain(ssl_));
  auto* const own = static_cast<X509*>(openssl_.OPENSSL_sk_value(chain, 0));
  // Null where there are none, and where there are several lists, which no authority makes.
  auto* const names = static_cast<GENERAL_NAMES*>(
      openssl_.X509_get_ext_d2i(own, NID_subject_alt_name, nullptr, nullptr));
  if (names == nullptr) return uris;
  const auto* const list = reinterpret_cast<const OPENSSL_STACK*>(names);
  const int count = openssl_.OPENSSL_sk_num(list);
  for (int i = 0; i < count && uris.size() < runtime::kPeerUrisMax; ++i) {
    const auto* const name = static_cast<const GENERAL_NAME*>(openssl_.OPENSSL_sk_value(list, i));
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const text = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(openssl_.ASN1_STRING_get0_data(text)),
                      static_cast<size_t>(openssl_.ASN1_STRING_length(text)));
  }
  openssl_.GENERAL_NAMES_free(names);
  return uris;
}

absl::Status TlsLayer::Receive(std::string_view encrypted) {
  if (!failed_.ok()) return failed_;
  while (!encrypted.empty()) {
    const int taken = openssl_.BIO_write(in_, encrypted.data(), Piece(encrypted.size()));
    if (taken <= 0) {
      return failed_ = absl::ResourceExhaustedError("no memory for what came by TLS");
    }
    encrypted.remove_prefix(static_cast<size_t>(taken));
  }
  return established_ ? absl::OkStatus() : Shake();
}

absl::StatusOr<size_t> TlsLayer::Read(absl::Span<char> room) {
  if (!failed_.ok()) return failed_;
  if (!established_ || room.empty()) return 0;
  size_t read = 0;
  openssl_.ERR_clear_error();
  while (read < room.size()) {
    const int bytes = openssl_.SSL_read(ssl_, room.data() + read, Piece(room.size() - read));
    if (bytes <= 0) {
      if (absl::Status outcome = Outcome(bytes); !outcome.ok()) return outcome;
      break;
    }
    read += static_cast<size_t>(bytes);
  }
  return read;
}

absl::Status TlsLayer::Write(std::string_view clear) {
  if (!failed_.ok()) return failed_;
  if (established_) return Encrypt(clear);
  early_.append(clear);
  return absl::OkStatus();
}

absl::Status TlsLayer::Encrypt(std::string_view clear) {
  openssl_.ERR_clear_error();
  while (!clear.empty()) {
    const int taken = openssl_.SSL_write(ssl_, clear.data(), Piece(clear.size()));
    if (taken <= 0) {
      absl::Status outcome = Outcome(taken);
      // Memory is always writable; but a peer may have begun a message of the handshake's that
      // OpenSSL wants the rest of first.
      return outcome.ok() ? failed_ = absl::InternalError("TLS took nothing") : outcome;
    }
    clear.remove_prefix(static_cast<size_t>(taken));
  }
  return absl::OkStatus();
}

void TlsLayer::TakeOutput(std::string& to) {
  if (ssl_ == nullptr) return;
  // BIO_pending
  const auto waits = static_cast<size_t>(openssl_.BIO_ctrl(out_, BIO_CTRL_PENDING, 0, nullptr));
  if (waits == 0) return;
  const size_t before = to.size();
  to.resize(before + waits);
  const int read = openssl_.BIO_read(out_, to.data() + before, Piece(waits));
  to.resize(before + static_cast<size_t>(std::max(read, 0)));
}

}  // namespace lockstep::tls

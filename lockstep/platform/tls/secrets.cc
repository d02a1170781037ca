#include "lockstep/platform/tls/secrets.h"

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "lockstep/platform/tls/errors.h"
#include "lockstep/platform/tls/secret_context.h"

namespace lockstep::tls {
namespace {

using runtime::SecretHash;

class OpenSslSecrets final : public runtime::SharedSecrets {
 public:
  explicit OpenSslSecrets(FindOpenSsl find) : find_(std::move(find)) {}

  absl::StatusOr<SecretHash> Hash(std::string_view secret, std::string_view text) const override {
    const auto openssl = Find();
    if (!openssl.ok()) return openssl.status();
    SecretHash hash = {};
    unsigned int bytes = 0;
    const unsigned char* const made =
        (*openssl)->HMAC((*openssl)->EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                         reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                         reinterpret_cast<unsigned char*>(hash.data()), &bytes);
    if (made != nullptr && bytes == hash.size()) return hash;
    return absl::InternalError(TakeErrors(**openssl, "HMAC-SHA-256"));
  }

  absl::StatusOr<bool> Same(const SecretHash& one, const SecretHash& other) const override {
    const auto openssl = Find();
    if (!openssl.ok()) return openssl.status();
    return (*openssl)->CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
  }

  absl::StatusOr<MakeLayer> Call(std::string_view secret) const override {
    return Make(TlsLayer::Side::kClient, secret);
  }
  absl::StatusOr<MakeLayer> Accept(std::string_view secret) const override {
    return Make(TlsLayer::Side::kServer, secret);
  }

 private:
  absl::StatusOr<MakeLayer> Make(TlsLayer::Side side, std::string_view secret) const {
    const auto openssl = Find();
    if (!openssl.ok()) return openssl.status();
    auto context = SecretContext::Make(**openssl, side, secret);
    if (!context.ok()) return context.status();
    return [context = *std::move(context)] { return context->Open(); };
  }
  // Looked for until it is found, and not again: the loader is not to be asked for each connection.
  absl::StatusOr<const OpenSsl*> Find() const {
    if (const OpenSsl* const found = found_.load()) return found;
    auto openssl = find_();
    if (openssl.ok()) found_ = *openssl;
    return openssl;
  }

  const FindOpenSsl find_;
  mutable std::atomic<const OpenSsl*> found_ = nullptr;
};

}  // namespace

std::unique_ptr<const runtime::SharedSecrets> MakeSharedSecrets(FindOpenSsl find) {
  return std::make_unique<OpenSslSecrets>(std::move(find));
}

}  // namespace lockstep::tls

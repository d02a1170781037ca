#include "lockstep/platform/tls/calls.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/platform/tls/context.h"
#include "lockstep/platform/tls/secrets.h"

namespace lockstep::tls {
namespace {

// Where this process has a certificate of its own, for servers that require one: PEM files that two
// variables name.
struct OwnFiles {
  std::string certificate;
  std::string key;  // empty: it is in the file of the certificate
  runtime::FileState certificate_state;
  runtime::FileState key_state;

  static OwnFiles Now() {
    const char* const certificate = std::getenv("LOCKSTEP_TLS_CERT_FILE");
    const char* const key = std::getenv("LOCKSTEP_TLS_KEY_FILE");
    OwnFiles files;
    if (certificate == nullptr || *certificate == '\0') return files;
    files.certificate = certificate;
    files.key = key == nullptr || *key == '\0' ? files.certificate : std::string(key);
    files.certificate_state = runtime::StateOf(files.certificate);
    files.key_state = runtime::StateOf(files.key);
    return files;
  }

  // Nothing where there are none.
  absl::StatusOr<Identity> Read() const {
    if (certificate.empty()) return Identity();
    auto chain = runtime::ReadSmallFile(certificate);
    if (!chain.ok()) return chain.status();
    auto secret = runtime::ReadSecretFile(key);
    if (!secret.ok()) return secret.status();
    return Identity{.certificates = *std::move(chain), .key = *std::move(secret)};
  }

  friend bool operator==(const OwnFiles&, const OwnFiles&) = default;
};

// Remembers what the last call needed: a process calls one server, again and again.
//
// Threads: any.
class Calls {
 public:
  explicit Calls(FindOpenSsl find) : find_(std::move(find)) {}

  absl::StatusOr<std::unique_ptr<runtime::SecureLayer>> Make(const runtime::Address& server) {
    const OwnFiles files = OwnFiles::Now();
    const auto own = files.Read();
    if (!own.ok()) return own.status();
    // Free in a child of `fork`, which dials anew.
    const MutexLock lock(runtime::ForkMutex());
    if (last_ == nullptr || last_->expected().fingerprint != server.fingerprint ||
        last_->expected().host != server.host || files != files_) {
      const auto openssl = find_();
      if (!openssl.ok()) return openssl.status();
      auto context = ClientContext::Make(
          **openssl, {.fingerprint = server.fingerprint, .authorities = {}, .host = server.host},
          *own);
      if (!context.ok()) return context.status();
      files_ = files;
      last_ = *std::move(context);
    }
    return ClientContext::Call(last_);
  }

 private:
  const FindOpenSsl find_;
  // Under runtime::ForkMutex().
  std::shared_ptr<const ClientContext> last_;
  OwnFiles files_;  // that `last_` was made of
};

}  // namespace

void InstallSecureCalls(FindOpenSsl find) {
  runtime::SetSharedSecrets(MakeSharedSecrets(find));
  auto calls = std::make_shared<Calls>(std::move(find));
  runtime::SetSecureCalls(
      [calls = std::move(calls)](const runtime::Address& server) { return calls->Make(server); });
}

}  // namespace lockstep::tls

#include "lockstep/server/server_certificate.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/tls/certificates.h"

namespace lockstep::server {
namespace {

constexpr absl::Duration kLookInterval = absl::Seconds(10);
// Its fingerprint is what clients go by; the dates are for other programs that look at it.
constexpr absl::Duration kSelfSignedLasts = absl::Hours(24 * 365 * 10);
// Clocks of hosts differ.
constexpr absl::Duration kSelfSignedBefore = absl::Hours(24);

absl::StatusOr<tls::Identity> MakeIdentity() {
  const absl::Time now = absl::Now();
  return tls::MakeSelfSigned({.name = "lockstep-server",
                              .holds_for = {},
                              .from = now - kSelfSignedBefore,
                              .until = now + kSelfSignedLasts});
}

// The certificate that this server once made for itself, or a new one, which is kept there.
absl::StatusOr<tls::Identity> KeptIdentity(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/tls.pem");
  auto kept = runtime::ReadSecretFile(path);
  if (kept.ok()) return tls::Identity{.certificates = *kept, .key = *kept};
  if (!absl::IsNotFound(kept.status())) return kept.status();
  auto made = MakeIdentity();
  if (!made.ok()) return made.status();
  // With the state in etcd nothing else has made the directory, and it may be impossible.
  std::error_code error;
  if (std::filesystem::create_directories(directory, error)) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) return made;
  absl::Status written = runtime::WriteSecretFile(path, made->certificates + made->key);
  // Another server of this user was faster.
  if (absl::IsAlreadyExists(written)) return KeptIdentity(directory);
  if (!written.ok()) return written;
  return made;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ServerCertificate>> ServerCertificate::Load(
    runtime::Loop& loop, CertificateFiles files, const std::string& directory, Log log) {
  std::shared_ptr<ServerCertificate> made(
      new ServerCertificate(loop, std::move(files), std::move(log)));
  absl::Status status;
  if (made->files_.certificates.empty()) {
    if (made->files_ != CertificateFiles()) {
      return absl::InvalidArgumentError(
          "--tls-key and --client-ca need --tls-cert or --auth: the server does not use them with "
          "a certificate that it makes for itself");
    }
    const auto identity = directory.empty() ? MakeIdentity() : KeptIdentity(directory);
    status = identity.ok() ? made->Use(*identity, {}) : identity.status();
  } else {
    status = made->Read();
    made->ArmTimer();
  }
  if (!status.ok()) return status;
  return made;
}

ServerCertificate::ServerCertificate(runtime::Loop& loop, CertificateFiles files, Log log)
    : files_(std::move(files)), log_(std::move(log)), timer_(loop) {}

std::vector<runtime::FileState> ServerCertificate::States() const {
  return {runtime::StateOf(files_.certificates), runtime::StateOf(files_.key),
          runtime::StateOf(files_.client_authorities)};
}

absl::Status ServerCertificate::Read() {
  states_ = States();
  const auto certificates = runtime::ReadSmallFile(files_.certificates);
  if (!certificates.ok()) return certificates.status();
  const auto key = runtime::ReadSecretFile(files_.key.empty() ? files_.certificates : files_.key);
  if (!key.ok()) return key.status();
  std::string authorities;
  if (!files_.client_authorities.empty()) {
    auto read = runtime::ReadSmallFile(files_.client_authorities);
    if (!read.ok()) return read.status();
    authorities = *std::move(read);
    if (authorities.empty()) {
      // It would let everybody in.
      return absl::InvalidArgumentError(absl::StrCat(files_.client_authorities, " is empty"));
    }
  }
  const absl::Status used = Use({.certificates = *certificates, .key = *key}, authorities);
  if (used.ok()) return used;
  return absl::Status(
      used.code(),
      absl::StrCat(absl::StrJoin({files_.certificates, files_.key, files_.client_authorities}, " "),
                   ": ", std::string(used.message())));
}

absl::Status ServerCertificate::Use(const tls::Identity& identity,
                                    const std::string& client_authorities) {
  auto context = tls::ServerContext::Make(tls::LinkedOpenSsl(), identity, client_authorities);
  if (!context.ok()) return context.status();
  auto http_context = tls::ServerContext::Make(tls::LinkedOpenSsl(), identity, client_authorities,
                                               tls::Serves::kHttp);
  if (!http_context.ok()) return http_context.status();
  auto fingerprint = tls::FingerprintOfLast(identity.certificates);
  if (!fingerprint.ok()) return fingerprint.status();
  context_ = *std::move(context);
  fingerprint_ = *std::move(fingerprint);
  const MutexLock lock(mutex_);
  http_context_ = *std::move(http_context);
  return absl::OkStatus();
}

std::unique_ptr<runtime::SecureLayer> ServerCertificate::AcceptHttp() const {
  const MutexLock lock(mutex_);
  return http_context_->Accept();
}

void ServerCertificate::LookAtFiles() {
  if (States() == states_) return;
  const std::string before = fingerprint_;
  if (const absl::Status status = Read(); !status.ok()) {
    return log_(
        absl::StrCat("the certificate has changed and cannot be used; the old one remains in use: ",
                     std::string(status.message())));
  }
  log_(absl::StrCat("the certificate in ", files_.certificates, " was read again",
                    before == fingerprint_ ? ""
                                           : absl::StrCat("; from now on clients need the new join "
                                                          "string, with #sha256=",
                                                          fingerprint_)));
}

void ServerCertificate::ArmTimer() {
  timer_.Arm(runtime::MonotonicNow() + kLookInterval, [this] {
    LookAtFiles();
    ArmTimer();
  });
}

}  // namespace lockstep::server

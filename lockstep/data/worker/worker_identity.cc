#include "lockstep/data/worker/worker_identity.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/platform/tls/certificates.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::data {
namespace {

// Consumers go by the fingerprint; the dates are for other programs that look at it.
constexpr absl::Duration kLasts = absl::Hours(24 * 365);
// Clocks of hosts differ.
constexpr absl::Duration kBefore = absl::Hours(24);

// In a time that does not depend on where they differ.
bool Same(const std::string& one, std::string_view other) {
  return one.size() == other.size() &&
         tls::LinkedOpenSsl().CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const WorkerIdentity>> WorkerIdentity::Make() {
  const absl::Time now = absl::Now();
  const auto identity = tls::MakeSelfSigned(
      {.name = "lockstep-worker", .holds_for = {}, .from = now - kBefore, .until = now + kLasts});
  if (!identity.ok()) return identity.status();
  auto context = tls::ServerContext::Make(tls::LinkedOpenSsl(), *identity, {});
  if (!context.ok()) return context.status();
  auto fingerprint = tls::FingerprintOf(identity->certificates);
  if (!fingerprint.ok()) return fingerprint.status();
  return std::unique_ptr<const WorkerIdentity>(
      new WorkerIdentity(*std::move(context), *std::move(fingerprint)));
}

WorkerIdentity::WorkerIdentity(std::shared_ptr<const tls::ServerContext> context,
                               std::string fingerprint)
    : context_(std::move(context)),
      fingerprint_(std::move(fingerprint)),
      secret_(runtime::RandomBytes(runtime::kSecretBytes)) {}

void WorkerIdentity::WriteTo(wire::native::Card& card) const {
  card.fingerprint = fingerprint_;
  card.secret = {secret_};
}

absl::StatusOr<link::Rights> WorkerIdentity::Admit(const link::Greeting& greeting) const {
  const bool known =
      greeting.secure && Same(std::string(absl::BytesToHexString(secret_)), greeting.token);
  if (known) return link::Rights{.role = wire::native::Role::kTask};
  return wire::native::WithReason(
      absl::UnauthenticatedError(
          "this worker serves consumers to which its dispatcher gave the worker's secret: ask the "
          "dispatcher for elements, or, if a dispatcher sent you, ask it again, since the worker "
          "has restarted"),
      "worker_secret");
}

}  // namespace lockstep::data

#include "lockstep/server/admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

absl::StatusOr<std::shared_ptr<Admission>> Admission::Load(Options options, Log log) {
  std::shared_ptr<Admission> made(new Admission(std::move(options), std::move(log)));
  if (!made->options_.token_keys.empty()) {
    const MutexLock lock(made->mutex_);
    if (absl::Status status = made->Read(); !status.ok()) return status;
  }
  return made;
}

absl::Status Admission::Read() {
  state_ = runtime::StateOf(options_.token_keys);
  const auto text = runtime::ReadSecretFile(options_.token_keys);
  if (!text.ok()) return text.status();
  auto keys = auth::TokenKeys::Read(*text);
  if (!keys.ok()) {
    return absl::Status(keys.status().code(), absl::StrCat(options_.token_keys, ": ",
                                                           std::string(keys.status().message())));
  }
  keys_ = std::make_shared<const auth::TokenKeys>(*std::move(keys));
  return absl::OkStatus();
}

Admission::Keys Admission::CurrentKeys() {
  // Not under the lock, which others wait for while a file system is slow.
  const runtime::FileState state = runtime::StateOf(options_.token_keys);
  const MutexLock lock(mutex_);
  if (keys_ != nullptr && state != state_) {
    const absl::Status read = Read();
    log_(read.ok()
             ? absl::StrCat("the token keys in ", options_.token_keys, " were read again")
             : absl::StrCat("the token keys have changed and cannot be read; the old ones remain "
                            "in use: ",
                            std::string(read.message())));
  }
  return keys_;
}

absl::StatusOr<link::Rights> Admission::Admit(const link::Greeting& greeting) {
  // A caller without a token is one that the kernel has checked, or that the operator admits
  // unchecked.
  const bool trusted = greeting.local || options_.insecure_network;
  const bool takes_tokens = !options_.token_keys.empty() || options_.kubernetes;
  if (!takes_tokens || greeting.token.empty()) {
    // First, as a token is: whoever shows it is held to it.
    auto named = ByCertificate(greeting.uris);
    if (!named.ok()) return named.status();
    if (named->has_value()) return **std::move(named);
    if (trusted) return link::Rights();
    return wire::native::WithReason(
        absl::UnauthenticatedError(absl::StrCat(
            "this server requires a token: set LOCKSTEP_TOKEN_FILE to a file that `lockstep token "
            "create` made",
            options_.kubernetes ? ", or to the ServiceAccount token of a projected volume" : "")),
        "token_required");
  }
  if (!greeting.secure) {
    return wire::native::WithReason(
        absl::UnauthenticatedError(
            "the client sent its token without TLS, so others could read it: revoke it (run "
            "`lockstep auth rotate` twice, or delete the pod whose ServiceAccount token it is), "
            "and connect with the server's join string"),
        "token_in_clear");
  }
  const Keys keys = CurrentKeys();
  if (keys == nullptr) {
    return wire::native::WithReason(
        absl::UnauthenticatedError("this server accepts only tokens of Kubernetes ServiceAccounts, "
                                   "and this is not one: set LOCKSTEP_TOKEN_FILE to the token in "
                                   "the pod's projected volume, or start the server with --auth"),
        "token_invalid");
  }
  // By the wall clock, as tokens say it.
  auto claims = keys->Verify(greeting.token, absl::Now());
  if (!claims.ok()) return claims.status();
  return link::Rights{.role = claims->role, .job = std::move(claims->job), .until = claims->until};
}

absl::StatusOr<std::optional<link::Rights>> Admission::ByCertificate(
    const std::vector<std::string>& uris) const {
  if (!options_.member_uri) return std::nullopt;
  auto named = options_.member_uri->Find(uris);
  if (!named.ok()) return named.status();
  if (!named->has_value()) return std::nullopt;
  return link::Rights{.role = wire::native::Role::kTask,
                      .job = std::move((*named)->job),
                      .member = (*named)->member};
}

absl::StatusOr<Admission::TaskToken> Admission::MakeTaskToken(const std::string& job,
                                                              absl::Time until) const {
  const Keys keys = [this] {
    const MutexLock lock(mutex_);
    return keys_;
  }();
  if (keys == nullptr) return TaskToken{.token = {}, .lasts = kTaskTokenLasts};
  const absl::Time now = absl::Now();
  const absl::Time end = std::min(now + kTaskTokenLasts, until);
  if (end <= now) {
    return wire::native::WithReason(
        absl::UnauthenticatedError("the token of this connection has expired: create a new one "
                                   "(`lockstep token create`), or connect again with the one that "
                                   "Kubernetes has renewed"),
        "token_expired");
  }
  auto token = keys->Sign({.role = wire::native::Role::kTask, .job = job, .until = end, .key = {}});
  if (!token.ok()) return wire::native::WithReason(token.status(), "invalid_argument");
  return TaskToken{.token = *std::move(token), .lasts = end - now};
}

}  // namespace lockstep::server

#include "lockstep/server/http_admission.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loopback.h"
#include "lockstep/server/admission.h"
#include "lockstep/server/http_pages.h"
#include "lockstep/server/link_listener.h"
#include "lockstep/server/server_certificate.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

absl::StatusOr<link::Rights> HttpAdmission::Admit(const HttpCaller& caller) const {
  const bool trusted = caller.local || options_.insecure_network;
  if (caller.token.empty() || !options_.has_keys) {
    auto named = admission_->ByCertificate(caller.uris);
    if (!named.ok()) return named.status();
    if (named->has_value()) return **std::move(named);
    if (trusted) return link::Rights();
    if (caller.certified) return link::Rights{.role = wire::native::Role::kObserve};
    return wire::native::WithReason(
        absl::UnauthenticatedError(
            "this page requires a token: send one in the header `Authorization: Bearer TOKEN` "
            "(`lockstep token create --role observe` makes it), or present a client certificate "
            "if the server runs with --client-ca"),
        "token_required");
  }
  // Within the host nobody can read along, and its user may see everything anyway.
  if (caller.local && !caller.secure) return link::Rights();
  if (!caller.secure) {
    return wire::native::WithReason(absl::UnauthenticatedError(kTokenInClear), "token_in_clear");
  }
  return admission_->Admit({.token = caller.token, .secure = true, .local = trusted});
}

absl::StatusOr<HttpAccess> AccessOfHttp(asio::io_context& io, const ServerOptions& options,
                                        const LinkListener& link) {
  const absl::Status loopback =
      runtime::CheckLoopback(io, *options.http, "--insecure-http-network");
  const bool insecure = options.insecure_network || options.insecure_http_network;
  const bool knows_callers =
      !options.token_keys.empty() || !options.certificate.client_authorities.empty();
  if (!loopback.ok() && !insecure && !knows_callers) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--http ", runtime::ToString(*options.http),
        " can be reached from other hosts, and the server has no keys to authenticate callers: "
        "make some with `lockstep auth init DIR` and give --auth DIR; or allow everybody there to "
        "see the status of all jobs with --insecure-http-network; or use 127.0.0.1"));
  }
  const auto admission = std::make_shared<HttpAdmission>(
      link.admission(), HttpAdmission::Options{.has_keys = !options.token_keys.empty(),
                                               .insecure_network = insecure});
  return HttpAccess{
      .accept_secure = [certificate = link.certificate()] { return certificate->AcceptHttp(); },
      .allows_plain = loopback.ok() || insecure,
      .admit = [admission](const HttpCaller& caller) { return admission->Admit(caller); }};
}

}  // namespace lockstep::server

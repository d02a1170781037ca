// Who may look at a server over HTTP.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "asio/io_context.hpp"
#include "lockstep/platform/link/rights.h"
#include "lockstep/server/http_listener.h"
#include "lockstep/server/options.h"

namespace lockstep::server {

class Admission;
class LinkListener;

// Users of this host, at a loopback address, see everything, and so does everybody where the
// operator calls the network safe. Others come by TLS and show a token, or a certificate of an
// authority of `client_ca`, which is worth a token of the role `observe` for all jobs, unless it
// names a member: then one of the role `task` for that job.
//
// Threads: thread-safe.
class HttpAdmission {
 public:
  struct Options {
    bool has_keys = false;          // to verify tokens; without, they mean nothing
    bool insecure_network = false;  // callers without a token may see everything
  };

  HttpAdmission(std::shared_ptr<Admission> admission, Options options)
      : admission_(std::move(admission)), options_(options) {}

  // UNAUTHENTICATED: `token_required`, `token_in_clear`, or as TokenKeys::Verify.
  // PERMISSION_DENIED: as Admission::ByCertificate.
  absl::StatusOr<link::Rights> Admit(const HttpCaller& caller) const;

 private:
  const std::shared_ptr<Admission> admission_;
  const Options options_;
};

// How the HTTP listener of these options is reached. FAILED_PRECONDITION, with what to do: other
// hosts could reach it, and it could not tell who calls.
absl::StatusOr<HttpAccess> AccessOfHttp(asio::io_context& io, const ServerOptions& options,
                                        const LinkListener& link);

}  // namespace lockstep::server

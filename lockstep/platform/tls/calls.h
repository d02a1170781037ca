// What a process uses OpenSSL for, set up once for all its connections: to call servers by TLS, and
// to prove secrets.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "lockstep/platform/tls/openssl.h"

namespace lockstep::tls {

// From here on, calls to an address that has a fingerprint are made by TLS (runtime::SecureCall),
// and secrets are proven (runtime::Secrets). Once, before the first call. `find` is asked on any
// thread, until it has found one, which outlives the process's last call.
using FindOpenSsl = std::function<absl::StatusOr<const OpenSsl*>()>;
void InstallSecureCalls(FindOpenSsl find);

}  // namespace lockstep::tls

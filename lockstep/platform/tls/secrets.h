// Proofs of a secret that two ends share, and TLS with it, by the OpenSSL of this process.
#pragma once

#include <memory>

#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/platform/tls/calls.h"

namespace lockstep::tls {

// `find` is asked until it has found one, which outlives the process's last use.
std::unique_ptr<const runtime::SharedSecrets> MakeSharedSecrets(FindOpenSsl find);

}  // namespace lockstep::tls

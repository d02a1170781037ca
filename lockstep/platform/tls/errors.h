// What OpenSSL says went wrong, as text.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/platform/tls/openssl.h"

namespace lockstep::tls {

// "WHAT: reason; reason", of this thread's queue of errors, which is empty afterwards.
std::string TakeErrors(const OpenSsl& openssl, std::string_view what);

}  // namespace lockstep::tls

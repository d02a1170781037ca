// HTTP over TLS, for the API server of Kubernetes. The only OpenSSL of this folder.
#pragma once

#include <string>

#include "lockstep/preempt/http_exchange.h"

namespace lockstep::preempt {

struct TlsOptions {
  std::string ca_file;     // whose certificates are trusted, and no others
  std::string token_file;  // its text is sent as a bearer token; read anew for each request
};

// The server must have a certificate of that authority for the host of `base`. The token is sent to
// nobody else, and stands in no error. UNAUTHENTICATED: the certificate is not right.
HttpExchange TlsExchange(BaseUrl base, TlsOptions options);

}  // namespace lockstep::preempt

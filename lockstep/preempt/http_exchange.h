// One HTTP request and its answer, over a connection of its own. No proxies, no redirects, no
// cookies: what comes is given as it is.
#pragma once

#include <functional>

#include "lockstep/preempt/http_message.h"
#include "lockstep/preempt/socket.h"

namespace lockstep::preempt {

// Waits for the answer; CANCELLED soon after `interrupt` became readable. Thread-compatible.
using HttpExchange =
    std::function<absl::StatusOr<HttpMessage>(const HttpRequest& request, int interrupt)>;

// Over plain TCP; `base` is an http:// one.
HttpExchange PlainExchange(BaseUrl base);

// The request and its answer over a stream that is connected.
absl::StatusOr<HttpMessage> Converse(Stream& stream, const BaseUrl& base,
                                     const HttpRequest& request);

// A connection for the request, with its deadlines.
absl::StatusOr<std::unique_ptr<TcpStream>> DialFor(const BaseUrl& base, const HttpRequest& request,
                                                   int interrupt);

}  // namespace lockstep::preempt

// One HTTP request and its answer, over a connection of its own. No proxies, no redirects, no
// cookies: what comes is given as it is.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "lockstep/preempt/http_message.h"

namespace lockstep::preempt {

// Waits for the answer; CANCELLED soon after `interrupt` became readable. Thread-compatible.
using HttpExchange =
    std::function<absl::StatusOr<HttpMessage>(const HttpRequest& request, int interrupt)>;

// Over plain TCP; `base` is an http:// one.
HttpExchange PlainExchange(BaseUrl base);

}  // namespace lockstep::preempt

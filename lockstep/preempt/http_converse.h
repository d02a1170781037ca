// The steps of an exchange, for those that put a layer in between.
#pragma once

#include "absl/status/statusor.h"
#include "lockstep/preempt/connection.h"
#include "lockstep/preempt/http_message.h"

namespace lockstep::preempt {

// From now on.
Patience PatienceOf(const HttpRequest& request, int interrupt);

// As Connection::Dial, within the request's `connect_timeout`.
absl::Status DialFor(Connection& connection, const BaseUrl& base, const HttpRequest& request);

// The request and its answer over a stream that is connected. INVALID_ARGUMENT: the request cannot
// be written; DATA_LOSS, RESOURCE_EXHAUSTED and UNAVAILABLE as HttpReader; else as Connection.
absl::StatusOr<HttpMessage> Converse(Stream& stream, const BaseUrl& base,
                                     const HttpRequest& request);

}  // namespace lockstep::preempt

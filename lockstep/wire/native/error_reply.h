// Errors of requests over the link: absl::Status on both sides, ErrorReply between them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::wire::native {

// `status` with a stable reason (docs/errors.md) for programs to test.
absl::Status WithReason(absl::Status status, std::string_view reason);

// The reason put in by `WithReason`; else the code's name in lower case ("not_found").
std::string ReasonOf(const absl::Status& status);

// `status` must not be OK.
ErrorReply ToErrorReply(const absl::Status& status);

// Never OK. A code that absl does not know becomes UNKNOWN.
absl::Status ToStatus(const ErrorReply& reply);

}  // namespace lockstep::wire::native

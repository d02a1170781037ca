// Errors of requests over the link: absl::Status on both sides, ErrorReply between them. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::wire::native {

// `status` with a stable reason (docs/errors.md) for programs to test.
absl::Status WithReason(absl::Status status, std::string_view reason);

// The reason put in by `WithReason`; else the code's name in lower case ("not_found").
std::string ReasonOf(const absl::Status& status);

// `status` with a fact for programs; replaces one of the same name. Known names: docs/errors.md.
absl::Status WithDetail(absl::Status status, std::string_view name, std::string_view value);

// What `WithDetail` put in, in order of the names.
std::map<std::string, std::string> DetailsOf(const absl::Status& status);

// `status` must not be OK.
ErrorReply ToErrorReply(const absl::Status& status);

// Never OK. A code that absl does not know becomes UNKNOWN.
absl::Status ToStatus(const ErrorReply& reply);

}  // namespace lockstep::wire::native

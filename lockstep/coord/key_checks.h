// What every request about keys has to keep to, and the errors that say which limit it is over.
// Pure.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"

namespace lockstep::coord {

// RESOURCE_EXHAUSTED (limit_exceeded): `what` is over the limit of that name, which is `value`.
ErrorPtr OverLimit(absl::string_view what, absl::string_view limit, size_t value);
// INVALID_ARGUMENT (invalid_argument).
ErrorPtr InvalidRequest(std::string text);

// Null when the key may be named so. RESOURCE_EXHAUSTED (limit_exceeded): longer than
// key_bytes_max. INVALID_ARGUMENT (key_invalid): it has a zero byte, or a native caller names
// nothing.
ErrorPtr CheckKey(const CoordinatorOptions& options, const Caller& caller, absl::string_view key);

// Null, or INVALID_ARGUMENT (invalid_argument): its time is not above zero.
ErrorPtr CheckLifetime(const KeyLifetime& lifetime);

// Null, or INVALID_ARGUMENT (invalid_argument): it does not expect exactly one thing.
ErrorPtr CheckCondition(const CompareAndSetKey& request);

}  // namespace lockstep::coord

// Fills in what a program did not say from its environment. Internal.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/client/member.h"
#include "lockstep/client/session.h"
#include "lockstep/platform/link/servers.h"

namespace lockstep::client {

// What an environment variable holds; nothing when it is not set or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> ProcessEnvironment(const char* name);

// The options with everything filled in, checked. INVALID_ARGUMENT names the option or variable
// that makes no sense, or is missing.
absl::StatusOr<JoinOptions> Resolve(JoinOptions options, const Environment& environment);
absl::StatusOr<SessionOptions> Resolve(SessionOptions options, const Environment& environment);

// The servers of an `address` option, which was filled in. INVALID_ARGUMENT (invalid_argument)
// names the option, as when it was checked: a file of servers may have changed since.
absl::StatusOr<std::shared_ptr<link::Servers>> ServersAt(const std::string& address);

}  // namespace lockstep::client

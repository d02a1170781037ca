// How `lockstep run` reaches its server before it has started anything.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/link/client.h"

namespace lockstep::cli {

// Retries for 2 s when nobody answers, since the server may have been started a moment ago, and for
// a minute when the server cannot check this client's token, which it says on standard error. Of
// several servers of which none leads, one may be about to: retries for 10 s.
// Errors: as link::Client::Connect.
absl::StatusOr<std::unique_ptr<link::Client>> ConnectForRun(const std::string& coordinator);

// How long to wait before the next try after that error.
absl::Duration RetryIntervalAfter(const absl::Status& status);

}  // namespace lockstep::cli

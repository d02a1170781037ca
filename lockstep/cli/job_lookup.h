// Finds a job on a server that runs already.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/launch/environment.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::cli {

struct FoundJob {
  launch::JobAddress address;
  int32_t size = 0;
};

// Chooses from what the server at `coordinator` told. `job` empty: the only one there is.
// `processes` zero: as many as the job has. Pure. The error says what there is instead.
absl::StatusOr<FoundJob> ChooseJob(const wire::native::StatusReply& reply,
                                   const std::string& coordinator, const std::string& job,
                                   int32_t processes);

// Asks the server, and chooses. Waits a few seconds at most.
absl::StatusOr<FoundJob> LookUpJob(const std::string& coordinator, const std::string& job,
                                   int32_t processes);

}  // namespace lockstep::cli

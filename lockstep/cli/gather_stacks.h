// Asks the launchers of a job where its processes are in their code.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/cli/stack_keys.h"
#include "lockstep/launch/stacks.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::cli {

struct GatheredStacks {
  std::vector<launch::ProcessStacks> processes;  // by member
  std::vector<std::string> silent;  // members that are known to run and whom nobody told of
};

// Members that others wait for: at open barriers, in torch's store, or since they are not there.
std::vector<int32_t> MissingMembers(const wire::native::JobStatus& job);

// Of the members that are asked for. Waits until all whose process is known have been told of,
// `timeout` at most.
absl::StatusOr<GatheredStacks> GatherStacks(const std::string& coordinator,
                                            const wire::native::JobStatus& job,
                                            std::vector<int32_t> members, bool native,
                                            absl::Duration timeout);

}  // namespace lockstep::cli

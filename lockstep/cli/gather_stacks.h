// Asks the launchers of a job where its processes are in their code.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/launch/stacks.h"
#include "lockstep/observe/suspects.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::cli {

struct GatheredStacks {
  std::vector<launch::ProcessStacks> processes;  // by member
  std::vector<std::string> silent;  // members that are known to run and whom nobody told of
};

// Whether a launcher may still have a process of it to tell of.
bool MayAnswer(const wire::native::MemberStatus& member);

// Members that others wait for: at open barriers, in torch's store, or since they are not there.
std::vector<int32_t> MissingMembers(const wire::native::JobStatus& job);

// What a look may do to the processes; by default nothing.
struct StackMeans {
  bool native = false;  // gdb stops them for seconds
  bool signal = false;  // who does not answer otherwise is signalled
};

// Of the members that are asked for. Waits until all whose process is known have been told of,
// `timeout` at most. PERMISSION_DENIED (`not_permitted`): the token does not allow to look.
absl::StatusOr<GatheredStacks> GatherStacks(const std::string& coordinator,
                                            const wire::native::JobStatus& job,
                                            std::vector<int32_t> members, StackMeans means,
                                            absl::Duration timeout);

struct TakenSnapshots {
  std::vector<observe::StackSnapshot> all;
  absl::Status refused;  // PERMISSION_DENIED, as of GatherStacks; OK: we might look
};

// What `lockstep why` goes by: where they are now, unless one has failed, and twice when the first
// time does not tell for how long; and where they were when something timed out. Waits for
// `timeout` at most, and a second between two looks. What cannot be had is left out.
TakenSnapshots TakeSnapshots(const std::string& coordinator, const wire::native::JobStatus& job,
                             absl::Duration timeout);

std::vector<observe::ProcessLocation> LocationsOf(
    const std::vector<launch::ProcessStacks>& processes);

}  // namespace lockstep::cli

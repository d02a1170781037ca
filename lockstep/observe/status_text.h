// The server's status for people and for programs. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// Jobs with more members than this have one row for all members of a state that tells nothing about
// each of them (connected, left, registering, missing; process runs or ended):
// `members_listed_max`.
inline constexpr int32_t kMembersListedMax = 16;

// Whether somebody should look: the attempt failed, or a member is lost or failed, or a process of
// programs that nobody joins from. A suspect member may come back and is no trouble yet.
bool InTrouble(const wire::native::JobStatus& job);

// For people, about a hundred columns wide; what needs a look comes first. Whatever clients wrote
// (keys, messages) comes without control characters. Ends with a new line.
std::string StatusTable(const wire::native::StatusReply& status);

// For programs: all of it, as proto/lockstep/v1/status.proto names it. Ends with a new line.
std::string StatusJson(const wire::native::StatusReply& status);

}  // namespace lockstep::observe

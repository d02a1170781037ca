// What our own programs ask a server, in terms of its jobs.
#pragma once

#include <variant>

#include "absl/status/statusor.h"
#include "lockstep/coord/events.h"
#include "lockstep/wire/native/process_messages.h"

namespace lockstep::server {

// The fact that a launcher reports. INVALID_ARGUMENT for a member that a job of `size` does not
// have and for events this server does not know.
absl::StatusOr<coord::Event> EventOf(const wire::native::ProcessReport& report, int32_t size);

}  // namespace lockstep::server

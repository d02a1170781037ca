// Asks the data service of a server which members of a job wait for it.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/observe/why_data.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::cli {

// None when nobody does, or the server does not answer in that time. Takes half a second more when
// somebody may wait: it looks twice.
std::vector<observe::DataWait> DataWaitsAt(const std::string& coordinator,
                                           const wire::native::JobStatus& job,
                                           absl::Duration timeout);

}  // namespace lockstep::cli

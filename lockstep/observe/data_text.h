// The data service of a server, for people and programs. Pure. Each text ends with a new line;
// whatever clients wrote comes without control characters.
#pragma once

#include <string>

#include "lockstep/wire/native/data_status_messages.h"

namespace lockstep::observe {

// Iterations with how far they are and who waits for whom, then workers, then datasets. With a
// name: that iteration alone, with each of its consumers and tasks.
std::string DataTable(const wire::native::DataStatusReply& status, const std::string& iteration);
// {"datasets": [...], "iterations": [...], "workers": [...], ...}
std::string DataJson(const wire::native::DataStatusReply& status, const std::string& iteration);

}  // namespace lockstep::observe

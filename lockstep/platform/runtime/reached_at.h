// Where a server is that listens everywhere. Pure.
#pragma once

#include <string>

namespace lockstep::runtime {

// HOST:PORT for those who were told that something listens at `address`, by a server that they
// reach at `via`: 0.0.0.0 and [::] say only that any address of that server's host will do, and
// whoever dials them reaches himself. What is no HOST:PORT is left as it is.
std::string ReachedAt(const std::string& address, const std::string& via);

}  // namespace lockstep::runtime

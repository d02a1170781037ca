// What a failed call says, beyond code and text. Public.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"

namespace lockstep {

// Why, in one stable word that programs test: docs/errors.md lists them. Of a status that did not
// come from Lockstep, its code in lower case.
std::string ReasonOf(const absl::Status& status);

// Facts for programs, such as "job", "server", "member", "request" ("barrier 'loaded'") and
// "waited_ms". Empty when there are none.
std::map<std::string, std::string> DetailsOf(const absl::Status& status);

}  // namespace lockstep

#include "lockstep/client/errors.h"

#include "lockstep/wire/native/error_reply.h"

namespace lockstep {

std::string ReasonOf(const absl::Status& status) { return wire::native::ReasonOf(status); }

std::map<std::string, std::string> DetailsOf(const absl::Status& status) {
  return wire::native::DetailsOf(status);
}

}  // namespace lockstep

#include "lockstep/wire/native/codec.h"

#include "absl/strings/str_format.h"

namespace lockstep::wire::native::internal {

bool DecodeState::Fail(std::string_view message, std::string_view field, std::string_view what) {
  error = absl::StrFormat("%s.%s %s", message, field, what);
  return false;
}

}  // namespace lockstep::wire::native::internal

#include "lockstep/platform/link/own_token.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {

absl::StatusOr<std::string> OwnToken() {
  const char* const path = std::getenv("LOCKSTEP_TOKEN_FILE");
  if (path == nullptr || *path == '\0') return std::string();
  const auto text = runtime::ReadSecretFile(path);
  if (text.ok()) return std::string(absl::StripAsciiWhitespace(*text));
  return wire::native::WithReason(
      absl::Status(text.status().code(),
                   absl::StrCat("LOCKSTEP_TOKEN_FILE: ", std::string(text.status().message()))),
      "token_file");
}

}  // namespace lockstep::link

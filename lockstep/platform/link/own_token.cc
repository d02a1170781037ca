#include "lockstep/platform/link/own_token.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {

absl::StatusOr<std::string> OwnToken() {
  const char* const path = std::getenv("LOCKSTEP_TOKEN_FILE");
  if (path == nullptr || *path == '\0') return std::string();
  const auto text = runtime::ReadSecretFile(path);
  if (!text.ok()) {
    return wire::native::WithReason(
        absl::Status(text.status().code(),
                     absl::StrCat("LOCKSTEP_TOKEN_FILE: ", std::string(text.status().message()))),
        "token_file");
  }
  std::string token(absl::StripAsciiWhitespace(*text));
  if (token.size() <= wire::native::kTokenBytes.max) return token;
  return wire::native::WithReason(
      absl::FailedPreconditionError(absl::StrFormat(
          "LOCKSTEP_TOKEN_FILE: %s contains %d bytes; a token has at most %d (token_bytes_max)",
          path, token.size(), wire::native::kTokenBytes.max)),
      "token_file");
}

}  // namespace lockstep::link

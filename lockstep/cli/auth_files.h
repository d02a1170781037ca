// The files that `lockstep auth init DIR` makes.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"

namespace lockstep::cli {

struct AuthFiles {
  explicit AuthFiles(const std::string& directory)
      : authority(absl::StrCat(directory, "/ca.pem")),
        authority_key(absl::StrCat(directory, "/ca.key")),
        server(absl::StrCat(directory, "/server.pem")),
        server_key(absl::StrCat(directory, "/server.key")),
        token_key(absl::StrCat(directory, "/token.key")) {}

  std::string authority;      // certificate of the authority; everybody may have it
  std::string authority_key;  // secret; needed only for renewals
  std::string server;         // certificate of the server, and behind it the authority's
  std::string server_key;     // secret
  std::string token_key;      // secret: one or two keys, of which the first signs
};

}  // namespace lockstep::cli

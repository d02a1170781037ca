// The answer to a request of a kind that nobody takes where it arrived. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kind.h"

namespace lockstep::wire::native {

// UNIMPLEMENTED, `unknown_request`.
inline absl::Status UnknownRequest(RequestKind kind) {
  return WithReason(absl::UnimplementedError(absl::StrCat("this server knows no request of kind ",
                                                          kind, ": it is older than the client")),
                    "unknown_request");
}

}  // namespace lockstep::wire::native

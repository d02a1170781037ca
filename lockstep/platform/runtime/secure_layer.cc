#include "lockstep/platform/runtime/secure_layer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::runtime {
namespace {

// Of the process, since connections are dialled in many places and all of them by the same means.
// Never destroyed: threads may still dial while the process ends.
MakeSecureCall& Calls() {
  static MakeSecureCall* const calls = new MakeSecureCall();
  return *calls;
}

}  // namespace

void SetSecureCalls(MakeSecureCall make) {
  LOCKSTEP_CHECK(make != nullptr);
  Calls() = std::move(make);
}

absl::StatusOr<std::unique_ptr<SecureLayer>> SecureCall(const Address& server) {
  if (Calls() != nullptr) return Calls()(server);
  return absl::FailedPreconditionError(
      absl::StrCat("this program has no TLS, which ", ToString(server),
                   " is to be called with (its address has a certificate)"));
}

}  // namespace lockstep::runtime

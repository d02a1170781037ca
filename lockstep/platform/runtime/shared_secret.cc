#include "lockstep/platform/runtime/shared_secret.h"

#include <utility>

#include "absl/status/status.h"
#include "lockstep/base/check.h"

namespace lockstep::runtime {
namespace {

class NoSecrets final : public SharedSecrets {
 public:
  absl::StatusOr<SecretHash> Hash(std::string_view, std::string_view) const override {
    return Failed();
  }
  absl::StatusOr<bool> Same(const SecretHash&, const SecretHash&) const override {
    return Failed();
  }
  absl::StatusOr<MakeLayer> Call(std::string_view) const override { return Failed(); }
  absl::StatusOr<MakeLayer> Accept(std::string_view) const override { return Failed(); }

 private:
  static absl::Status Failed() {
    return absl::FailedPreconditionError("this program has no OpenSSL to use a secret with");
  }
};

// Of the process, as the calls of secure_layer.cc, and like them never destroyed.
const SharedSecrets*& Installed() {
  static const NoSecrets* const none = new NoSecrets();
  static const SharedSecrets* installed = none;
  return installed;
}

}  // namespace

void SetSharedSecrets(std::unique_ptr<const SharedSecrets> secrets) {
  LOCKSTEP_CHECK(secrets != nullptr);
  Installed() = secrets.release();
}

const SharedSecrets& Secrets() { return *Installed(); }

}  // namespace lockstep::runtime

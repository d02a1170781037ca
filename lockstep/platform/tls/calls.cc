#include "lockstep/platform/tls/calls.h"

#include <memory>
#include <utility>

#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/platform/tls/context.h"

namespace lockstep::tls {
namespace {

// Remembers what the last call needed: a process calls one server, again and again.
//
// Threads: any.
class Calls {
 public:
  explicit Calls(FindOpenSsl find) : find_(std::move(find)) {}

  absl::StatusOr<std::unique_ptr<runtime::SecureLayer>> Make(const runtime::Address& server) {
    const MutexLock lock(mutex_);
    if (last_ == nullptr || last_->expected().fingerprint != server.fingerprint ||
        last_->expected().host != server.host) {
      const auto openssl = find_();
      if (!openssl.ok()) return openssl.status();
      auto context = ClientContext::Make(
          **openssl, {.fingerprint = server.fingerprint, .authorities = {}, .host = server.host},
          /*own=*/{});
      if (!context.ok()) return context.status();
      last_ = *std::move(context);
    }
    return ClientContext::Call(last_);
  }

 private:
  const FindOpenSsl find_;
  Mutex mutex_;
  std::shared_ptr<const ClientContext> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void InstallSecureCalls(FindOpenSsl find) {
  auto calls = std::make_shared<Calls>(std::move(find));
  runtime::SetSecureCalls(
      [calls = std::move(calls)](const runtime::Address& server) { return calls->Make(server); });
}

}  // namespace lockstep::tls

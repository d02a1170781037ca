// Who may do what at a server.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/auth/token_keys.h"
#include "lockstep/platform/link/rights.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/server/member_uri.h"

namespace lockstep::server {

// Takes tokens that are signed with the server's keys. Instead of one, a caller may have a
// certificate that names a member (MemberUri). Without either only those may come whom the kernel
// knows as users of this host (runtime::AllowedPeers); they may do everything. So may everybody on
// a network that the operator calls safe.
//
// The file of the keys is read again when it has changed; if the new one cannot be read, the keys
// stay what they are, and the log says so.
//
// Threads: thread-safe.
class Admission {
 public:
  using Log = std::function<void(std::string)>;
  struct Options {
    std::string token_keys;         // a file; empty: there are no tokens
    bool insecure_network = false;  // callers without a token may do everything
    bool kubernetes = false;        // there are others, which TokenReviewer knows
    // Absent: certificates name no members.
    std::optional<MemberUri> member_uri = std::nullopt;
  };

  // NOT_FOUND, FAILED_PRECONDITION or INVALID_ARGUMENT name the file of the keys and what is wrong.
  static absl::StatusOr<std::shared_ptr<Admission>> Load(Options options, Log log);

  // What the caller may. UNAUTHENTICATED: `token_required`, `token_in_clear` (a token came where
  // others can read along), or as TokenKeys::Verify. PERMISSION_DENIED: as `ByCertificate`.
  absl::StatusOr<link::Rights> Admit(const link::Greeting& greeting);

  // What a caller without a token may by its certificate with these URIs, which are none where it
  // has no certificate: what a task of the job may as that member. Nothing: it names no member.
  // Errors as MemberUri::Find.
  absl::StatusOr<std::optional<link::Rights>> ByCertificate(
      const std::vector<std::string>& uris) const;

  struct TaskToken {
    std::string token;  // empty: there are no tokens here
    absl::Duration lasts;
  };
  // For the processes of that job. Lasts kTaskTokenLasts, but not beyond `until`, when the token of
  // who asks for it expires. INVALID_ARGUMENT (`invalid_argument`): no job can have that name.
  // UNAUTHENTICATED (`token_expired`): it has expired.
  absl::StatusOr<TaskToken> MakeTaskToken(const std::string& job, absl::Time until) const;
  static constexpr absl::Duration kTaskTokenLasts = absl::Hours(24);

 private:
  using Keys = std::shared_ptr<const auth::TokenKeys>;

  Admission(Options options, Log log) : options_(std::move(options)), log_(std::move(log)) {}
  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Read again if the file has changed; null: there are none.
  Keys CurrentKeys();

  const Options options_;
  const Log log_;
  mutable Mutex mutex_;
  runtime::FileState state_ ABSL_GUARDED_BY(mutex_);  // of the file, when it was last read
  Keys keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::server

#include "lockstep/cli/task_token.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/cli/run_connection.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/link/own_token.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/runtime/signals_blocked.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::cli {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(10);
// After a failure; and no more often than that, however short a server says that a token lasts.
constexpr absl::Duration kRetry = absl::Minutes(1);

}  // namespace

absl::StatusOr<std::unique_ptr<TaskToken>> TaskToken::Obtain(const std::string& coordinator,
                                                             const std::string& job,
                                                             const std::string& folder) {
  const auto own = link::OwnToken();
  if (!own.ok()) return own.status();
  if (own->empty()) return nullptr;
  if (folder.empty()) {
    return absl::FailedPreconditionError(
        "there is no folder for the processes' token: set TMPDIR to a directory that can be "
        "written");
  }
  std::unique_ptr<TaskToken> token(
      new TaskToken(coordinator, job, absl::StrCat(folder, "/task.token")));
  const auto lasts = token->Renew(ConnectForRun(coordinator));
  if (!lasts.ok()) return lasts.status();
  if (*lasts == absl::ZeroDuration()) return nullptr;
  const runtime::AllSignalsBlocked blocked;  // those are for the launcher's own thread
  token->thread_ = std::thread([raw = token.get(), lasts = *lasts] { raw->KeepFresh(lasts); });
  return token;
}

TaskToken::~TaskToken() {
  {
    const MutexLock lock(mutex_);
    over_ = true;
    over_changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<absl::Duration> TaskToken::Renew(
    const absl::StatusOr<std::unique_ptr<link::Client>>& client) {
  if (!client.ok()) return client.status();
  const auto reply = (*client)->Call(wire::native::CreateTaskToken{.job = job_}, kTimeout);
  // An older server, which takes no tokens.
  if (absl::IsUnimplemented(reply.status())) return absl::ZeroDuration();
  if (!reply.ok()) return reply.status();
  if (reply->token.empty()) return absl::ZeroDuration();
  absl::Status written = runtime::ReplaceSecretFile(path_, reply->token + "\n");
  if (!written.ok()) return written;
  return absl::Microseconds(reply->lasts_us);
}

void TaskToken::KeepFresh(absl::Duration lasts) {
  WaitLimit due = WaitLimitAfter(std::max(lasts / 2, kRetry));
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!over_ && over_changed_.WaitUntil(mutex_, due)) {
      }
      if (over_) return;
    }
    // Without patience: the launcher may end meanwhile.
    const auto renewed =
        Renew(link::Client::Connect(coordinator_, kTimeout, {.who = "lockstep run"}));
    if (!renewed.ok()) {
      std::fprintf(
          stderr, "lockstep run: cannot renew the processes' token, trying again in 1 minute: %s\n",
          std::string(renewed.status().message()).c_str());
    }
    due = WaitLimitAfter(renewed.ok() ? std::max(*renewed / 2, kRetry) : kRetry);
  }
}

}  // namespace lockstep::cli

#include "lockstep/cli/run_connection.h"

#include <cstdio>
#include <thread>

#include "lockstep/platform/link/refusals.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::cli {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);
constexpr absl::Duration kStartingTimeout = absl::Seconds(2);
constexpr absl::Duration kRetryInterval = absl::Milliseconds(50);
// Of a server whose Kubernetes API server is away, for a restart of that.
constexpr absl::Duration kUndecidedTimeout = absl::Minutes(1);
constexpr absl::Duration kUndecidedRetryInterval = absl::Seconds(1);
// Of several servers one comes to lead within seconds of the loss of another.
constexpr absl::Duration kElectionTimeout = absl::Seconds(10);
static_assert(kRetryInterval < kStartingTimeout && kStartingTimeout < kTimeout);
static_assert(kUndecidedRetryInterval < kUndecidedTimeout);

bool IsUndecided(const absl::Status& status) {
  return link::IsUndecided(wire::native::ReasonOf(status));
}

}  // namespace

absl::Duration RetryIntervalAfter(const absl::Status& status) {
  return IsUndecided(status) ? kUndecidedRetryInterval : kRetryInterval;
}

absl::StatusOr<std::unique_ptr<link::Client>> ConnectForRun(const std::string& coordinator) {
  const Time began = runtime::MonotonicNow();
  bool said = false;
  for (;;) {
    auto client = link::Client::Connect(coordinator, kTimeout, {.who = "lockstep run"});
    if (client.ok() || !absl::IsUnavailable(client.status())) return client;
    const bool undecided = IsUndecided(client.status());
    const absl::Duration patience = undecided                         ? kUndecidedTimeout
                                    : link::LeadsNot(client.status()) ? kElectionTimeout
                                                                      : kStartingTimeout;
    if (runtime::MonotonicNow() - began >= patience) return client;
    if (undecided && !said) {
      said = true;
      std::fprintf(stderr, "lockstep run: trying again for %s: %s\n",
                   absl::FormatDuration(patience).c_str(),
                   std::string(client.status().message()).c_str());
    }
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(RetryIntervalAfter(client.status())));
  }
}

}  // namespace lockstep::cli

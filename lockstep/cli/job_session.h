// A session of a job that is no member's, for subcommands that ask about one job.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

// A link on which a session of the job is open.
absl::StatusOr<std::unique_ptr<link::Client>> OpenJob(ServerCommand& self, const std::string& job);

// Of the option `name`, which says `text`; above zero unless said otherwise.
absl::StatusOr<absl::Duration> ParseDuration(const std::string& name, const std::string& text,
                                             bool may_be_zero = false);

// What waits at a job, also while its server is started anew: it is looked for as long as other
// clients do by default.
class Waiter {
 public:
  Waiter(ServerCommand& self, std::string job) : self_(self), job_(std::move(job)) {}

  // `timeout` is of the whole. What waits has no effect, so it may be asked again.
  template <class RequestMessage>
  auto Ask(const RequestMessage& request, absl::Duration timeout)
      -> absl::StatusOr<typename link::KindOf<RequestMessage>::Reply> {
    const Time deadline = runtime::MonotonicNow() + timeout;
    for (;;) {
      absl::Status status = Open();
      if (status.ok()) {
        auto reply = client_->Call(request, deadline - runtime::MonotonicNow());
        if (!HasGone(reply.status())) return reply;
        status = reply.status();
        client_.reset();
      }
      if (status = LookAgain(status, deadline); !status.ok()) return status;
    }
  }

  // Whether the job could be opened at all.
  bool opened() const { return opened_; }

 private:
  // The server, or the job's coordinator, stops; whether for good, its successor says.
  static bool HasGone(const absl::Status& status);
  absl::Status Open();
  // Waits a moment. Not OK when that makes no sense (any more).
  absl::Status LookAgain(const absl::Status& why, Time deadline);

  ServerCommand& self_;
  const std::string job_;
  std::unique_ptr<link::Client> client_;
  bool opened_ = false;
  std::optional<Time> away_since_;
  absl::Duration pause_;
};

}  // namespace lockstep::cli

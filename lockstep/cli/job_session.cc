#include "lockstep/cli/job_session.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::cli {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// How long a server that went is looked for, as the clients' `grace`; and how often.
constexpr absl::Duration kGrace = absl::Minutes(1);
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
static_assert(kFirstPause < kLongestPause && kLongestPause < kGrace);

Bytes RandomSession() { return {runtime::RandomBytes(16)}; }

}  // namespace

absl::StatusOr<std::unique_ptr<link::Client>> OpenJob(ServerCommand& self, const std::string& job) {
  auto client = self.Connect();
  if (!client.ok()) return client.status();
  const OpenSession open{.session = RandomSession(), .job = job};
  if (auto reply = (*client)->Call(open, self.timeout()); !reply.ok()) return reply.status();
  return client;
}

absl::StatusOr<absl::Duration> ParseDuration(const std::string& name, const std::string& text,
                                             bool may_be_zero) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " '", text, "': not a duration such as 5s"));
  }
  if (duration < absl::ZeroDuration() || (duration == absl::ZeroDuration() && !may_be_zero)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " '", text, may_be_zero ? "': must not be below zero" : "': must be above zero"));
  }
  return duration;
}

bool Waiter::HasGone(const absl::Status& status) {
  return absl::IsUnavailable(status) || ReasonOf(status) == "service_stopped";
}

absl::Status Waiter::Open() {
  if (client_ != nullptr) return absl::OkStatus();
  auto client = OpenJob(self_, job_);
  if (!client.ok()) {
    // One that is being started may take its time to welcome us.
    return opened_ && absl::IsDeadlineExceeded(client.status())
               ? absl::UnavailableError(client.status().message())
               : client.status();
  }
  client_ = *std::move(client);
  if (opened_) self_.Say("the server is back");
  opened_ = true;
  away_since_.reset();
  return absl::OkStatus();
}

absl::Status Waiter::LookAgain(const absl::Status& why, Time deadline) {
  // At first an error is the user's to mend.
  if (!opened_ || !HasGone(why)) return why;
  const Time now = runtime::MonotonicNow();
  if (!away_since_) {
    away_since_ = now;
    pause_ = kFirstPause;
    self_.Say(absl::StrCat(std::string(why.message()), "; reconnecting, for up to ",
                           absl::FormatDuration(kGrace)));
  }
  if (now >= *away_since_ + kGrace || now >= deadline) return why;
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(std::min(pause_, deadline - now)));
  pause_ = std::min(2 * pause_, kLongestPause);
  return absl::OkStatus();
}

}  // namespace lockstep::cli

// `lockstep events [JOB] [--follow]`: what has happened, one line each.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/tables.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::cli {
namespace {

using wire::native::WatchEvents;
using wire::native::WatchEventsReply;

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
static_assert(kFirstPause < kLongestPause);

// Prints the events that come, and goes on where it was when the server comes back.
class Follower {
 public:
  Follower(ServerCommand& self, WatchEvents request, bool follow)
      : self_(self), request_(std::move(request)), follow_(follow) {}

  int Run() {
    for (;;) {
      const absl::Status status = FollowOneLink();
      if (status.ok()) return kExitOk;
      // Before the first answer an error is the user's to mend; later the server may come back.
      if (!absl::IsUnavailable(status) || !answered_ || !follow_) return self_.Fail(status);
      if (pause_ == kFirstPause)
        self_.Say(absl::StrCat(std::string(status.message()), "; trying again"));
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(pause_));
      pause_ = std::min(2 * pause_, kLongestPause);
    }
  }

 private:
  // OK when nothing is to be followed (any more).
  absl::Status FollowOneLink() {
    auto client = self_.Connect();
    if (!client.ok()) return client.status();
    for (;;) {
      // Only what is there already must come in time.
      const bool parks = follow_ && answered_;
      request_.wait = parks;
      const auto reply =
          (*client)->Call(request_, parks ? absl::InfiniteDuration() : self_.timeout());
      if (!reply.ok()) return reply.status();
      Print(*reply);
      // Where nothing can be printed any more nobody follows; `main` says why.
      if (!follow_ || !self_.out().good()) return absl::OkStatus();
    }
  }

  void Print(const WatchEventsReply& reply) {
    if (answered_ && reply.log != request_.log) {
      self_.Say("the server was restarted");
      shown_before_us_ = shown_us_;
    }
    if (reply.forgotten > 0) {
      self_.Say(absl::StrCat(reply.forgotten, " older events are no longer stored (events_max)"));
    }
    const int64_t now_us = absl::ToUnixMicros(absl::Now());
    for (const wire::native::JobEvent& event : reply.events) {
      // A server with a state tells again what its former life told.
      if (event.at_unix_us != 0 && event.at_unix_us <= shown_before_us_) continue;
      shown_us_ = std::max(shown_us_, event.at_unix_us);
      self_.out() << (self_.json() ? observe::EventJsonLine(event, request_.job, now_us)
                                   : observe::EventLine(event, now_us));
    }
    self_.out().flush();
    request_.log = reply.log;
    request_.after = reply.next_after;
    answered_ = true;
    pause_ = kFirstPause;
  }

  ServerCommand& self_;
  WatchEvents request_;
  const bool follow_;
  bool answered_ = false;
  int64_t shown_us_ = 0;         // when the newest event that was shown happened
  int64_t shown_before_us_ = 0;  // the same, before the server was restarted
  absl::Duration pause_ = kFirstPause;
};

}  // namespace

void AddEvents(CLI::App& app, Invocation& invocation) {
  CLI::App* const command =
      app.add_subcommand("events", "Print the events of a job, or of the server itself");
  auto job = std::make_shared<std::string>();
  auto follow = std::make_shared<bool>(false);
  command->add_option("job", *job, "Job. Default: the server itself")->type_name("JOB");
  command->add_flag("-f,--follow", *follow, "Wait for further events, even if the server restarts");
  AddServerCommand(*command, invocation, "events", [job, follow](ServerCommand& self) {
    return Follower(self, WatchEvents{.job = *job}, *follow).Run();
  });
}

}  // namespace lockstep::cli

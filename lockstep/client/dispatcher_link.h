// A reader's link to the dispatcher of the data service: its requests as messages, the answers as
// events, and since when the server cannot be reached.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asio/io_context.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/client/call.h"
#include "lockstep/client/client_shell.h"
#include "lockstep/client/redialed_link.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/platform/link/servers.h"

namespace lockstep::client {

// Threads: thread-safe but for what says "on the loop". Bounds: its callers'. Ownership: `End`
// before letting go.
class DispatcherLink : public std::enable_shared_from_this<DispatcherLink> {
 public:
  using Answered = absl::AnyInvocable<void(dispatch::DispatcherAnswered)>;
  // The server could not be reached the last time.
  struct Outage {
    absl::Status why;
    Time since;
  };

  DispatcherLink(asio::io_context& io, std::shared_ptr<link::Servers> servers);
  DispatcherLink(const DispatcherLink&) = delete;
  DispatcherLink& operator=(const DispatcherLink&) = delete;

  // For people: one address, or several, or the file that names them.
  const std::string& server() const { return server_; }

  // Blocks until the server has answered, and asks again while it cannot be reached. Returns the
  // answer, or the error that the server answered with; DEADLINE_EXCEEDED (server_unavailable): it
  // did not by `deadline`; else what `ClientShell::Wait` returns.
  absl::StatusOr<std::string> Call(const ClientShell& shell, link::RequestKind kind,
                                   const std::string& payload, Time deadline,
                                   const Interrupted& interrupted);

  // On the loop. Calls back once, perhaps at once; never after `End`. The event is `unavailable`
  // when the server could not be reached or ends.
  void Send(dispatch::SendToDispatcher request, Answered answered);
  // On the loop. Says farewell.
  void End();

  // Of what `Send` sent. Nothing: the server was reached the last time.
  std::optional<Outage> outage() const;

 private:
  void NoteReached();
  void NoteUnreached(const absl::Status& why);

  const std::string server_;
  const std::shared_ptr<RedialedLink> link_;
  bool ended_ = false;  // the loop's
  mutable Mutex mutex_;
  std::optional<Outage> outage_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::client

// A link of a client, to the server or to a worker, that is made when it is first needed, and again
// after it was lost.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/link/servers.h"

namespace lockstep::client {

// Threads: loop-confined. Bounds: its callers'. Ownership: keep it; `End` before letting go.
class RedialedLink : public std::enable_shared_from_this<RedialedLink> {
 public:
  // `reached`: the other end has answered this; else it could not be reached, or was lost
  // meanwhile.
  using Answered = absl::AnyInvocable<void(absl::StatusOr<std::string>, bool reached)>;

  // `token`: what one life of a process wants to see instead of this process's own token; when
  // another process answers at its address, it is not reached.
  RedialedLink(asio::io_context& io, std::shared_ptr<link::Servers> servers, std::string who,
               std::optional<std::string> token = std::nullopt)
      : io_(io), servers_(std::move(servers)), who_(std::move(who)), token_(std::move(token)) {}

  // Calls back once, perhaps at once; never after `End`.
  void Call(link::RequestKind kind, std::string payload, Answered answered);
  // Says farewell.
  void End();

 private:
  struct Waiting {
    link::RequestKind kind;
    std::string payload;
    Answered answered;
  };
  void Dial();
  void Send(Waiting call);

  asio::io_context& io_;
  const std::shared_ptr<link::Servers> servers_;
  const std::string who_;
  const std::optional<std::string> token_;
  std::shared_ptr<link::ClientLink> link_;
  bool ready_ = false;
  bool was_ready_ = false;  // it has been welcomed once
  bool ended_ = false;
  std::deque<Waiting> waiting_;
};

}  // namespace lockstep::client

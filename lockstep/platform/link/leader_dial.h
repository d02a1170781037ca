// Calls several servers until one that leads welcomes the link. Internal to ClientLink.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/link/leader_search.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/platform/link/servers.h"

namespace lockstep::link {

// The detail of a `not_leader` error that names the server that leads.
inline constexpr char kLeaderDetail[] = "leader";

// The shell around one LeaderSearch: a link of its own to each server that is called, of which the
// one that leads is handed over and the others are abandoned.
//
// Threads: loop-confined (to `io`). Ownership: keep it until one of the events, or `Abandon` it.
class LeaderDial : public std::enable_shared_from_this<LeaderDial> {
 public:
  struct Attempt {
    absl::Duration timeout;  // for the connections, from the beginning of the search
    std::string who;
    LinkOptions link;
    std::optional<std::string> token;
  };
  // One of them, once, never from within `Start`.
  struct Events {
    // `leader` is for the receiver to take over, in this call.
    std::function<void(ClientLink& leader, const wire::native::Welcome&)> found;
    std::function<void(const absl::Status& why)> failed;
  };

  LeaderDial(asio::io_context& io, std::shared_ptr<Servers> servers, Attempt attempt,
             Events events);

  void Start();
  // Calls nobody back any more.
  void Abandon();
  // What is wrong with each server so far; OK before the first.
  absl::Status why() const;

 private:
  // Calls the servers that are due, and arms the timer for the next.
  void CallNext();
  void Call(size_t server);
  void Welcomed(size_t server, const wire::native::Welcome& welcome);
  void Closed(size_t server, const absl::Status& why);
  void Arm();

  asio::io_context& io_;
  const std::shared_ptr<Servers> servers_;
  const Attempt attempt_;
  std::optional<Events> events_;  // nullopt: it is over
  Time deadline_;                 // of the connections
  std::optional<LeaderSearch> search_;
  bool called_ = false;                             // the first
  std::vector<std::shared_ptr<ClientLink>> links_;  // by server; null: not called, or over
  asio::steady_timer timer_;
};

}  // namespace lockstep::link

// A host's agent in a simulation. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/agent/call_forwarder.h"
#include "lockstep/client/session_machine.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/stock/server.h"
#include "lockstep/sim/stock/stock_mutation.h"

namespace lockstep::sim {

// The agent's own CallForwarder and SessionMachine; what client::Engine does between them is done
// here with a simulated clock and links.
class StockHost {
 public:
  // All references outlive it, and it what `schedule` still holds of it.
  StockHost(Schedule& schedule, StockServer& server, Random random, absl::Duration patience,
            StockMutation mutant);

  void Start();
  // Now, or once the agent is no longer stopped; never, if it is dead.
  void Do(std::function<void()> action);
  // As AgentListener calls it, in `Do`.
  std::function<void()> Begin(net::AgentCall call, agent::CallForwarder::Answer answer);

  void BreakLink(bool silent);
  // As by SIGSTOP.
  void Pause(absl::Duration how_long);
  // The kernel closes its link.
  void Die();

  bool alive() const { return alive_; }
  // The server was away for the whole patience, or does not know the session.
  bool gave_up() const { return gave_up_; }

 private:
  using Effects = client::SessionMachine::Effects;
  using Done = std::function<void(agent::CallForwarder::Reply)>;

  std::function<void()> Ask(client::Request request, Done done);
  void Carry(Effects effects);
  void Send(link::Message message);
  void Dial();
  void Took(link::Message message);
  void Broke();
  void Arm();
  // Feeds the machine, and does what it wants done.
  void With(const std::function<void(Effects&)>& step);

  Schedule& schedule_;
  StockServer& server_;
  Random random_;
  const StockMutation mutant_;
  client::SessionMachine machine_;
  // The last answers; of one mutant, a new one for each heartbeat.
  std::vector<std::shared_ptr<agent::CallForwarder>> forwarders_;
  std::map<client::Ticket, Done> waiting_;
  client::Ticket last_ticket_ = 0;
  std::optional<StockServer::LinkId> link_;
  uint64_t dial_ = 0;  // which link is listened to
  Time armed_ = Time::Infinite();
  Time paused_until_;
  std::deque<std::function<void()>> paused_;
  bool alive_ = true;
  bool gave_up_ = false;

  // Of mutants.
  uint64_t greatest_sent_ = 0;
  std::map<uint64_t, uint64_t> renumbered_;  // by the new number
};

}  // namespace lockstep::sim

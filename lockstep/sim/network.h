// The network between model processes and the server, and the processes' being alive or not. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/scenario.h"
#include "lockstep/sim/schedule.h"

namespace lockstep::sim {

// How a call ended for the process that made it.
enum class Ending { kAnswered, kBroken, kDeadline, kCancelled };

struct Outcome {
  Ending ending = Ending::kAnswered;
  coord::ErrorPtr error;  // of an answer
  coord::Answer answer;
  bool ok() const { return ending == Ending::kAnswered && !error; }
};

using Done = absl::AnyInvocable<void(const Outcome&)>;
using PeerId = size_t;

// Carries calls as gRPC over TCP does: a message is delayed, but not lost as long as its connection
// lives; a broken connection ends all calls of its process, and for each that the server holds it
// is told so by a CallLeft, a little later. A process that is stopped does nothing, and its
// connection stays; one that is cut off has its messages held until it is healed.
//
// Owns what runs in a process (`After`, `Done`): it waits while the process is stopped and is
// dropped when it is dead.
class Network {
 public:
  using ToServer = std::function<void(const coord::Event&)>;

  Network(Schedule& schedule, Random random, const Scenario& scenario, ToServer to_server);

  PeerId Join();

  // Sends the request under a new call id. `done` runs exactly once, unless the process dies.
  CallId Send(PeerId peer, coord::Event request, Time deadline, Done done);
  void Cancel(CallId call);
  // Runs `action` in the process.
  void After(PeerId peer, absl::Duration delay, Schedule::Action action);

  // The server answers.
  void Answer(const coord::Reply& reply);

  void Break(PeerId peer);
  // Silently: the server is told nothing, until `NoticeVanished`.
  void Die(PeerId peer, bool silently);
  // The connections of hosts that vanished break at last, as TCP's keepalive sees to it.
  void NoticeVanished();
  void Stop(PeerId peer) { peers_[peer].stopped = true; }
  void Continue(PeerId peer);
  // Nothing passes until then; a time that has come heals.
  void CutOff(PeerId peer, Time until) { peers_[peer].cut_off_until = until; }

  bool Alive(PeerId peer) const { return !peers_[peer].dead; }
  bool Stopped(PeerId peer) const { return peers_[peer].stopped; }

 private:
  enum class AtServer { kTravels, kThere, kAnswered, kGone };
  struct Call {
    PeerId peer;
    Done done;
    AtServer at_server = AtServer::kTravels;
    bool cut = false;  // its connection is gone: no answer can reach the process
    Time delivery;
  };
  struct Peer {
    bool dead = false;
    bool vanished = false;
    bool stopped = false;
    Time cut_off_until;
    Time last_to_server;
    Time last_to_process;
    std::set<CallId> calls;  // that the process waits for
    std::vector<Schedule::Action> backlog;
  };

  Time Delivery(PeerId peer, Time& last);
  void Run(PeerId peer, Schedule::Action action);
  void Deliver(CallId call, const coord::Event& request);
  void Leave(CallId call, Time at);
  void Finish(CallId call, const Outcome& outcome);
  void GiveUp(CallId call, Ending ending);
  void LeaveAll(PeerId peer);

  Schedule& schedule_;
  Random random_;
  const Scenario& scenario_;
  const ToServer to_server_;
  std::vector<Peer> peers_;
  std::map<CallId, Call> calls_;
  uint64_t last_call_ = 0;
};

}  // namespace lockstep::sim

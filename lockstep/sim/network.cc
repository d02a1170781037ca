#include "lockstep/sim/network.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {

Network::Network(Schedule& schedule, Random random, const Scenario& scenario, ToServer to_server)
    : schedule_(schedule), random_(random), scenario_(scenario), to_server_(std::move(to_server)) {}

PeerId Network::Join() {
  peers_.emplace_back();
  return peers_.size() - 1;
}

// `last` is when the message before it in the same direction arrives.
Time Network::Delivery(PeerId peer, Time& last) {
  const absl::Duration delay = random_.Between(scenario_.delay_min, scenario_.delay_max);
  Time at = std::max(schedule_.now(), peers_[peer].cut_off_until) + delay;
  if (!scenario_.reorders) at = std::max(at, last);
  last = at;
  return at;
}

CallId Network::Send(PeerId peer, coord::Event request, Time deadline, Done done) {
  const CallId id(++last_call_);
  SetRequestCall(request, id);
  Call& call = calls_[id];
  call.peer = peer;
  call.done = std::move(done);
  call.delivery = Delivery(peer, peers_[peer].last_to_server);
  peers_[peer].calls.insert(id);
  schedule_.At(call.delivery, [this, id, request = std::move(request)] { Deliver(id, request); });
  if (!deadline.is_infinite()) {
    schedule_.At(deadline,
                 [this, id, peer] { Run(peer, [this, id] { GiveUp(id, Ending::kDeadline); }); });
  }
  return id;
}

void Network::Deliver(CallId id, const coord::Event& request) {
  auto found = calls_.find(id);
  if (found == calls_.end() || found->second.at_server != AtServer::kTravels) return;
  found->second.at_server = AtServer::kThere;
  to_server_(request);
}

void Network::Answer(const coord::Reply& reply) {
  auto found = calls_.find(reply.call);
  if (found == calls_.end()) return;
  Call& call = found->second;
  const PeerId peer = call.peer;
  call.at_server = AtServer::kAnswered;
  if (call.cut || !peers_[peer].calls.contains(reply.call)) return;
  schedule_.At(Delivery(peer, peers_[peer].last_to_process),
               [this, peer, id = reply.call,
                outcome = Outcome{Ending::kAnswered, reply.error, reply.answer}]() mutable {
                 auto there = calls_.find(id);
                 if (there == calls_.end() || there->second.cut) return;
                 Run(peer, [this, id, outcome = std::move(outcome)] { Finish(id, outcome); });
               });
}

void Network::Finish(CallId id, const Outcome& outcome) {
  auto found = calls_.find(id);
  if (found == calls_.end()) return;
  if (peers_[found->second.peer].calls.erase(id) == 0) return;  // ended for the process already
  Done done = std::move(found->second.done);
  if (found->second.at_server == AtServer::kAnswered) calls_.erase(found);
  done(outcome);
}

void Network::GiveUp(CallId id, Ending ending) {
  auto found = calls_.find(id);
  if (found == calls_.end() || !peers_[found->second.peer].calls.contains(id)) return;
  const PeerId peer = found->second.peer;
  Leave(id, std::max(found->second.delivery, Delivery(peer, peers_[peer].last_to_server)));
  Finish(id, {.ending = ending});
}

void Network::Cancel(CallId call) { GiveUp(call, Ending::kCancelled); }

void Network::Leave(CallId id, Time at) {
  schedule_.At(at, [this, id] {
    auto found = calls_.find(id);
    if (found == calls_.end()) return;
    const AtServer was = std::exchange(found->second.at_server, AtServer::kGone);
    calls_.erase(found);
    // A caller's going away may cross the answer; the server ignores it then.
    if (was == AtServer::kThere || (was == AtServer::kAnswered && random_.Percent(30))) {
      to_server_(coord::CallLeft{id});
    }
  });
}

void Network::LeaveAll(PeerId peer) {
  Peer& p = peers_[peer];
  for (auto& [id, call] : calls_) {
    if (call.peer != peer || call.cut) continue;
    call.cut = true;
    Time at = Delivery(peer, p.last_to_server);
    if (call.at_server == AtServer::kTravels) {
      // It may have been in the server's buffers already.
      if (random_.Percent(50)) {
        at = std::max(at, call.delivery);
      } else {
        call.at_server = AtServer::kGone;
      }
    }
    Leave(id, at);
  }
}

void Network::Break(PeerId peer) {
  const std::set<CallId> calls = peers_[peer].calls;
  LeaveAll(peer);
  for (CallId id : calls) {
    Run(peer, [this, id] { Finish(id, {.ending = Ending::kBroken}); });
  }
}

void Network::Die(PeerId peer, bool silently) {
  Peer& p = peers_[peer];
  p.dead = true;
  p.backlog.clear();
  p.calls.clear();
  p.vanished = silently;
  if (!silently) LeaveAll(peer);
}

void Network::NoticeVanished() {
  for (PeerId peer = 0; peer < peers_.size(); ++peer) {
    if (std::exchange(peers_[peer].vanished, false)) LeaveAll(peer);
  }
}

void Network::Continue(PeerId peer) {
  Peer& p = peers_[peer];
  if (!p.stopped) return;
  p.stopped = false;
  std::vector<Schedule::Action> backlog = std::exchange(p.backlog, {});
  for (Schedule::Action& action : backlog) Run(peer, std::move(action));
}

void Network::After(PeerId peer, absl::Duration delay, Schedule::Action action) {
  schedule_.After(
      delay, [this, peer, action = std::move(action)]() mutable { Run(peer, std::move(action)); });
}

void Network::Run(PeerId peer, Schedule::Action action) {
  Peer& p = peers_[peer];
  if (p.dead) return;
  if (p.stopped) {
    p.backlog.push_back(std::move(action));
  } else {
    action();
  }
}

}  // namespace lockstep::sim

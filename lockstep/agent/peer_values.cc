#include "lockstep/agent/peer_values.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::agent {

void PeerValues::Told(Time now, const Ticket& ticket, Source source, CallNumber call, Time deadline,
                      Effects& out) {
  const auto [entry, is_new] = entries_.try_emplace(ticket);
  if (entry->second.state == State::kHad) {
    out.ended.push_back({.call = call, .end = End::kValue, .value = entry->second.value});
    return;
  }
  entry->second.calls.emplace(call, deadline);
  ticket_of_.emplace(call, ticket);
  if (!is_new) return;
  entry->second.source = std::move(source);
  entry->second.since = now;
  entry->second.progressed = now;
  fetched_bytes_ += entry->second.source.size;
  const auto fetches = std::count_if(entries_.begin(), entries_.end(), [](const auto& each) {
    return each.second.state == State::kFetching;
  });
  if (fetched_bytes_ > options_.held_bytes_max ||
      static_cast<size_t>(fetches) > options_.fetches_max) {
    Fall(entry, out);
  } else {
    out.fetch.push_back({.ticket = ticket, .source = entry->second.source});
  }
  CheckInvariants();
}

void PeerValues::Given(Time now, const Ticket& ticket, Source source, Value value, Effects& out) {
  const auto [entry, is_new] = entries_.try_emplace(ticket);
  if (entry->second.state == State::kHad) return;
  if (is_new) {
    entry->second.source = std::move(source);
    entry->second.state = State::kAsking;
  } else if (entry->second.state == State::kFetching) {
    out.stop.push_back(ticket);
  }
  Have(now, entry, std::move(value), out);
  CheckInvariants();
}

void PeerValues::ServerFailed(Time /*now*/, const Ticket& ticket, Effects& out) {
  const auto entry = entries_.find(ticket);
  if (entry == entries_.end() || entry->second.state != State::kAsking) return;
  for (const auto& [call, deadline] : entry->second.calls) {
    out.ended.push_back({.call = call, .end = End::kAgain, .value = nullptr});
    ticket_of_.erase(call);
  }
  entry->second.calls.clear();
  CloseWaiting(ticket, out);
  Erase(entry);
  CheckInvariants();
}

void PeerValues::CallLeft(CallNumber call) {
  const auto ticket = ticket_of_.extract(call);
  if (!ticket.empty()) entries_.at(ticket.mapped()).calls.erase(call);
}

void PeerValues::Progressed(Time now, const Ticket& ticket) {
  const auto entry = entries_.find(ticket);
  if (entry != entries_.end()) entry->second.progressed = now;
}

void PeerValues::Fetched(Time now, const Ticket& ticket, Value value, Effects& out) {
  const auto entry = entries_.find(ticket);
  if (entry == entries_.end() || entry->second.state != State::kFetching) return;
  Have(now, entry, std::move(value), out);
  CheckInvariants();
}

void PeerValues::FetchFailed(Time /*now*/, const Ticket& ticket, Effects& out) {
  const auto entry = entries_.find(ticket);
  if (entry == entries_.end() || entry->second.state != State::kFetching) return;
  Fall(entry, out);
  CheckInvariants();
}

bool PeerValues::IsAwaited(const Ticket& ticket, const Entry& entry) const {
  return !entry.calls.empty() || std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
    return peer.second.stage == Stage::kWaiting && peer.second.ticket == ticket;
  });
}

void PeerValues::Fall(Entries::iterator entry, Effects& out) {
  LOCKSTEP_DCHECK(entry->second.state == State::kFetching);
  if (!IsAwaited(entry->first, entry->second)) return Erase(entry);
  fetched_bytes_ -= entry->second.source.size;
  entry->second.state = State::kAsking;
  out.ask_server.push_back(entry->first);
}

void PeerValues::Have(Time now, Entries::iterator entry, Value value, Effects& out) {
  Entry& has = entry->second;
  for (const auto& [call, deadline] : has.calls) {
    out.ended.push_back({.call = call, .end = End::kValue, .value = value});
    ticket_of_.erase(call);
  }
  has.calls.clear();
  if (has.state == State::kFetching) fetched_bytes_ -= has.source.size;
  has.state = State::kAsking;  // until there is room for it
  if (!MakeRoom(value->size())) {
    CloseWaiting(entry->first, out);
    return Erase(entry);
  }
  has.state = State::kHad;
  has.until = now + options_.kept_for;
  had_bytes_ += value->size();
  has.value = std::move(value);
  for (auto& [number, peer] : peers_) {
    if (peer.stage == Stage::kWaiting && peer.ticket == entry->first) {
      Serve(now, number, peer, has, out);
    }
  }
}

bool PeerValues::MakeRoom(size_t bytes) {
  while (had_bytes_ + bytes > options_.held_bytes_max) {
    auto oldest = entries_.end();
    for (auto each = entries_.begin(); each != entries_.end(); ++each) {
      if (each->second.state != State::kHad || each->second.serving > 0) continue;
      if (oldest == entries_.end() || each->second.until < oldest->second.until) oldest = each;
    }
    if (oldest == entries_.end()) return false;
    Erase(oldest);
  }
  return true;
}

void PeerValues::Erase(Entries::iterator entry) {
  if (entry->second.state == State::kFetching) fetched_bytes_ -= entry->second.source.size;
  if (entry->second.state == State::kHad) had_bytes_ -= entry->second.value->size();
  entries_.erase(entry);
}

bool PeerValues::PeerCame(Time now, PeerNumber peer) {
  if (peers_.size() >= options_.peers_max) return false;
  peers_[peer] = {.stage = Stage::kGreeting, .ticket = {}, .since = now, .moved = now};
  return true;
}

void PeerValues::PeerAsked(Time now, PeerNumber peer, const Ticket& ticket, Effects& out) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second.stage != Stage::kGreeting) return;
  Peer& asks = found->second;
  asks.stage = Stage::kWaiting;
  asks.ticket = ticket;
  asks.moved = now;
  const auto entry = entries_.find(ticket);
  if (entry == entries_.end()) return;  // the server may tell us of it yet
  if (entry->second.state == State::kHad) {
    Serve(now, peer, asks, entry->second, out);
  } else {
    out.hint.push_back(peer);
  }
  CheckInvariants();
}

void PeerValues::Serve(Time now, PeerNumber number, Peer& peer, Entry& entry, Effects& out) {
  peer.stage = Stage::kServed;
  peer.moved = now;
  ++entry.serving;
  out.serve.push_back(
      {.peer = number, .ticket = peer.ticket, .key = entry.source.key, .value = entry.value});
}

void PeerValues::PeerTook(Time now, PeerNumber peer) {
  const auto found = peers_.find(peer);
  if (found != peers_.end()) found->second.moved = now;
}

void PeerValues::PeerLeft(Time /*now*/, PeerNumber peer) {
  const auto gone = peers_.extract(peer);
  if (gone.empty() || gone.mapped().stage != Stage::kServed) return;
  const auto entry = entries_.find(gone.mapped().ticket);
  LOCKSTEP_DCHECK(entry != entries_.end() && entry->second.serving > 0);
  --entry->second.serving;
}

void PeerValues::CloseWaiting(const Ticket& ticket, Effects& out) {
  std::erase_if(peers_, [&](const auto& peer) {
    const bool waits = peer.second.stage == Stage::kWaiting && peer.second.ticket == ticket;
    if (waits) out.close.push_back(peer.first);
    return waits;
  });
}

Time PeerValues::LateAt(const Entry& entry) const {
  return std::min(entry.progressed + options_.patience, entry.since + options_.fetch_max);
}

Time PeerValues::LateAt(const Peer& peer) const {
  const Time end = peer.since + options_.served_within;
  // Who waits for what is on its way here is told so, and may wait on.
  const bool waits = peer.stage == Stage::kWaiting && entries_.contains(peer.ticket);
  return waits ? end : std::min(end, peer.moved + options_.patience);
}

Time PeerValues::HintDue(const Peer& peer) const {
  const bool waits = peer.stage == Stage::kWaiting && entries_.contains(peer.ticket);
  return waits ? peer.moved + options_.hint_every : Time::Infinite();
}

void PeerValues::ReachDeadline(Time now, Effects& out) {
  for (auto& [ticket, entry] : entries_) {
    for (auto call = entry.calls.begin(); call != entry.calls.end();) {
      if (call->second > now) {
        ++call;
        continue;
      }
      out.ended.push_back({.call = call->first, .end = End::kDeadline, .value = nullptr});
      ticket_of_.erase(call->first);
      call = entry.calls.erase(call);
    }
  }
  std::vector<PeerNumber> late;
  for (auto& [number, peer] : peers_) {
    if (LateAt(peer) <= now) {
      late.push_back(number);
    } else if (HintDue(peer) <= now) {
      peer.moved = now;
      out.hint.push_back(number);
    }
  }
  for (const PeerNumber number : late) {
    PeerLeft(now, number);
    out.close.push_back(number);
  }
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto each = entry++;
    if (each->second.state == State::kFetching && LateAt(each->second) <= now) {
      out.stop.push_back(each->first);
      Fall(each, out);
    } else if (each->second.state == State::kHad && each->second.serving == 0 &&
               each->second.until <= now) {
      Erase(each);
    }
  }
  CheckInvariants();
}

Time PeerValues::NextDeadline() const {
  Time next = Time::Infinite();
  for (const auto& [ticket, entry] : entries_) {
    for (const auto& [call, deadline] : entry.calls) next = std::min(next, deadline);
    if (entry.state == State::kFetching) next = std::min(next, LateAt(entry));
    if (entry.state == State::kHad && entry.serving == 0) next = std::min(next, entry.until);
  }
  for (const auto& [number, peer] : peers_) {
    next = std::min({next, LateAt(peer), HintDue(peer)});
  }
  return next;
}

void PeerValues::CheckInvariants() const {
#ifndef NDEBUG
  size_t calls = 0;
  size_t had = 0;
  size_t fetched = 0;
  for (const auto& [ticket, entry] : entries_) {
    calls += entry.calls.size();
    for (const auto& [call, deadline] : entry.calls) {
      LOCKSTEP_DCHECK(ticket_of_.at(call) == ticket);
    }
    if (entry.state == State::kHad) {
      LOCKSTEP_DCHECK(entry.calls.empty());
      had += entry.value->size();
    }
    if (entry.state == State::kFetching) fetched += entry.source.size;
  }
  LOCKSTEP_DCHECK(calls == ticket_of_.size());
  LOCKSTEP_DCHECK(had == had_bytes_ && had <= options_.held_bytes_max);
  LOCKSTEP_DCHECK(fetched == fetched_bytes_);
  for (const auto& [number, peer] : peers_) {
    const auto entry = entries_.find(peer.ticket);
    if (peer.stage != Stage::kWaiting || entry == entries_.end()) continue;
    LOCKSTEP_DCHECK(entry->second.state != State::kHad);
  }
#endif
}

}  // namespace lockstep::agent

// Which connections have a place at a server that accepts links, and which gives its own to one
// that comes. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "asio/ip/address.hpp"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/server.h"

namespace lockstep::link {

// A connection greets, is idle from its welcome on until its first request, and then has asked. Who
// greets or is idle has shown nothing yet: of the host that has most of them, the oldest goes
// first, so that who comes in a flood takes its own places.
//
// The last places, `reserved` of them, are for who goes on with a session. A connection that takes
// one has until `hello_timeout` after its welcome to ask for that.
//
// Threads: thread-compatible. Bounds: its limits, as far as its owner asks before each `Add`.
class LinkPlaces {
 public:
  struct Limits {
    size_t connections_max = 0;
    size_t connections_per_host_max = 0;  // 0: as many as there may be
    size_t reserved = 0;                  // of `connections_max`
    size_t greetings_max = 0;
    absl::Duration first_request_timeout;
    absl::Duration hello_timeout;
  };

  explicit LinkPlaces(const Limits& limits) : limits_(limits) {}

  // Why one more from `host` is refused; empty: it is not.
  std::string LimitReached(const asio::ip::address& host) const;
  // As many connections of `host` are here as one host may have. Never, if that has no limit.
  bool HostIsFull(const asio::ip::address& host) const;
  // Only reserved places are left.
  bool Crowded() const { return places_.size() + limits_.reserved >= limits_.connections_max; }
  // One more greeting takes the place of another.
  bool GreetingsAreFull() const { return greetings_ >= limits_.greetings_max; }
  // Those that do not greet any more.
  size_t welcomed() const { return places_.size() - greetings_; }

  // A connection that greets takes a place, a reserved one if only those are left.
  void Add(LinkId id, const asio::ip::address& host);
  // It is welcomed: only of one that greets. True: it is the first with a reserved place that has
  // to ask, at `NextReservationEnd`.
  bool Welcome(Time now, LinkId id);
  // It asks for the first time: only of one that was welcomed. True: it has a reserved place and
  // needs it, since the others are taken; it may stay if it goes on with a session.
  bool Ask(LinkId id);
  // It gives its place back.
  void Leave(LinkId id);

  // Only of one that has a place.
  const asio::ip::address& HostOf(LinkId id) const { return places_.at(id).host; }

  // The oldest that greets, of the host with most of them.
  std::optional<LinkId> OldestGreeting() const;
  // The oldest that is idle, of `host` or (null) of the host with most of them, if it has been so
  // for `first_request_timeout`.
  std::optional<LinkId> OldestIdle(Time now, const asio::ip::address* host) const;

  // When the first with a reserved place must have asked; infinite: there is none.
  Time NextReservationEnd() const;
  // The next that had to ask by `now` and did not, if its place is still needed; it is to be sent
  // away. To be called until there is none.
  std::optional<LinkId> EndReservation(Time now);

 private:
  using HostLinks = std::map<asio::ip::address, std::set<LinkId>>;
  struct Place {
    asio::ip::address host;
    bool reserved = false;
    Time welcomed_at;
  };

  // None of the reserved places is taken.
  bool HasPlenty() const { return places_.size() + limits_.reserved <= limits_.connections_max; }
  static HostLinks::const_iterator HostOfMost(const HostLinks& links);
  static bool Erase(HostLinks& links, LinkId id, const asio::ip::address& host);
  void EraseReservation(LinkId id, const Place& place);

  const Limits limits_;
  absl::flat_hash_map<LinkId, Place> places_;
  HostLinks greeting_;
  size_t greetings_ = 0;  // in `greeting_`
  HostLinks idle_;
  // When those with a reserved place must have asked; of the welcomed that have not.
  std::set<std::pair<Time, LinkId>> reservations_;
  std::map<asio::ip::address, size_t> from_;  // places of each host; none has 0
};

}  // namespace lockstep::link

#include "lockstep/platform/link/link_places.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::link {

std::string LinkPlaces::LimitReached(const asio::ip::address& host) const {
  if (places_.size() >= limits_.connections_max) {
    return absl::StrFormat("%d connections are open already (connections_max)", places_.size());
  }
  if (!HostIsFull(host)) return "";
  return absl::StrFormat("%d connections from %s are open already (connections_per_host_max)",
                         from_.at(host), host.to_string());
}

bool LinkPlaces::HostIsFull(const asio::ip::address& host) const {
  const auto from = from_.find(host);
  return limits_.connections_per_host_max != 0 && from != from_.end() &&
         from->second >= limits_.connections_per_host_max;
}

void LinkPlaces::Add(LinkId id, const asio::ip::address& host) {
  // Before it has its place, which is then the first of the reserved.
  const bool reserved = Crowded();
  const bool is_new = places_.emplace(id, Place{.host = host, .reserved = reserved}).second;
  LOCKSTEP_CHECK(is_new);
  greeting_[host].insert(id);
  ++greetings_;
  ++from_[host];
}

bool LinkPlaces::Welcome(Time now, LinkId id) {
  Place& place = places_.at(id);
  place.welcomed_at = now;
  const bool greeted = Erase(greeting_, id, place.host);
  LOCKSTEP_CHECK(greeted);
  --greetings_;
  idle_[place.host].insert(id);
  if (!place.reserved) return false;
  reservations_.emplace(now + limits_.hello_timeout, id);
  return reservations_.size() == 1;
}

bool LinkPlaces::Ask(LinkId id) {
  Place& place = places_.at(id);
  Erase(idle_, id, place.host);
  if (!place.reserved) return false;
  EraseReservation(id, place);
  // Others may have left since it came.
  place.reserved = !HasPlenty();
  return place.reserved;
}

void LinkPlaces::Leave(LinkId id) {
  const auto node = places_.find(id);
  LOCKSTEP_DCHECK(node != places_.end());
  const Place& place = node->second;
  LOCKSTEP_DCHECK(greetings_ > 0 || greeting_.empty());
  if (Erase(greeting_, id, place.host)) --greetings_;
  Erase(idle_, id, place.host);
  if (place.reserved) EraseReservation(id, place);
  const auto from = from_.find(place.host);
  LOCKSTEP_DCHECK(from != from_.end() && from->second > 0);
  if (--from->second == 0) from_.erase(from);
  places_.erase(node);
  LOCKSTEP_DCHECK(greetings_ <= places_.size());
  LOCKSTEP_DCHECK(from_.size() <= places_.size());
}

std::optional<LinkId> LinkPlaces::OldestGreeting() const {
  const auto most = HostOfMost(greeting_);
  if (most == greeting_.end()) return std::nullopt;
  return *most->second.begin();
}

std::optional<LinkId> LinkPlaces::OldestIdle(Time now, const asio::ip::address* host) const {
  const auto of = host != nullptr ? idle_.find(*host) : HostOfMost(idle_);
  if (of == idle_.end()) return std::nullopt;
  const LinkId oldest = *of->second.begin();
  if (now - places_.at(oldest).welcomed_at < limits_.first_request_timeout) return std::nullopt;
  return oldest;
}

Time LinkPlaces::NextReservationEnd() const {
  return reservations_.empty() ? Time::Infinite() : reservations_.begin()->first;
}

std::optional<LinkId> LinkPlaces::EndReservation(Time now) {
  while (NextReservationEnd() <= now && !reservations_.empty()) {
    const LinkId id = reservations_.extract(reservations_.begin()).value().second;
    Place& place = places_.at(id);
    place.reserved = !HasPlenty();
    if (place.reserved) return id;
  }
  return std::nullopt;
}

LinkPlaces::HostLinks::const_iterator LinkPlaces::HostOfMost(const HostLinks& links) {
  return std::max_element(links.begin(), links.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
}

bool LinkPlaces::Erase(HostLinks& links, LinkId id, const asio::ip::address& host) {
  const auto found = links.find(host);
  if (found == links.end() || found->second.erase(id) == 0) return false;
  if (found->second.empty()) links.erase(found);
  return true;
}

void LinkPlaces::EraseReservation(LinkId id, const Place& place) {
  reservations_.erase({place.welcomed_at + limits_.hello_timeout, id});
}

}  // namespace lockstep::link

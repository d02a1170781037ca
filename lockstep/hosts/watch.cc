#include "lockstep/hosts/watch.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::hosts {
namespace {

// Of an electorate of `counted` that is a part of `candidates`: true when `chosen` of these,
// whichever they are, hold more than half of it.
bool IsMost(size_t chosen, size_t candidates, size_t counted) {
  const size_t outside = candidates - counted;
  return chosen > outside && 2 * (chosen - outside) > counted;
}

}  // namespace

HostWatch::Joined HostWatch::Join(Time now, HostId host, Info info) {
  LOCKSTEP_CHECK(host != kServer);
  if (lost_.contains(host)) return Joined::kLost;
  const auto known = hosts_.find(host);
  if (known != hosts_.end()) {
    known->second.info = std::move(info);
    return Joined::kYes;
  }
  if (hosts_.size() + lost_.size() >= kHostsMax) return Joined::kTooMany;
  Host& joined = hosts_[host];
  joined.info = std::move(info);
  joined.joined = now;
  joined.version = ++versions_;
  LOCKSTEP_DCHECK(InvariantsHold());
  return Joined::kYes;
}

HostContact::Table HostWatch::TableOf(HostId id) {
  Host& host = hosts_.at(id);
  if (host.given.version != host.version) {
    host.given_before = std::move(host.given);
    host.given = {.version = host.version, .peers = PeersOf(id)};
  }
  return {.version = host.given.version, .peers = host.given.peers};
}

void HostWatch::Leave(HostId host) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return;
  const bool introduced = found->second.introduced;
  hosts_.erase(found);
  if (introduced) TouchPeersOf(host);
  LOCKSTEP_DCHECK(InvariantsHold());
}

// All others; or, of many, those next to it on both sides, so that who is a peer of whom does not
// follow from where it stands in a network.
HostWatch::Peers HostWatch::PeersOf(HostId host) const {
  Peers peers;
  auto after = hosts_.upper_bound(host);
  if (hosts_.size() <= kPeersMax + 1) {
    for (const auto& [id, each] : hosts_) {
      if (id != host && each.introduced) peers.push_back(id);
    }
    return peers;
  }
  auto before = hosts_.lower_bound(host);
  // Those on the way that are none yet are few: they ping at once.
  for (size_t i = 0; i < kPeersMax / 2; ++i) {
    if (after == hosts_.end()) after = hosts_.begin();
    if (after->second.introduced) peers.push_back(after->first);
    ++after;
    if (before == hosts_.begin()) before = hosts_.end();
    --before;
    if (before->second.introduced) peers.push_back(before->first);
  }
  std::sort(peers.begin(), peers.end());
  return peers;
}

void HostWatch::TouchPeersOf(HostId host) {
  for (const HostId each : PeersOf(host)) hosts_.at(each).version = ++versions_;
}

std::optional<Ack> HostWatch::Handle(Time now, const Ping& ping) {
  if (ping.to != kServer) return std::nullopt;
  if (lost_.contains(ping.from)) {
    return Ack{.from = kServer, .to = ping.from, .number = ping.number, .lost = true};
  }
  const auto found = hosts_.find(ping.from);
  if (found == hosts_.end() || ping.number <= found->second.number) return std::nullopt;
  Host& host = found->second;
  if (!std::exchange(host.introduced, true)) {
    // Nobody has told it of peers that came while it was none itself.
    host.version = ++versions_;
    TouchPeersOf(ping.from);
  }
  host.number = ping.number;
  host.electorate_version = ping.version;
  host.counted = ping.counted;
  host.round_trip = ping.round_trip;
  // It hears the server, too: one that only speaks cannot learn that it is lost.
  if (ping.heard_ago < terms_.timeout) host.heard = now;
  for (const LastAnswer& each : ping.lost) {
    const auto lost = lost_.find(each.host);
    if (lost == lost_.end()) continue;
    const bool peer =
        std::binary_search(lost->second.peers.begin(), lost->second.peers.end(), ping.from);
    // From its clock to this one: the ping was under way for some time, so it is too late at most.
    const Time at = each.ago == absl::InfiniteDuration() ? Time() : now - each.ago;
    if (peer) lost->second.let_go_on.insert_or_assign(ping.from, at);
  }
  host.let_go_on = now;
  Ack ack{.from = kServer, .to = ping.from, .number = ping.number, .version = host.version};
  // Of more, the first ones; they are told of the next when these have stopped.
  const size_t told = std::min(host.lost_peers.size(), kVerdictsMax);
  ack.gone.assign(host.lost_peers.begin(), host.lost_peers.begin() + static_cast<ptrdiff_t>(told));
  return ack;
}

bool HostWatch::IsFresh(Time now, const Host& host) const {
  return host.heard && now - *host.heard <= terms_.fresh();
}

void HostWatch::NoteSteadiness(Time now) {
  // Whoever did not look did not hear: all others have been silent for as long.
  const bool looked = ticked_ && now - *ticked_ <= kLookedWithin;
  ticked_ = now;
  size_t all = 1;
  size_t fresh = 1;
  for (const auto& [id, host] : hosts_) {
    if (!host.heard) continue;
    ++all;
    if (IsFresh(now, host)) ++fresh;
  }
  if (!looked || 2 * fresh <= all) {
    steady_since_.reset();
  } else if (!steady_since_) {
    steady_since_ = now;
  }
}

const HostWatch::Given* HostWatch::ElectorateOf(const Host& host) {
  if (host.electorate_version == 0) return nullptr;
  for (const Given* given : {&host.given, &host.given_before}) {
    // What cannot be was said by no agent of ours.
    if (given->version == host.electorate_version && host.counted <= given->peers.size() + 2) {
      return given;
    }
  }
  return nullptr;
}

bool HostWatch::CanLose(HostId id) const {
  const auto found = hosts_.find(id);
  if (found == hosts_.end()) return lost_.contains(id);
  const Host& host = found->second;
  // Of two voices, this server's is not more than half.
  return host.heard && host.info.policy == OnPartition::kStop && host.counted > 2 &&
         ElectorateOf(host) != nullptr;
}

bool HostWatch::HasMost(Time now, const Host& host) const {
  const Given* const given = ElectorateOf(host);
  if (given == nullptr) return false;
  const auto fresh = std::count_if(given->peers.begin(), given->peers.end(), [&](HostId each) {
    const auto peer = hosts_.find(each);
    return peer != hosts_.end() && IsFresh(now, peer->second);
  });
  return IsMost(static_cast<size_t>(fresh) + 1, given->peers.size() + 2, host.counted);
}

bool HostWatch::HasStopped(Time now, const Lost& lost) const {
  const auto silent =
      std::count_if(lost.let_go_on.begin(), lost.let_go_on.end(),
                    [&](const auto& each) { return now - each.second >= terms_.timeout + kSlack; });
  return IsMost(static_cast<size_t>(silent), lost.peers.size() + 2, lost.counted);
}

std::vector<HostWatch::News> HostWatch::Tick(Time now) {
  std::vector<News> news;
  NoteSteadiness(now);
  if (steady_since_) {
    for (const HostId id : FindLost(now)) Lose(now, id, news);
  }
  size_t stopped = 0;
  for (auto& [id, lost] : lost_) {
    if (lost.stopped || !HasStopped(now, lost)) continue;
    NoteStopped(id, lost);
    news.push_back({.kind = News::Kind::kStopped, .host = id, .name = lost.info.name});
    if (++stopped == kChangesATick) break;
  }
  Forget(now, news);
  LOCKSTEP_DCHECK(InvariantsHold());
  return news;
}

void HostWatch::Forget(Time now, std::vector<News>& news) {
  std::vector<HostId> silent;
  for (const auto& [id, host] : hosts_) {
    if (silent.size() == kChangesATick) break;
    if (now - host.heard.value_or(host.joined) >= kSilentFor) silent.push_back(id);
  }
  std::vector<HostId> old;
  for (const auto& [id, lost] : lost_) {
    if (old.size() == kChangesATick) break;
    if (now - lost.since >= kVerdictsFor) old.push_back(id);
  }
  for (const HostId id : silent) {
    news.push_back({.kind = News::Kind::kForgotten, .host = id, .name = hosts_.at(id).info.name});
    Leave(id);
  }
  for (const HostId id : old) {
    Lost& lost = lost_.at(id);
    NoteStopped(id, lost);
    news.push_back({.kind = News::Kind::kForgotten, .host = id, .name = lost.info.name});
    lost_.erase(id);
  }
}

std::vector<HostId> HostWatch::FindLost(Time now) {
  std::vector<HostId> lost;
  size_t looks = 0;
  auto next = hosts_.upper_bound(looked_);
  for (size_t i = 0; i < hosts_.size() && looks < kChangesATick; ++i, ++next) {
    if (next == hosts_.end()) next = hosts_.begin();
    const auto& [id, host] = *next;
    if (!host.heard || host.info.policy == OnPartition::kWait) continue;
    const Time silent_since = std::max(*host.heard, *steady_since_);
    if (now - silent_since < terms_.timeout) continue;
    ++looks;
    looked_ = id;
    if (HasMost(now, host)) lost.push_back(id);
  }
  return lost;
}

void HostWatch::NoteStopped(HostId id, Lost& lost) {
  lost.stopped = true;
  for (const HostId each : lost.peers) {
    const auto peer = hosts_.find(each);
    if (peer != hosts_.end()) std::erase(peer->second.lost_peers, id);
  }
}

void HostWatch::Lose(Time now, HostId id, std::vector<News>& news) {
  const auto found = hosts_.find(id);
  Host& host = found->second;
  news.push_back({.kind = News::Kind::kLost,
                  .host = id,
                  .name = host.info.name,
                  .unheard = now - *host.heard});
  Lost lost{.info = std::move(host.info),
            .since = now,
            .peers = ElectorateOf(host)->peers,
            .counted = host.counted,
            .let_go_on = {}};
  lost.let_go_on.emplace(kServer, host.let_go_on.value_or(Time()));
  for (const HostId each : lost.peers) {
    const auto peer = hosts_.find(each);
    if (peer != hosts_.end()) peer->second.lost_peers.push_back(id);
  }
  lost_.emplace(id, std::move(lost));
  hosts_.erase(found);
  TouchPeersOf(id);
}

std::vector<HostWatch::View> HostWatch::Look(Time now, size_t most) const {
  // When each was heard last; those that were not, after the lost ones.
  std::vector<std::pair<Time, const std::pair<const HostId, Host>*>> alive;
  alive.reserve(hosts_.size());
  for (const auto& entry : hosts_) alive.emplace_back(entry.second.heard.value_or(Time()), &entry);
  std::vector<View> views;
  for (const auto& [id, lost] : lost_) {
    if (views.size() == most) return views;
    views.push_back({.id = id,
                     .info = lost.info,
                     .unheard = now - lost.since + terms_.timeout,
                     .round_trip = {},
                     .lost = true});
  }
  const size_t shown = std::min(most - views.size(), alive.size());
  std::partial_sort(alive.begin(), alive.begin() + static_cast<ptrdiff_t>(shown), alive.end());
  alive.resize(shown);
  for (const auto& [heard, entry] : alive) {
    const Host& host = entry->second;
    views.push_back({.id = entry->first,
                     .info = host.info,
                     .unheard = host.heard ? std::optional(now - *host.heard) : std::nullopt,
                     .round_trip = host.round_trip,
                     .lost = false,
                     .counted = host.counted});
  }
  return views;
}

bool HostWatch::InvariantsHold() const {
  LOCKSTEP_CHECK(hosts_.size() + lost_.size() <= kHostsMax);
  for (const auto& [id, lost] : lost_) {
    LOCKSTEP_CHECK(!hosts_.contains(id));  // (1)
    LOCKSTEP_CHECK(lost.let_go_on.size() <= lost.peers.size() + 1);
  }
  return true;
}

}  // namespace lockstep::hosts

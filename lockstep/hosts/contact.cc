#include "lockstep/hosts/contact.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::hosts {

HostContact::HostContact(HostId self, Terms terms, OnPartition policy)
    : self_(self), terms_(terms), policy_(policy) {
  LOCKSTEP_CHECK(self != kServer);
  others_[kServer];
}

void HostContact::SetTable(Table table) {
  LOCKSTEP_DCHECK(table.peers.size() <= kPeersMax);
  table_ = std::move(table);
  wanted_version_ = table_.version;
  KnowOthers();
}

// Whoever has a voice is pinged, although a server that was started again may not know it yet.
void HostContact::KnowOthers() {
  Electorate needed(table_.peers.begin(), table_.peers.end());
  needed.insert(electorate_.agreed.begin(), electorate_.agreed.end());
  if (electorate_.proposed) {
    needed.insert(electorate_.proposed->begin(), electorate_.proposed->end());
  }
  needed.erase(self_);
  needed.insert(kServer);
  std::erase_if(others_, [&](const auto& entry) { return !needed.contains(entry.first); });
  for (const HostId each : needed) others_[each];
}

HostContact::Round HostContact::Tick(Time now) {
  Round round;
  // First: a host that was stopped itself learns it before it asks anybody.
  CheckElectorates(now);
  if (!IsRoundDue(now)) return round;
  rounds_.last = now;
  Propose();
  round.pings = Pings(now);
  round.ask = IsTableDue(now);
  if (round.ask) asked_ = now;
  LOCKSTEP_DCHECK(InvariantsHold());
  return round;
}

// Sooner while the last is not answered, so that a network that comes back is noticed at once.
bool HostContact::IsRoundDue(Time now) const {
  if (!rounds_.last) return true;
  const bool answered = others_.at(kServer).acked == rounds_.number;
  const absl::Duration pause = answered ? terms_.interval : terms_.interval / 2;
  // The look at the clock after this one may come too late.
  return now - *rounds_.last >= pause - kTickEvery / 2;
}

bool HostContact::IsTableDue(Time now) const {
  if (!asked_) return true;
  if (table_.version == 0 || wanted_version_ != table_.version) return now - *asked_ >= kAskEvery;
  const std::optional<Time>& heard = others_.at(kServer).heard;
  const bool silent = now - std::max(heard.value_or(Time()), *asked_) >= kAskSilentEvery;
  return silent;
}

void HostContact::CheckElectorates(Time now) {
  const auto check = [&](const Electorate& electorate) {
    const size_t all = electorate.size() + 1;
    const size_t heard = CountHeard(now, electorate) + 1;
    if (2 * heard >= all) return;
    Stop(absl::StrFormat(
        "this host was heard by %d of %d others (the server and hosts with an agent) in the last "
        "%s: it is cut off",
        heard - 1, all - 1, absl::FormatDuration(terms_.timeout)));
  };
  if (policy_ == OnPartition::kWait) return;
  check(electorate_.agreed);
  if (electorate_.proposed) check(*electorate_.proposed);
}

size_t HostContact::CountHeard(Time now, const Electorate& electorate) const {
  return static_cast<size_t>(std::count_if(electorate.begin(), electorate.end(), [&](HostId each) {
    const auto other = others_.find(each);
    return other != others_.end() && other->second.heard &&
           now - *other->second.heard < terms_.timeout;
  }));
}

void HostContact::Propose() {
  if (electorate_.proposed) return;
  // Whoever was reached once keeps its voice while it is in the table: that it cannot be heard now
  // must not make this host believe that it is one of few.
  Electorate next;
  for (const HostId id : table_.peers) {
    const auto other = others_.find(id);
    if (other != others_.end() && other->second.heard) next.insert(id);
  }
  if (others_.at(kServer).heard) next.insert(kServer);
  if (next == electorate_.agreed && electorate_.version == table_.version) return;
  electorate_.proposed = std::move(next);
  electorate_.version = table_.version;
  electorate_.since_round = rounds_.number + 1;
}

std::vector<Ping> HostContact::Pings(Time now) {
  rounds_.sent.emplace_back(++rounds_.number, now);
  if (rounds_.sent.size() > kRoundsKept) rounds_.sent.pop_front();
  std::vector<Ping> pings;
  pings.reserve(others_.size());
  for (const auto& [id, other] : others_) {
    Ping& ping = pings.emplace_back(Ping{.from = self_, .to = id, .number = rounds_.number});
    if (id != kServer) continue;
    const Electorate& current = electorate_.proposed ? *electorate_.proposed : electorate_.agreed;
    if (other.heard) ping.heard_ago = now - *other.heard;
    ping.version = electorate_.version;
    ping.counted = static_cast<uint32_t>(current.size() + 1);
    ping.round_trip = round_trip_;
    for (const HostId lost : asked_about_) {
      const auto caller = callers_.find(lost);
      const bool never = caller == callers_.end() || !caller->second.let_go_on;
      ping.lost.push_back(
          {lost, never ? absl::InfiniteDuration() : now - *caller->second.let_go_on});
    }
  }
  return pings;
}

std::optional<Ack> HostContact::Handle(Time now, const Ping& ping) {
  if (ping.to != self_ || ping.from == kServer) return std::nullopt;
  if (!callers_.contains(ping.from) && callers_.size() >= kCallersKept) {
    // The one that has been silent for longest; it can at most be counted as never answered when
    // it was, so only those that cannot go on any more are forgotten.
    const auto oldest =
        std::min_element(callers_.begin(), callers_.end(), [](const auto& one, const auto& other) {
          return one.second.let_go_on.value_or(Time()) < other.second.let_go_on.value_or(Time());
        });
    if (oldest->second.let_go_on && now - *oldest->second.let_go_on < 2 * terms_.timeout) {
      return std::nullopt;
    }
    callers_.erase(oldest);
  }
  Caller& caller = callers_[ping.from];
  if (ping.number <= caller.number) return std::nullopt;
  caller.number = ping.number;
  const bool lost = std::find(lost_.begin(), lost_.end(), ping.from) != lost_.end();
  if (!lost) caller.let_go_on = now;
  return Ack{.from = self_, .to = ping.from, .number = ping.number, .lost = lost};
}

void HostContact::Handle(Time now, const Ack& ack) {
  if (ack.to != self_) return;
  if (ack.lost) {
    Stop(absl::StrCat("the server has given this host up",
                      ack.from == kServer ? "" : ", as another host says",
                      ": it was not heard for ", absl::FormatDuration(terms_.timeout)));
  }
  const auto other = others_.find(ack.from);
  if (other == others_.end() || ack.number <= other->second.acked) return;
  const auto sent = std::find_if(rounds_.sent.begin(), rounds_.sent.end(),
                                 [&](const auto& each) { return each.first == ack.number; });
  if (sent == rounds_.sent.end()) return;
  other->second.acked = ack.number;
  other->second.heard = sent->second;
  if (ack.from != kServer) return;
  round_trip_ = now - sent->second;
  wanted_version_ = ack.version;
  for (const HostId each : ack.gone) NoteLost(each);
  asked_about_ = ack.gone;
  if (electorate_.proposed && ack.number >= electorate_.since_round) {
    electorate_.agreed = *std::exchange(electorate_.proposed, std::nullopt);
    KnowOthers();
  }
}

void HostContact::GivenUp() { Stop("the server has given this host up: it was not heard"); }

void HostContact::NoteLost(HostId host) {
  if (host == self_ || std::find(lost_.begin(), lost_.end(), host) != lost_.end()) return;
  lost_.push_back(host);
  if (lost_.size() > kVerdictsKept) lost_.pop_front();
}

void HostContact::Stop(std::string why) {
  if (stops_ || policy_ == OnPartition::kWait) return;
  stops_ = std::move(why);
}

HostContact::View HostContact::Look(Time now) const {
  return {.counted = electorate_.agreed.size() + 1,
          .heard = CountHeard(now, electorate_.agreed) + 1,
          .server_heard = others_.at(kServer).heard};
}

bool HostContact::InvariantsHold() const {
  LOCKSTEP_CHECK(others_.contains(kServer) && others_.size() <= 3 * kPeersMax + 1);
  LOCKSTEP_CHECK(!others_.contains(self_));
  for (const auto& [id, other] : others_) {
    LOCKSTEP_CHECK(other.acked <= rounds_.number);
    LOCKSTEP_CHECK(!other.heard || *other.heard <= *rounds_.last);  // (2)
  }
  LOCKSTEP_CHECK(asked_about_.size() <= kVerdictsMax);
  LOCKSTEP_CHECK(lost_.size() <= kVerdictsKept && callers_.size() <= kCallersKept);
  return true;
}

}  // namespace lockstep::hosts

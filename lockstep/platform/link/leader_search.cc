#include "lockstep/platform/link/leader_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/link/refusals.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::link {
namespace {

// How much a failure says about whether to search again: the greatest one speaks for all.
enum class Telling {
  kSilent,      // nothing came from there
  kNotReached,  // nobody listens there
  kHopeless,    // it does not accept us; others of the same group would not either
  kRefused,     // it would accept us at another time
  kNoLeader,    // it accepts us, and another of them leads or is about to
};

Telling TellingOf(const absl::Status& why) {
  if (LeadsNot(why)) return Telling::kNoLeader;
  if (IsHopeless(why)) return Telling::kHopeless;
  // Without a reason of its own: the connection could not be made, or broke.
  const std::string reason = wire::native::ReasonOf(why);
  if (reason == "deadline_exceeded") return Telling::kSilent;
  return reason == "unavailable" ? Telling::kNotReached : Telling::kRefused;
}

bool IsAt(const runtime::Address& one, const runtime::Address& other) {
  return one.port == other.port && absl::EqualsIgnoreCase(one.host, other.host);
}

}  // namespace

LeaderSearch::LeaderSearch(std::vector<runtime::Address> servers, Time until)
    : until_(until), order_(servers.size()) {
  LOCKSTEP_CHECK(!servers.empty() && servers.size() <= runtime::kServersMax);
  for (runtime::Address& address : servers) servers_.push_back({.address = std::move(address)});
  std::iota(order_.begin(), order_.end(), 0);
}

bool LeaderSearch::AwaitsAny() const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [](const Server& each) { return each.state == State::kCalled; });
}

std::optional<size_t> LeaderSearch::Next(Time now) {
  if (found_) return std::nullopt;
  if (!order_.empty()) {
    if (now < next_) return std::nullopt;
    const size_t server = order_.front();
    order_.pop_front();
    LOCKSTEP_DCHECK(servers_[server].state == State::kNotCalled);
    servers_[server].state = State::kCalled;
    next_ = now + kServerStagger;
    return server;
  }
  if (!AwaitsAny()) return std::nullopt;
  for (size_t server = 0; server < servers_.size(); ++server) {
    if (now < servers_[server].again) continue;
    LOCKSTEP_DCHECK(servers_[server].state == State::kFailed);
    servers_[server].state = State::kCalled;
    servers_[server].again = Time::Infinite();
    return server;
  }
  return std::nullopt;
}

void LeaderSearch::Failed(Time now, size_t server, absl::Status why, std::string_view leader) {
  LOCKSTEP_DCHECK(servers_[server].state == State::kCalled && !why.ok());
  servers_[server].state = State::kFailed;
  const Time again = now + kServerRecall;
  servers_[server].again = IsHopeless(why) || again > until_ ? Time::Infinite() : again;
  servers_[server].why = std::move(why);
  next_ = Time();
  Follow(leader);
}

void LeaderSearch::Follow(std::string_view leader) {
  if (leader.empty()) return;
  const auto named = runtime::ParseAddress(leader);
  if (!named.ok()) return;
  const auto it = std::find_if(order_.begin(), order_.end(),
                               [&](size_t each) { return IsAt(servers_[each].address, *named); });
  if (it != order_.end()) std::rotate(order_.begin(), it, it + 1);
}

bool LeaderSearch::Welcomed(Time now, size_t server, uint64_t epoch, uint64_t epoch_seen) {
  LOCKSTEP_DCHECK(servers_[server].state == State::kCalled && !found_);
  if (epoch >= epoch_seen) {
    found_ = true;
    return true;
  }
  Failed(now, server,
         wire::native::WithReason(
             absl::UnavailableError(absl::StrFormat(
                 "the server at %s says that it leads, in epoch %d, but another has led in epoch "
                 "%d: it was replaced, and does not know yet",
                 runtime::ToString(servers_[server].address), epoch, epoch_seen)),
             "stale_leader"));
  return false;
}

Time LeaderSearch::NextDeadline() const {
  if (found_) return Time::Infinite();
  if (!order_.empty()) return next_;
  if (!AwaitsAny()) return Time::Infinite();
  Time soonest = Time::Infinite();
  for (const Server& each : servers_) soonest = std::min(soonest, each.again);
  return soonest;
}

bool LeaderSearch::exhausted() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const Server& each) { return each.state == State::kFailed; });
}

absl::Status LeaderSearch::why() const {
  if (servers_.size() == 1 && exhausted()) return servers_.front().why;
  std::vector<std::string> names;
  std::vector<std::string> failures;
  const absl::Status* telling = nullptr;
  for (const Server& each : servers_) {
    const std::string name = runtime::ToString(each.address);
    names.push_back(name);
    if (each.why.ok()) {
      failures.push_back(absl::StrCat(
          name, each.state == State::kCalled ? " has not answered" : " was not called"));
      continue;
    }
    const std::string why =
        wire::native::ToUtf8(std::string(each.why.message()).substr(0, kFailureBytesMax));
    failures.push_back(absl::StrContains(why, name) ? why : absl::StrCat(name, ": ", why));
    if (telling == nullptr || TellingOf(each.why) > TellingOf(*telling)) telling = &each.why;
  }
  const std::string text = absl::StrCat("none of the servers at ", absl::StrJoin(names, ", "),
                                        " was found to lead: ", absl::StrJoin(failures, "; "));
  if (telling == nullptr) return absl::UnavailableError(text);
  return wire::native::WithReason(absl::Status(telling->code(), text),
                                  wire::native::ReasonOf(*telling));
}

}  // namespace lockstep::link

#include "lockstep/coord/failure_detector.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

bool BeganEarlier(const FailureDetector::Loss& a, const FailureDetector::Loss& b) {
  return std::pair(a.since, a.member) < std::pair(b.since, b.member);
}

}  // namespace

Time FailureDetector::Health::LostAt(absl::Duration usual) const {
  const Time silent = signs.LostAt(usual);
  // A broken link shortens the wait and never extends it.
  return broke() ? std::min(silent, link_due) : silent;
}

FailureDetector::FailureDetector(JobRecord& job, RoleVacancies& vacancies)
    : job_(job), vacancies_(vacancies), members_(job.options.size) {}

void FailureDetector::Begin(Time now, MemberIndex member, bool native) {
  Its(member).health.signs.Begin(now, native);
}

void FailureDetector::Watch(Time now, MemberIndex member) {
  LOCKSTEP_CHECK(!Its(member).entry.has_value());
  Health& health = Its(member).health;
  LOCKSTEP_DCHECK(health.link == Link::kUp && !health.suspect);  // (2)
  health.signs.Connected(now);
  SetEntry(member, TimeOut(health));
}

void FailureDetector::Unwatch(MemberIndex member) {
  LOCKSTEP_CHECK(Its(member).entry.has_value());
  // First: from here on nothing below can enter the member again (2).
  SetEntry(member, std::nullopt);
  broken_.erase(member);
  Watched& its = Its(member);
  LOCKSTEP_DCHECK(its.health.link != Link::kRestarted || restarted_ > 0);
  restarted_ -= its.health.link == Link::kRestarted ? 1 : 0;
  its.health.link = Link::kUp;
  its.health.suspect = false;
  its.health.signs.Disconnected();
  its.told = false;
}

void FailureDetector::SetLink(MemberIndex member, Link link, Time since, Time due) {
  LOCKSTEP_CHECK(Its(member).entry.has_value());
  LOCKSTEP_DCHECK(since <= due);
  Health& health = Its(member).health;
  // Before the link changes, since both sides are needed.
  restarted_ += (link == Link::kRestarted) - (health.link == Link::kRestarted);
  health.link = link;
  health.link_since = since;
  health.link_due = due;
  if (health.broke() && link != Link::kRestarted) {
    broken_.insert(member);
  } else {
    broken_.erase(member);
  }
  health.suspect = health.suspect || link != Link::kUp;
  SetEntry(member, TimeOut(health));
  // A newcomer without an index may take the place of a member whose link broke.
  if (health.broke()) vacancies_.NoteMayBeFree(member);
  job_.changes.Touch(member);
}

void FailureDetector::BecomeSuspect(MemberIndex member, Time since) {
  Watched& its = Its(member);
  LOCKSTEP_DCHECK(its.entry.has_value());  // (2)
  its.health.suspect = true;
  // Whoever is stopped is known to be suspect.
  if (its.told || job_.processes[member.value()].stopped) return;
  its.told = true;
  turns_.push_back({member, true, its.health.link, since});
}

void FailureDetector::BecomeWell(Time now, MemberIndex member) {
  Watched& its = Its(member);
  LOCKSTEP_DCHECK(its.entry.has_value());  // (2)
  its.health.suspect = false;
  // A well member has a time to become suspect, which is earlier than its loss.
  EnterEarlier(member);
  job_.changes.Touch(member);
  if (std::exchange(its.told, false)) turns_.push_back({member, false, Link::kUp, now});
}

void FailureDetector::HeardHeartbeat(Time now, MemberIndex member) {
  Its(member).health.signs.HeardHeartbeat(now);
  Heard(now, member);
  // Another period may make the member's time shorter; `Heard` only makes it longer.
  EnterEarlier(member);
}

void FailureDetector::SetPolls(Time now, MemberIndex member, bool polls) {
  Watched& its = Its(member);
  // A member that is not in has no time-out that a poll could move.
  if (!its.entry) return;
  its.health.signs.SetPolls(now, polls);
  EnterEarlier(member);
}

std::vector<FailureDetector::Turn> FailureDetector::TakeTurns() {
  std::vector<Turn> turns = std::exchange(turns_, {});
  // A member that has turned back, or has gone since, is no news.
  std::erase_if(turns, [this](const Turn& turn) {
    const Watched& its = members_[turn.member.value()];
    return !its.entry || its.health.suspect != turn.suspect;
  });
  return turns;
}

void FailureDetector::ConnectionBroke(Time now, MemberIndex member, Link how) {
  const Watched& its = members_[member.value()];
  // A link that is known to be broken keeps its deadline.
  if (!its.entry || its.health.broke()) return;
  // An agent makes its link again as a native client does.
  const bool by_session = its.health.signs.native() || how == Link::kAgentEnded;
  const absl::Duration grace =
      by_session ? job_.options.session_grace : job_.options.connection_grace;
  // The link before the suspicion, whose turn names it.
  SetLink(member, how, now, now + grace);
  BecomeSuspect(member, now);
}

void FailureDetector::ConnectionSilent(Time now, MemberIndex member) {
  const Watched& its = members_[member.value()];
  // A broken link tells more than a silent one.
  if (!its.entry || its.health.link != Link::kUp) return;
  SetLink(member, Link::kSilent, now, Time::Infinite());
  BecomeSuspect(member, now);
}

void FailureDetector::ConnectionBack(Time now, MemberIndex member) {
  if (Of(member).link == Link::kUp) return;
  BecomeWell(now, member);  // first, since who is suspect has longer
  SetLink(member, Link::kUp, Time(), Time::Infinite());
}

void FailureDetector::ServerRestarted(Time now, MemberIndex member) {
  if (!members_[member.value()].entry) return;
  Its(member).health.signs.ServerRestarted(now);
  // Without a turn: HealthLog tells of all members together.
  SetLink(member, Link::kRestarted, now, now + job_.options.restart_grace);
}

Time FailureDetector::TimeOut(const Health& health) const {
  const absl::Duration usual = job_.options.heartbeat_timeout;
  // A member is suspect before it is lost, so only the next of the two is entered.
  return health.suspect ? health.LostAt(usual) : health.signs.SuspectAt(usual);
}

void FailureDetector::SetEntry(MemberIndex member, std::optional<Time> entry) {
  std::optional<Time>& its = Its(member).entry;
  if (its) time_outs_.erase({*its, member});
  its = entry;
  if (its) time_outs_.emplace(*its, member);
}

void FailureDetector::EnterEarlier(MemberIndex member) {
  const Watched& its = Its(member);
  if (its.entry && TimeOut(its.health) < *its.entry) SetEntry(member, TimeOut(its.health));
}

Time FailureDetector::NextDeadline() const {
  return time_outs_.empty() ? Time::Infinite() : time_outs_.begin()->first;
}

std::vector<FailureDetector::Loss> FailureDetector::Overdue(Time now) {
  // A copy: what follows moves entries.
  std::vector<MemberIndex> due;
  for (auto it = time_outs_.begin(); it != time_outs_.end() && it->first <= now; ++it) {
    due.push_back(it->second);
  }
  std::vector<Loss> losses;
  for (MemberIndex member : due) {
    const Health& health = Of(member);
    // Suspect first; the same turn may find that its time is up altogether.
    if (!health.suspect && TimeOut(health) <= now) {
      BecomeSuspect(member, health.signs.last_heard());
      job_.changes.Touch(member);
    }
    if (TimeOut(health) > now) {  // heard of since it was entered, or only suspect yet
      SetEntry(member, TimeOut(health));
    } else {
      losses.push_back(
          {member, health.broke() ? health.link_since : health.signs.last_heard(), health.link});
    }
  }
  std::sort(losses.begin(), losses.end(), BeganEarlier);
  LOCKSTEP_DCHECK(InvariantsHold());
  return losses;
}

std::vector<FailureDetector::Loss> FailureDetector::BrokenSince(Time since) const {
  std::vector<Loss> losses;
  for (MemberIndex member : broken_) {
    const Health& health = Of(member);
    if (health.link_since <= since) losses.push_back({member, health.link_since, health.link});
  }
  std::sort(losses.begin(), losses.end(), BeganEarlier);
  return losses;
}

bool FailureDetector::InvariantsHold() const {
  for (const auto& [time, member] : time_outs_) {
    LOCKSTEP_CHECK(members_[member.value()].entry == time);
  }
  for (MemberIndex member : broken_) LOCKSTEP_CHECK(Of(member).broke());
  LOCKSTEP_CHECK(broken_.size() + restarted_ <= time_outs_.size());
  return true;
}

std::string DescribeLink(FailureDetector::Link link) {
  switch (link) {
    case FailureDetector::Link::kUp:
      break;
    case FailureDetector::Link::kSilent:
      return "its connection was closed, since nothing came over it";
    case FailureDetector::Link::kBroken:
      return "its connection broke";
    case FailureDetector::Link::kAgentEnded:
      return "the agent of its host disconnected";
    case FailureDetector::Link::kRestarted:
      return "the server was restarted, and it has not come back yet";
  }
  LOCKSTEP_CHECK(false);
}

}  // namespace lockstep::coord

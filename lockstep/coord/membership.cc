#include "lockstep/coord/membership.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

bool BeganEarlier(const Membership::Loss& a, const Membership::Loss& b) {
  return std::pair(a.since, a.member) < std::pair(b.since, b.member);
}

}  // namespace

Membership::Membership(JobRecord& job) : job_(job), members_(job.options.size) {}

std::optional<MemberIndex> Membership::Find(Incarnation incarnation) const {
  auto life = by_incarnation_.find(incarnation);
  if (life == by_incarnation_.end() || Get(life->second).incarnation != incarnation) {
    return std::nullopt;
  }
  return life->second;
}

std::string Membership::DescribeMissing(Time now, std::vector<MemberIndex> members) const {
  auto silent_longer = [this](MemberIndex a, MemberIndex b) {
    return std::tuple(Get(a).ever_registered, Get(a).last_heard, a) <
           std::tuple(Get(b).ever_registered, Get(b).last_heard, b);
  };
  const size_t named = std::min(members.size(), kNamesInErrorMax);
  std::partial_sort(members.begin(), members.begin() + named, members.end(), silent_longer);
  std::string text;
  for (size_t i = 0; i < named; ++i) {
    const Member& m = Get(members[i]);
    absl::StrAppend(&text, i == 0 ? "" : ", ", job_.Describe(members[i]));
    if (!m.ever_registered) {
      absl::StrAppend(&text, " (never came)");
    } else {
      absl::StrAppend(&text, " (last heard ", FormatSpan(now - m.last_heard), " ago)");
    }
  }
  if (members.size() > named) absl::StrAppend(&text, " +", members.size() - named, " more");
  return text;
}

void Membership::BeginLife(Time now, MemberIndex member, Incarnation incarnation,
                           std::string peer) {
  LOCKSTEP_CHECK(!job_.IsFormerLife(member, incarnation));
  Member& m = members_[member.value()];
  if (!m.ever_registered || m.incarnation != incarnation) ++version_;
  job_.NoteLife(member, incarnation);
  lives_.emplace(member, incarnation);
  by_incarnation_[incarnation] = member;
  m.incarnation = incarnation;
  m.ever_registered = true;
  m.last_heard = now;
  if (m.state == MemberState::kDisconnected) m.since = now;
  m.peer = std::move(peer);
}

void Membership::Connect(Time now, MemberIndex member) {
  Member& m = members_[member.value()];
  LOCKSTEP_CHECK(m.ever_registered);
  m.error = nullptr;
  m.last_heard = now;
  m.grace_until.reset();
  SetState(now, member, MemberState::kConnected);
  ever_connected_ = true;
}

void Membership::Fail(Time now, MemberIndex member, ErrorPtr error) {
  Member& m = members_[member.value()];
  if (m.state == MemberState::kError) return;
  m.error = std::move(error);
  SetState(now, member, MemberState::kError);
}

void Membership::Disconnect(Time now, MemberIndex member) {
  Member& m = members_[member.value()];
  m.error = nullptr;
  m.grace_until = now + job_.options.heartbeat_timeout;
  SetState(now, member, MemberState::kDisconnected);
}

void Membership::SetState(Time now, MemberIndex member, MemberState state) {
  Member& m = members_[member.value()];
  if (m.state == MemberState::kConnected) {
    Withdraw(member);
    broken_.erase(member);
    m.connection_broke.reset();
    --connected_;
  }
  failed_ += (state == MemberState::kError) - (m.state == MemberState::kError);
  m.state = state;
  m.since = now;
  ++version_;
  if (state == MemberState::kConnected) {
    ++connected_;
    Enter(member);
  }
}

void Membership::ConnectionBroke(Time now, MemberIndex member) {
  Member& m = members_[member.value()];
  if (m.state != MemberState::kConnected || m.connection_broke) return;
  m.connection_broke = now;
  broken_.insert(member);
  Withdraw(member);
  Enter(member);
}

void Membership::ConnectionBack(MemberIndex member) {
  Member& m = members_[member.value()];
  if (!m.connection_broke) return;
  m.connection_broke.reset();
  broken_.erase(member);
  Withdraw(member);
  Enter(member);
}

Time Membership::TimeOut(const Member& member) const {
  const Time silent = member.last_heard + job_.options.heartbeat_timeout;
  if (!member.connection_broke) return silent;
  return std::min(silent, *member.connection_broke + job_.options.connection_grace);
}

void Membership::Enter(MemberIndex member) {
  Member& m = members_[member.value()];
  m.entry = TimeOut(m);
  time_outs_.emplace(*m.entry, member);
}

void Membership::Withdraw(MemberIndex member) {
  Member& m = members_[member.value()];
  LOCKSTEP_CHECK(m.entry.has_value());
  time_outs_.erase({*m.entry, member});
  m.entry.reset();
}

Time Membership::NextDeadline() const {
  return time_outs_.empty() ? Time::Infinite() : time_outs_.begin()->first;
}

std::vector<Membership::Loss> Membership::Overdue(Time now) {
  std::vector<MemberIndex> due;
  for (auto it = time_outs_.begin(); it != time_outs_.end() && it->first <= now; ++it) {
    due.push_back(it->second);
  }
  std::vector<Loss> losses;
  for (MemberIndex member : due) {
    const Member& m = Get(member);
    if (TimeOut(m) > now) {  // heard of since it was entered
      Withdraw(member);
      Enter(member);
    } else {
      losses.push_back(
          {member, m.connection_broke.value_or(m.last_heard), m.connection_broke.has_value()});
    }
  }
  std::sort(losses.begin(), losses.end(), BeganEarlier);
  return losses;
}

std::vector<Membership::Loss> Membership::BrokenSince(Time since) const {
  std::vector<Loss> losses;
  for (MemberIndex member : broken_) {
    const Member& m = Get(member);
    if (*m.connection_broke <= since) losses.push_back({member, *m.connection_broke, true});
  }
  std::sort(losses.begin(), losses.end(), BeganEarlier);
  return losses;
}

}  // namespace lockstep::coord

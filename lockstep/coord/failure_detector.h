// Which members of an attempt are suspect, and which are lost. Pure.
//
// Fed by Membership, which knows who is in, and by all that hear of members.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/lazy_array.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/role_vacancies.h"
#include "lockstep/coord/signs_of_life.h"

namespace lockstep::coord {

// Watches the link and the signs of life of each connected member.
//
//   well --silent for long, or its link broke--> suspect --its time is up--> overdue
//     ^                                             |
//     +---------heard of again, linked again--------+
//
// It gives up no member: the caller decides what follows when a member is overdue. Nothing scans
// all members on a heartbeat: the time-outs stand in one ordered set, and hearing of a member only
// moves a number that is looked at when its entry comes up.
//
// Invariants: (1) every watched member has exactly one entry in the time-outs, which is never later
// than its true one; (2) a member that is not watched is neither suspect nor overdue.
//
// Threads: thread-compatible. Time: heartbeat_timeout counts from the last sign of life, which a
// parked poll is as long as it stands, and so does the part of it (kSilentIsSuspect) after which a
// member is suspect; while a stock member's poll stands, the longer time of SignsOfLife counts from
// the last sign of life. connection_grace (session_grace of a native member) counts from the break,
// restart_grace from the restart of the server.
class FailureDetector {
 public:
  // How a connected member hangs on the server.
  enum class Link {
    kUp,
    kSilent,      // closed since nothing came over it: no proof of a death
    kBroken,      // its error poll, or its session, ended and no other came since
    kAgentEnded,  // likewise, since the agent of its host ended
    kRestarted,   // the server was restarted, and it has not come back since
  };

  struct Health {
    SignsOfLife signs;
    Link link = Link::kUp;
    Time link_since;       // unless kUp
    Time link_due;         // when it `broke`: when it is lost
    bool suspect = false;  // its link is not up, or it was silent for long

    bool broke() const { return link != Link::kUp && link != Link::kSilent; }
    // When a member of which nothing more is heard is lost. `usual`: heartbeat_timeout.
    Time LostAt(absl::Duration usual) const;
  };

  // A watched member became suspect, or is well again. `since`: when its trouble began.
  struct Turn {
    MemberIndex member;
    bool suspect = false;
    Link link = Link::kUp;  // what was wrong with it; kUp: it was silent
    Time since;
  };

  // A watched member of which enough was not heard.
  struct Loss {
    MemberIndex member;
    Time since;  // when it began: the break, or the last sign of life
    Link link = Link::kUp;
  };

  // Both must outlive it.
  FailureDetector(JobRecord& job, RoleVacancies& vacancies);

  const Health& Of(MemberIndex member) const { return members_[member.value()].health; }

  // The member calls in, native or not.
  void Begin(Time now, MemberIndex member, bool native);
  // The member is connected, or is not any more.
  void Watch(Time now, MemberIndex member);
  void Unwatch(MemberIndex member);

  void Heard(Time now, MemberIndex member) {
    Health& health = Its(member).health;
    health.signs.Heard(now);
    if (!health.suspect) return;
    if (health.link == Link::kRestarted) ConnectionBack(now, member);  // it has found the server
    if (health.link == Link::kUp) BecomeWell(now, member);
  }
  // A heartbeat of the member's own, which is a sign of life as well.
  void HeardHeartbeat(Time now, MemberIndex member);
  // Whether the member's error poll is parked.
  void SetPolls(Time now, MemberIndex member, bool polls);

  // `how`: kBroken or kAgentEnded.
  void ConnectionBroke(Time now, MemberIndex member, Link how = Link::kBroken);
  void ConnectionSilent(Time now, MemberIndex member);
  void ConnectionBack(Time now, MemberIndex member);
  // The server was restarted: the member, if it is watched, has restart_grace to come back.
  void ServerRestarted(Time now, MemberIndex member);

  // Who became suspect or well since this was called last, in order of time. Nothing of those who
  // are neither any more, and nothing of each of those who have not come back since a restart.
  std::vector<Turn> TakeTurns();
  // How many have not come back since the restart.
  size_t restarted() const { return restarted_; }

  Time NextDeadline() const;
  // Watched members whose time is up at `now`, in the order in which their trouble began, ties by
  // index. Those stay watched: the caller decides. Who was silent for long becomes suspect.
  std::vector<Loss> Overdue(Time now);
  // Watched members whose connection broke at `since` or before, in the same order. Those that have
  // not come back since a restart are not among them.
  std::vector<Loss> BrokenSince(Time since) const;

  // What it holds of members, about as it costs.
  size_t memory() const { return members_.memory(); }

 private:
  struct Watched {
    Health health;
    std::optional<Time> entry;  // its place in time_outs_, while it is watched
    bool told = false;          // with `suspect`: a turn says so
  };

  Watched& Its(MemberIndex member) { return members_.Mutable(member.value()); }
  Time TimeOut(const Health& health) const;
  void SetEntry(MemberIndex member, std::optional<Time> entry);
  void EnterEarlier(MemberIndex member);
  void SetLink(MemberIndex member, Link link, Time since, Time due);
  void BecomeSuspect(MemberIndex member, Time since);
  void BecomeWell(Time now, MemberIndex member);
  bool InvariantsHold() const;

  JobRecord& job_;
  RoleVacancies& vacancies_;
  LazyArray<Watched> members_;
  std::set<std::pair<Time, MemberIndex>> time_outs_;
  std::set<MemberIndex> broken_;
  size_t restarted_ = 0;
  std::vector<Turn> turns_;
};

// Why a member is suspect whose link is not up, for people.
std::string DescribeLink(FailureDetector::Link link);

}  // namespace lockstep::coord

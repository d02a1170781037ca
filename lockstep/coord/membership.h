// Who is in an attempt, in which life, and since when nothing was heard of them. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/job_record.h"

namespace lockstep::coord {

// Holds the state of each member, and says which ones are to be given up and when.
//
//            BeginLife            Connect                Fail
//   absent ------------> (registering) ------> connected ----> error
//     ^                                            |             |
//     +------------------- Disconnect -------------+-------------+
//
// It tells nobody: what a change means for others is Attempt's. Nothing scans all members on a
// heartbeat: the time-outs stand in one ordered set, and hearing of a member only moves a number
// that is looked at when its entry comes up.
//
// Invariants: (1) a member's newest incarnation is never one that it had before; (2) every
// connected member has exactly one entry in the time-outs; (3) the first error of a member stays.
//
// Threads: thread-compatible. Time: heartbeat_timeout counts from the last sign of life,
// connection_grace from the break.
class Membership {
 public:
  struct Member {
    MemberState state = MemberState::kDisconnected;
    Incarnation incarnation;
    ErrorPtr error;  // in kError
    Time since;      // when `state` began, or registering, or it was given up
    Time last_heard;
    bool ever_registered = false;
    // After leaving: heartbeats and polls that were under way are still taken until then.
    std::optional<Time> grace_until;
    // While connected: its error poll ended and no other came since.
    std::optional<Time> connection_broke;
    std::string peer;

   private:
    friend class Membership;
    std::optional<Time> entry;  // its place in time_outs_
  };

  // A connected member of which enough was not heard.
  struct Loss {
    MemberIndex member;
    Time since;  // when it began: the break, or the last sign of life
    bool connection_broke = false;
  };

  explicit Membership(JobRecord& job);

  const Member& Get(MemberIndex member) const { return members_[member.value()]; }
  int32_t size() const { return static_cast<int32_t>(members_.size()); }
  size_t connected() const { return connected_; }
  size_t failed() const { return failed_; }
  bool ever_connected() const { return ever_connected_; }
  // `task/4#1 (last heard 41s ago), task/9 (never came) +3 more`: the longest silent first.
  std::string DescribeMissing(Time now, std::vector<MemberIndex> members) const;

  // Goes up with every change of a member's state or incarnation.
  int64_t version() const { return version_; }
  // The member that has this as its newest incarnation.
  std::optional<MemberIndex> Find(Incarnation incarnation) const;
  // Whether the member had this life in this attempt, now or before.
  bool Knew(MemberIndex member, Incarnation incarnation) const {
    return lives_.contains({member, incarnation});
  }

  // A registration came in, of a life that is not a former one.
  void BeginLife(Time now, MemberIndex member, Incarnation incarnation, std::string peer);
  // A registration of the member that was not answered with success waits no longer.
  void GaveUpRegistering(Time now, MemberIndex member) { members_[member.value()].since = now; }
  void Connect(Time now, MemberIndex member);
  void Fail(Time now, MemberIndex member, ErrorPtr error);
  void Disconnect(Time now, MemberIndex member);

  void Heard(Time now, MemberIndex member) { members_[member.value()].last_heard = now; }
  void ConnectionBroke(Time now, MemberIndex member);
  void ConnectionBack(MemberIndex member);

  Time NextDeadline() const;

  // Connected members whose time is up at `now`, in the order in which their trouble began, ties by
  // index. Those stay connected: the caller decides.
  std::vector<Loss> Overdue(Time now);

  // Connected members whose connection broke at `since` or before, in the same order.
  std::vector<Loss> BrokenSince(Time since) const;

 private:
  Time TimeOut(const Member& member) const;
  void Enter(MemberIndex member);
  void Withdraw(MemberIndex member);
  void SetState(Time now, MemberIndex member, MemberState state);

  JobRecord& job_;
  std::vector<Member> members_;
  absl::flat_hash_set<std::pair<MemberIndex, Incarnation>> lives_;  // these two: looked up only
  absl::flat_hash_map<Incarnation, MemberIndex> by_incarnation_;
  std::set<std::pair<Time, MemberIndex>> time_outs_;  // never later than the true ones
  std::set<MemberIndex> broken_;
  size_t connected_ = 0;
  size_t failed_ = 0;
  bool ever_connected_ = false;
  int64_t version_ = 1;  // 0 means "none" on the wire
};

}  // namespace lockstep::coord

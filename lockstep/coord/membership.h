// Who is in an attempt, in which life, and since when nothing was heard of them. Pure.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/admission.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Of what a member may be silent for before it is lost; stock clients send a heartbeat every half
// of their own time-out, so that by then one is overdue.
inline constexpr double kSilentIsSuspect = 0.6;

// A stock client's time-out is not on the wire, and sets the period of its heartbeats: from 0.5 s
// up. As long as its error poll stands, it may be silent for so many periods as were seen of it...
inline constexpr double kSilentPeriods = 2.5;
// ...the longest of the last so many, since one may be cut by a retry, or stretched by a pause...
inline constexpr int kPeriodsKept = 3;
// ...taken for this before the first (of a client with a time-out of 20 minutes)...
inline constexpr absl::Duration kUnseenPeriod = absl::Minutes(10);
// ...and for no more than this, so that nobody earns itself a life without heartbeats.
inline constexpr absl::Duration kPeriodMax = absl::Hours(1);
// What follows another within this is the same heartbeat, sent again.
inline constexpr absl::Duration kHeartbeatAgain = absl::Milliseconds(400);

// The periods between the heartbeats of one life of a stock member.
class Heartbeats {
 public:
  // It began to send them then, the first after a period. Not said: the first one tells nothing.
  explicit Heartbeats(std::optional<Time> since = std::nullopt) : last_(since) {}

  void Note(Time now);
  // The period that it has; none seen yet: kUnseenPeriod.
  bool seen() const { return seen_; }
  absl::Duration period() const;

 private:
  std::optional<Time> last_;
  std::array<absl::Duration, kPeriodsKept> periods_;  // zero where there is none yet
  int next_ = 0;
  bool seen_ = false;
};

// Holds the state of each member, and says which ones are to be given up and when.
//
//            BeginLife            Connect                Fail
//   absent ------------> (registering) ------> connected ----> error
//     ^                                            |             |
//     +------------------- Disconnect -------------+-------------+
//
// It tells nobody: what a change means for others is Attempt's, which also records the members that
// changed. Nothing scans all members on a
// heartbeat: the time-outs stand in one ordered set, and hearing of a member only moves a number
// that is looked at when its entry comes up.
//
// Invariants: (1) a member's newest incarnation is never one that it had before; (2) every
// connected member has exactly one entry in the time-outs; (3) the first error of a member stays.
//
// Threads: thread-compatible. Time: heartbeat_timeout counts from the last sign of life, which a
// parked poll is as long as it stands, and so does the part of it (kSilentIsSuspect) after which a
// member is suspect; while a stock member's poll stands, the longer time above counts from the last
// sign of life. connection_grace (session_grace of a native member) counts from the break,
// restart_grace from the restart of the server.
class Membership {
 public:
  // How a connected member hangs on the server.
  enum class Link {
    kUp,
    kSilent,     // closed since nothing came over it: no proof of a death
    kBroken,     // its error poll, or its session, ended and no other came since
    kRestarted,  // the server was restarted, and it has not come back since
  };

  struct Member {
    MemberState state = MemberState::kDisconnected;
    Incarnation incarnation;
    ErrorPtr error;  // in kError
    Time since;      // when `state` began, or registering, or it was given up
    Time last_heard;
    bool ever_registered = false;
    bool was_in = false;  // this life was connected once
    // After leaving: heartbeats and polls that were under way are still taken until then.
    std::optional<Time> grace_until;
    // While connected.
    Link link = Link::kUp;
    Time link_since;       // unless kUp
    Time link_due;         // in kBroken and kRestarted: when it is lost
    bool suspect = false;  // its link is not up, or it was silent for long
    std::string peer;
    std::string role;   // as the member calls it
    SessionId session;  // none: a stock client
    Labels labels;
    std::optional<int64_t> step;  // this and `phase`: as far as it said
    std::string phase;
    bool polls = false;  // while connected: its error poll stands

    bool native() const { return !session.none(); }
    bool broke() const { return link == Link::kBroken || link == Link::kRestarted; }

   private:
    friend class Membership;
    std::optional<Time> entry;  // its place in time_outs_
    size_t lives_here = 0;      // how many of its kept lives belong to this attempt
    Time polled;                // its poll stood until then
    Heartbeats heartbeats;
    bool noted = false;  // is in changed_
    bool told = false;   // with `suspect`: a turn says so
  };

  // A connected member became suspect, or is well again. `since`: when its trouble began.
  struct Turn {
    MemberIndex member;
    bool suspect = false;
    Link link = Link::kUp;  // what was wrong with it; kUp: it was silent
    Time since;
  };

  // A connected member of which enough was not heard.
  struct Loss {
    MemberIndex member;
    Time since;  // when it began: the break, or the last sign of life
    Link link = Link::kUp;
  };

  explicit Membership(JobRecord& job);

  const Member& Get(MemberIndex member) const { return members_[Place(member)]; }
  int32_t size() const { return static_cast<int32_t>(members_.size()); }
  size_t connected() const { return connected_; }
  // What it holds of members, about as it costs.
  size_t memory() const;
  size_t failed() const { return failed_; }
  bool ever_connected() const { return ever_connected_; }
  // `task/4#1 (last heard 41s ago, at step 7, waits at barrier 'b' for 3s), task/9 (never came) +3
  // more`: the longest silent first, each with what is known of where it is and what it does
  // instead.
  std::string DescribeMissing(Time now, std::vector<MemberIndex> members) const;

  // How many members of the role, from its first on, are known not to be free to join as. Goes up
  // when whoever looks for a free one says so, and down with any change of a member below it.
  int32_t TakenFrom(const RoleRecord& role) const { return taken_from_[role.first]; }
  void NoteTaken(const RoleRecord& role, int32_t count) { taken_from_[role.first] = count; }

  // Goes up with every change of a member's state or incarnation.
  int64_t version() const { return version_; }
  // The member that has this as its newest incarnation.
  std::optional<MemberIndex> Find(Incarnation incarnation) const;
  // Whether the member had this life in this attempt, now or before (`lives_kept_max`).
  bool Knew(MemberIndex member, Incarnation incarnation) const;

  // How many of the lives that the job keeps of the member belong to this attempt.
  size_t LivesHere(MemberIndex member) const;

  // A registration came in, of a life that is not a former one.
  void BeginLife(Time now, const Admission& admission);
  void BeginLife(Time now, MemberIndex member, Incarnation incarnation, std::string peer);
  // A registration of the member that was not answered with success waits no longer.
  void GaveUpRegistering(Time now, MemberIndex member);
  void Connect(Time now, MemberIndex member);
  void Fail(Time now, MemberIndex member, ErrorPtr error);
  void Disconnect(Time now, MemberIndex member);

  void Heard(Time now, MemberIndex member) {
    Member& m = Its(member);
    m.last_heard = now;
    if (!m.suspect) return;
    if (m.link == Link::kRestarted) ConnectionBack(now, member);  // it has found the server again
    if (m.link == Link::kUp) BecomeWell(now, member);
  }
  // A heartbeat of its own, which is a sign of life as well.
  void HeardHeartbeat(Time now, MemberIndex member);
  // Whether the member's error poll is parked.
  void SetPolls(Time now, MemberIndex member, bool polls);
  // Where the member is in its work; true when that is news.
  bool NoteProgress(MemberIndex member, std::optional<int64_t> step, const std::string& phase);

  void ConnectionBroke(Time now, MemberIndex member);
  void ConnectionSilent(Time now, MemberIndex member);
  void ConnectionBack(Time now, MemberIndex member);

  // The member is as this record says, which was made at `at`.
  void Restore(Time at, const record::MemberChanged& record);
  // All were in once.
  void RestoreEverConnected() { ever_connected_ = true; }
  // The server begins to listen: who is connected has restart_grace to come back. Versions go on
  // from `version`, which none had before.
  void Restored(Time now, int64_t version);

  // Records what others may be told of the members that changed since this was called last, in
  // order.
  void RecordChanges(Effects& out);
  // The records from which `Restore` makes this state.
  void Snapshot(std::vector<TimedRecord>& records) const;
  // Who became suspect or well since this was called last, in order of time. Nothing of those who
  // are neither any more, and nothing of each of those who have not come back since a restart.
  std::vector<Turn> TakeTurns();
  // How many have not come back since the restart.
  size_t restarted() const { return restarted_; }

  Time NextDeadline() const;

  // When a connected member of which nothing more is heard becomes suspect by that, and when it is
  // lost.
  Time SuspectAt(const Member& member) const;
  Time LostAt(const Member& member) const;
  // "nothing was heard of it for 1m10s": and when it is lost, if that is later than usual.
  std::string DescribeSilence(Time now, const Member& member) const;

  // Connected members whose time is up at `now`, in the order in which their trouble began, ties by
  // index. Those stay connected: the caller decides. Who was silent for long becomes suspect.
  std::vector<Loss> Overdue(Time now);

  // Connected members whose connection broke at `since` or before, in the same order. Those that
  // have not come back since a restart are not among them.
  std::vector<Loss> BrokenSince(Time since) const;

 private:
  static size_t Place(MemberIndex member) { return static_cast<size_t>(member.value()); }
  // To change it.
  Member& Its(MemberIndex member) { return members_.Mutable(Place(member)); }
  void SetLabels(Member& member, const Labels& labels);
  static Time SilentSince(const Member& member);
  absl::Duration Patience(const Member& member) const;
  Time TimeOut(const Member& member) const;
  void Enter(MemberIndex member);
  void EnterEarlier(MemberIndex member);
  void Withdraw(MemberIndex member);
  void SetState(Time now, MemberIndex member, MemberState state);
  void SetLink(MemberIndex member, Link link, Time since, Time due);
  void SetLife(MemberIndex member, Incarnation incarnation, bool is_new);
  void NoteChange(MemberIndex member);
  void ForgetChanges();
  record::MemberChanged RecordOf(MemberIndex member) const;
  void NoteMayBeFree(MemberIndex member);
  void BecomeSuspect(MemberIndex member, Time since);
  void BecomeWell(Time now, MemberIndex member);

  JobRecord& job_;
  LazyArray<Member> members_;
  size_t label_bytes_ = 0;                                        // of all members
  absl::flat_hash_map<Incarnation, MemberIndex> by_incarnation_;  // newest lives; looked up only
  std::vector<MemberIndex> changed_;
  std::vector<int32_t> taken_from_;  // by the first member of a role
  std::vector<Turn> turns_;
  std::set<std::pair<Time, MemberIndex>> time_outs_;  // never later than the true ones
  std::set<MemberIndex> broken_;
  size_t connected_ = 0;
  size_t failed_ = 0;
  size_t restarted_ = 0;
  bool ever_connected_ = false;
  int64_t version_ = 1;  // 0 means "none" on the wire
};

}  // namespace lockstep::coord

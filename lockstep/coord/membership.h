// Which members are in an attempt, in which life, and what they said of themselves. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/admission.h"
#include "lockstep/coord/attempt_lives.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/failure_detector.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/role_vacancies.h"

namespace lockstep::coord {

// Holds the state of each member, and has those that are connected watched.
//
//            BeginLife            Connect                Fail
//   absent ------------> (registering) ------> connected ----> error
//     ^                                            |             |
//     +------------------- Disconnect -------------+-------------+
//
// It tells nobody: what a change means for others is MemberLifecycle's. When to give up on a member
// is the failure detector's to say, which hears of signs of life and links without a detour.
//
// Invariants: (1) a member's newest incarnation is never one that it had before; (2) the failure
// detector watches exactly the connected members; (3) the first error of a member stays.
//
// Threads: thread-compatible. Bounds: one entry a member; lives_kept_max.
class Membership {
 public:
  struct Member {
    MemberState state = MemberState::kDisconnected;
    Incarnation incarnation;
    ErrorPtr error;  // in kError
    Time since;      // when `state` began, or registering, or it was given up
    bool ever_registered = false;
    bool was_in = false;       // this life was connected once
    std::optional<Time> came;  // when this life was first heard of; nothing: of an earlier server
    // After leaving: heartbeats and polls that were under way are still taken until then.
    std::optional<Time> grace_until;
    std::string peer;
    std::string role;   // as the member calls it
    SessionId session;  // none: a stock client
    Labels labels;
    std::optional<int64_t> step;  // this and `phase`: as far as it said
    std::string phase;

    bool native() const { return !session.none(); }
  };

  explicit Membership(JobRecord& job);

  const Member& Get(MemberIndex member) const { return members_[member.value()]; }
  int32_t size() const { return static_cast<int32_t>(members_.size()); }
  size_t connected() const { return connected_; }
  // What it holds of members, about as it costs.
  size_t memory() const;
  size_t failed() const { return failed_; }
  bool ever_connected() const { return ever_connected_; }
  // Where to look for a member that a newcomer may be.
  RoleVacancies& vacancies() { return vacancies_; }
  // Which lives members have, or had, in this attempt.
  const AttemptLives& lives() const { return lives_; }
  // What is heard of the members, and which are suspect or lost by that.
  FailureDetector& detector() { return detector_; }
  const FailureDetector& detector() const { return detector_; }

  // Goes up with every change of a member's state or incarnation.
  int64_t version() const { return version_; }
  // The member that has this as its newest incarnation.
  std::optional<MemberIndex> Find(Incarnation incarnation) const;

  // A registration came in, of a life that is not a former one.
  void BeginLife(Time now, const Admission& admission);
  void BeginLife(Time now, MemberIndex member, Incarnation incarnation, std::string peer);
  // A registration of the member that was not answered with success waits no longer.
  void GaveUpRegistering(Time now, MemberIndex member);
  void Connect(Time now, MemberIndex member);
  void Fail(Time now, MemberIndex member, ErrorPtr error);
  void Disconnect(Time now, MemberIndex member);

  // Where the member is in its work; true when that is news.
  bool NoteProgress(MemberIndex member, std::optional<int64_t> step, const std::string& phase);

  // The member is as this record says, which was made at `at`.
  void Restore(Time at, const record::MemberChanged& record);
  // The server begins to listen: who is connected has restart_grace to come back. Versions go on
  // from `version`, which none had before.
  void Restored(Time now, int64_t version);

  // Records what others may be told of the members that changed since this was called last, in
  // order.
  void RecordChanges(Effects& out);
  // The records from which `Restore` makes this state.
  void Snapshot(std::vector<TimedRecord>& records) const;

 private:
  void SetLabels(Member& member, const Labels& labels);
  void SetState(Time now, MemberIndex member, MemberState state);
  void NoteChange(MemberIndex member);
  record::MemberChanged RecordOf(MemberIndex member) const;

  JobRecord& job_;
  LazyArray<Member> members_;
  AttemptLives lives_;
  RoleVacancies vacancies_;
  FailureDetector detector_;
  std::set<MemberIndex> changed_;  // since they were recorded
  size_t label_bytes_ = 0;         // of all members
  size_t connected_ = 0;
  size_t failed_ = 0;
  bool ever_connected_ = false;
  int64_t version_ = 1;  // 0 means "none" on the wire
};

// `task/4#1 (last heard 41s ago, at step 7, waits at barrier 'b' for 3s), task/9 (never came) +3
// more`: the longest silent first, each with what is known of where it is and what it does instead.
std::string DescribeMissing(Time now, const JobRecord& job, const Membership& membership,
                            std::vector<MemberIndex> members);

}  // namespace lockstep::coord

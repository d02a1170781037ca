// How members come in: nobody is let in before everybody has asked. Pure.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "lockstep/coord/admission.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// Gathers the first registrations of an attempt, and ends with all of them at once.
//
// A process that starts anew before the others are there takes the place of its former life. One
// that goes away is not counted any more. A caller with a deadline of its own is told who is
// missing shortly before it, since afterwards nobody could tell it.
//
// Threads: thread-compatible. Time: register_timeout counts from the first registration.
class Registration {
 public:
  // As upstream calls it, in errors.
  static constexpr absl::string_view kBarrierId = "[Init]Wait_for_all_tasks_to_register";

  // Both outlive it.
  Registration(const JobRecord& job, Membership& membership);

  // A member that is not connected asks to be let in. True when it was the last: then `TakeAll`.
  bool Ask(Time now, const Admission& request, Effects& out);

  // Everybody is there: the calls to be answered, in order. Nothing is pending afterwards.
  std::vector<Gathering::Arrival> TakeAll();

  // Nothing has come before, or all have gone again.
  bool idle() const { return !gathering_; }
  // False also when nothing is pending.
  bool Waits(MemberIndex member) const { return gathering_ && gathering_->Waits(member); }
  std::optional<Time> since() const;  // the first registration; nullopt when idle

  // The member's process has ended: it is not counted any more, and its call gets the error. False
  // when it does not wait here.
  bool MemberEnded(Time now, MemberIndex member, const ErrorPtr& error, Effects& out);

  // The caller left. False when it does not wait here.
  bool Forget(Time now, CallId call);

  // Answers those whose own deadline is near. When the time of all is up, answers all and returns
  // what they were told. DEADLINE_EXCEEDED, registration_failed, with the missing members; null:
  // the time is not up.
  ErrorPtr ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;  // of all, or of a caller; infinite when idle

  // All who wait get the error; nothing is pending afterwards.
  void FailAll(const ErrorPtr& error, Effects& out);

  size_t waits() const { return calls_.size(); }  // calls that wait

 private:
  void Drop(Time now, MemberIndex member, CallId call);
  ErrorPtr TimedOut(Time now) const;

  const JobRecord& job_;
  Membership& membership_;
  const Participants everybody_;
  std::optional<Gathering> gathering_;
  std::set<std::pair<Time, MemberIndex>> leaving_;  // when a caller has to be told
  std::vector<Time> leaves_;                        // by member: its place in leaving_
  absl::flat_hash_map<CallId, MemberIndex> calls_;  // looked up only
};

}  // namespace lockstep::coord

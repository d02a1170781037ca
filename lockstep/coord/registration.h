// How members come in: nobody is let in before everybody has asked. Pure.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "lockstep/coord/admission.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/gathering.h"
#include "lockstep/coord/membership.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Gathers the first registrations of an attempt, and is complete with all of them at once: from
// then on, members come in one by one, and this only tells which index is free.
//
//   idle --first registration--> open --all wait--> complete
//    ^                            |
//    '--the last waiter left, or--'
//        register_timeout
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

  // A member that is not connected asks to be let in, before the registration is complete. It is
  // answered by who takes it with `TakeAll`; CANCELLED or ALREADY_EXISTS (superseded) when the
  // member asks again; DEADLINE_EXCEEDED (registration_failed) when its time or that of all is up.
  // True when it was the last.
  bool Ask(Time now, const Admission& request, Effects& out);

  // All members wait: the registration is complete. Returns their calls, in the order of the
  // members, for the caller to answer.
  std::vector<Gathering::Arrival> TakeAll(Effects& out);

  // No call waits here.
  bool idle() const { return !open(); }
  // All members were in at the same time once.
  bool complete() const { return std::holds_alternative<Complete>(state_); }
  bool Waits(MemberIndex member) const { return open() && gathering().Waits(member); }
  // When the first registration came; absent: none came yet.
  std::optional<Time> began() const { return began_; }
  // The lowest member of the role that a newcomer may be; absent: each is taken.
  std::optional<MemberIndex> FreeMember(const RoleRecord& role) const;

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

  // The attempt is known to have begun by then.
  void RestoreBegun(Time at);
  void Apply(Time at, const record::AttemptRuns& record);
  void Snapshot(std::vector<TimedRecord>& records) const;

  size_t waits() const { return calls_.size(); }

 private:
  struct Idle {};
  struct Complete {};

  bool open() const { return std::holds_alternative<Gathering>(state_); }
  Gathering& gathering() { return std::get<Gathering>(state_); }
  const Gathering& gathering() const { return std::get<Gathering>(state_); }
  void Drop(Time now, MemberIndex member, CallId call);
  ErrorPtr TimedOut(Time now) const;

  const JobRecord& job_;
  Membership& membership_;
  const Participants everybody_;
  std::variant<Idle, Gathering, Complete> state_;
  std::optional<Time> began_;
  std::set<std::pair<Time, MemberIndex>> leaving_;  // when a caller has to be told
  std::vector<Time> leaves_;                        // by member: its place in leaving_
  absl::flat_hash_map<CallId, MemberIndex> calls_;  // looked up only
};

}  // namespace lockstep::coord

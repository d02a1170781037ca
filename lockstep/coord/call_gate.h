// What every request passes before an attempt carries it out. Pure.
#pragma once

#include <cstddef>
#include <functional>

#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// Refuses callers that are not members of the job, lives of members that are over, and calls that
// would wait beyond waits_max. What a refused caller asked for has no effect.
//
// Threads: thread-compatible.
class CallGate {
 public:
  // `waits`: how many calls of the attempt wait now. Both references must outlive the gate.
  CallGate(const JobRecord& job, Membership& membership, std::function<size_t()> waits);

  // False: `call` was answered with INVALID_ARGUMENT (unknown_member).
  bool CheckMember(MemberIndex member, CallId call, Effects& out) const;
  // False: the caller was answered with that, or with ABORTED (member_restarted), since the member
  // has another life by now.
  bool CheckCaller(MemberIndex member, const Caller& caller, Effects& out) const;
  // False: `call` was answered with RESOURCE_EXHAUSTED (limit_exceeded, memory_max).
  bool MayPark(CallId call, Effects& out) const;
  // Null when the member is in, or has left so recently that its last messages may still arrive.
  // Else ABORTED (member_failed) or INVALID_ARGUMENT (not_registered).
  ErrorPtr CheckIn(Time now, MemberIndex member) const;

  // A request is a sign of life of the member that sent it, if a member did.
  void NoteLife(Time now, const Caller& caller);

 private:
  const JobRecord& job_;
  Membership& membership_;
  const std::function<size_t()> waits_;
};

}  // namespace lockstep::coord

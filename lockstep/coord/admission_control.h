// Who is let into a job, as which member, and in which attempt. Pure.
#pragma once

#include <optional>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/attempt_series.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/role_table.h"
#include "lockstep/coord/sessions.h"

namespace lockstep::coord {

// Checks the requests of processes that want to be members, and opens the next attempt when one of
// them belongs to it. Then the attempt decides when they are let in.
//
// A stock process says which member it is, and takes the place of the one before; a native one may
// leave that open, never takes the place of a process that lives, and may say which attempt it was
// started for.
//
// Threads: thread-compatible. It holds nothing.
class AdmissionControl {
 public:
  // Both must outlive it.
  AdmissionControl(const JobRecord& job, AttemptSeries& attempts)
      : job_(job), attempts_(attempts) {}

  // Answered by the attempt, with Registered. RESOURCE_EXHAUSTED (limit_exceeded, memory_max): no
  // attempt, or no memory, is left. INVALID_ARGUMENT (unknown_role, unknown_member): it is not of
  // that role. ALREADY_EXISTS (member_exists): it would take the place of a native member that
  // lives.
  void Register(Time now, const RegisterMember& request, Effects& out);

  // Answered by the attempt, with Joined. INVALID_ARGUMENT (invalid_argument, unknown_role,
  // unknown_member): the request makes no sense. RESOURCE_EXHAUSTED (limit_exceeded, memory_max),
  // and (job_full): all members of the role are there. FAILED_PRECONDITION (wrong_attempt): it was
  // started for an attempt that is over, or for a later one while this one is on. ALREADY_EXISTS
  // (member_exists): the session is another member, or another process is this one.
  // PERMISSION_DENIED (not_permitted): the caller's certificate names another member.
  void Join(Time now, SessionTable::Session& session, const JoinJob& request, Effects& out);

 private:
  // Null when the member is of the role that it says.
  ErrorPtr CheckRole(const RegisterMember& request) const;
  // Null when the request makes sense, whoever is in.
  ErrorPtr CheckJoin(const JoinJob& request, const RoleRecord** role) const;
  // Null when the attempt that the process was started for may take it. `known`: it is, or was, a
  // member of the one that is on.
  ErrorPtr CheckAttempt(const JoinJob& request, bool known) const;
  // Null when the session is not another member already.
  ErrorPtr CheckOnlyOnce(const SessionTable::Session& session, const JoinJob& request,
                         std::optional<MemberIndex> member) const;
  // Refuses a task that names the incarnation of another member, whose keys and signs of life go by
  // it.
  ErrorPtr CheckLife(const JoinJob& request, std::optional<MemberIndex> member) const;
  // Whether the process that is the member, or waits to be, asks again. Of a task only its session
  // proves that; others may have lost theirs.
  bool IsSameLife(const JoinJob& request, MemberIndex member) const;
  // Null when no other process that lives is this member. `same_life`: it is the one that asks.
  ErrorPtr CheckHolder(Time now, MemberIndex member, bool same_life) const;
  // The member that it says, or is already; nothing: whichever is free.
  std::optional<MemberIndex> FindMember(const JoinJob& request, const RoleRecord& role) const;
  // The member that the caller's certificate names, if it has one. Null, or why it may not come in.
  ErrorPtr SettleBound(const JoinJob& request, const RoleRecord& role,
                       std::optional<MemberIndex>& member) const;
  // Opens the next attempt when this life belongs there. Null, or why it may not come in.
  ErrorPtr SettleAttempt(Time now, const JoinJob& request, std::optional<MemberIndex> member,
                         bool known, Effects& out);
  ErrorPtr JobFull(const RoleRecord& role) const;

  const JobRecord& job_;
  AttemptSeries& attempts_;
};

}  // namespace lockstep::coord

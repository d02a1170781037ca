// The sessions of native clients in a job: what they may ask, as whom, and what is kept for them.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/attempt_series.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/key_deletions.h"
#include "lockstep/coord/member_agents.h"
#include "lockstep/coord/records.h"
#include "lockstep/coord/sessions.h"

namespace lockstep::coord {

// Ties sessions (SessionTable) to members of the current attempt: what becomes of a link says
// something about its member, and a live member's session is not forgotten. And it makes requests
// take effect once: the answer to one that took effect is kept until its client has it.
//
// Threads: thread-compatible. Bounds: those of SessionTable. Time: session_timeout.
class NativeSessions {
 public:
  // Both must outlive it.
  NativeSessions(const JobRecord& job, AttemptSeries& attempts)
      : job_(job), attempts_(attempts), table_(job.options) {}

  // Answered with SessionOpened. INVALID_ARGUMENT (invalid_argument): its id is zeros. NOT_FOUND
  // (unknown_session): it cannot be resumed. RESOURCE_EXHAUSTED (limit_exceeded, memory_max): there
  // are too many, or there is no memory left.
  void Open(Time now, const OpenSession& request, Effects& out);
  // Its link broke: it expires, unless it is opened again. Ignored when it is not known.
  void Broke(Time now, const SessionBroke& fact, Effects& out);
  // A sign of life; its client has the answers so far. Ignored when it is not known.
  void Answered(Time now, const AnsweredThrough& fact);
  // Of a session that is known; answered with nothing. Its member leaves.
  void Close(Time now, const CloseSession& request, Effects& out);

  // Of an agent whose host was given up. Ignored when it is not known.
  void End(SessionId id, Effects& out) {
    if (Knows(id)) table_.Close(id, out);
  }

  // Which members call through which agent.
  MemberAgents& agents() { return agents_; }
  const MemberAgents& agents() const { return agents_; }

  // Null when the job does not know the session. Valid until it is closed or expires.
  SessionTable::Session* Find(SessionId id) { return table_.Find(id); }
  bool Knows(SessionId id) const { return table_.Knows(id); }

  // Null when the session may ask that. FAILED_PRECONDITION (not_a_member): it has not joined, and
  // the request is none for tools. INTERNAL (wrong_service_incarnation): it is of an attempt that
  // is over. ABORTED (member_restarted): its member lives anew. What SessionTable::CheckKeep says
  // of a request that takes effect, whose answer is going to be kept.
  ErrorPtr Check(const SessionTable::Session& session, const RequestTraits& traits,
                 const Caller& caller) const;
  // Of a request that an agent passes on: its session, when the request is to be carried out. Null:
  // it was answered, as before or with an error: `Unknown`, or as SessionTable::CheckKeep and
  // CheckNumber say.
  SessionTable::Session* Begin(const Caller& caller, const RequestTraits& traits, Effects& out);
  // NOT_FOUND (unknown_session).
  ErrorPtr Unknown() const;
  // Whether the request was answered before, and the answer is kept: then it is answered once more.
  // `value`: what the request writes, when it writes one.
  bool AnswerAgain(const SessionTable::Session& session, const Caller& caller,
                   const std::string* value, Effects& out) const;
  // As SessionTable::CheckNumber.
  ErrorPtr CheckNumber(const SessionTable::Session& session, const Caller& caller) const {
    return table_.CheckNumber(session, caller.number);
  }
  // Keeps what the call was answered with, when it took effect: when there are more records and
  // replies than these.
  void KeepAnswer(SessionTable::Session& session, const Caller& caller, size_t records,
                  size_t replies, Effects& out);

  // To be called after every event: keeps the answers of long deletions that have ended, and notes
  // who has joined.
  void Settle(const std::vector<KeyDeletions::Ended>& deleted, Effects& out);
  // Forgets sessions whose time is up.
  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const { return table_.NextDeadline(); }

  // Restores sessions, their answers (false: of no session), and which members they were.
  void Apply(Time at, const record::SessionChanged& record) { table_.Restore(at, record); }
  bool Apply(const record::AnswerKept& record) { return table_.Restore(record); }
  void Apply(const record::MemberChanged& record);
  // All records are applied: no session is linked.
  void Restored(Time now) { table_.Restored(now); }
  const SessionTable& table() const { return table_; }

 private:
  // Null when it may speak as a member, or need not be one.
  ErrorPtr CheckSeat(const SessionTable::Session& session, bool for_tools) const;
  bool IsLiveMember(const SessionTable::Session& session) const;

  const JobRecord& job_;
  AttemptSeries& attempts_;
  SessionTable table_;
  MemberAgents agents_;
};

}  // namespace lockstep::coord

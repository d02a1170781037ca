#include "lockstep/coord/native_sessions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/kept_answers.h"

namespace lockstep::coord {

void NativeSessions::Open(Time now, const OpenSession& request, Effects& out) {
  bool resumed = false;
  // A session that is known costs nothing more.
  if (!Knows(request.session) && job_.no_room.for_small) {
    return out.Fail(request.call, job_.no_room.for_small);
  }
  if (ErrorPtr refusal = table_.Open(now, request, &resumed, out)) {
    return out.Fail(request.call, refusal);
  }
  const SessionTable::Session& session = *Find(request.session);
  // A link is a sign of life only of the member that the session is now.
  Attempt& attempt = attempts_.current();
  if (IsLiveMember(session)) attempt.Handle(now, session.seat->member, request, out);
  attempt.Handle(now, agents_.MembersOf(session.id), request);
  out.Succeed(
      request.call,
      SessionOpened{.resumed = resumed, .attempt = job_.attempt, .size = job_.options.size});
}

void NativeSessions::Broke(Time now, const SessionBroke& fact, Effects& out) {
  SessionTable::Session* session = Find(fact.session);
  if (session == nullptr) return;
  // The session first: it expires even if it is no member's.
  table_.Broke(now, *session);
  Attempt& attempt = attempts_.current();
  if (IsLiveMember(*session)) attempt.Handle(now, session->seat->member, fact, out);
  attempt.Handle(now, agents_.MembersOf(fact.session), fact);
}

void NativeSessions::Answered(Time now, const AnsweredThrough& fact) {
  SessionTable::Session* session = Find(fact.session);
  if (session == nullptr) return;
  table_.AnsweredThrough(*session, fact.number);
  if (IsLiveMember(*session)) attempts_.current().Heard(now, session->seat->member);
}

void NativeSessions::Close(Time now, const CloseSession& request, Effects& out) {
  const SessionId id = request.caller.session;
  LOCKSTEP_DCHECK(Knows(id));
  // `asks`, not `seat`: it may still wait to be let in.
  const std::optional<MemberIndex> asked = Find(id)->asks;
  Attempt& attempt = attempts_.current();
  // Another session may be that member by now; closing this one does not concern it.
  if (asked && attempt.membership().Get(*asked).session == id) {
    attempt.Handle(now, *asked, request, out);
  }
  attempt.Handle(now, agents_.MembersOf(id), SessionBroke{.session = id});
  table_.Close(id, out);
  out.Succeed(request.caller.call);
}

bool NativeSessions::IsLiveMember(const SessionTable::Session& session) const {
  const Attempt& attempt = attempts_.current();
  if (!session.seat || session.seat->service != attempt.service()) return false;
  const Membership::Member& member = attempt.membership().Get(session.seat->member);
  // The member may have come back in another session, which then speaks for it.
  return member.session == session.id && member.state == MemberState::kConnected;
}

ErrorPtr NativeSessions::Check(const SessionTable::Session& session, const RequestTraits& traits,
                               const Caller& caller) const {
  // Who asks comes first; room for an answer matters only to a caller that may ask.
  if (ErrorPtr refusal = CheckSeat(session, traits.for_tools)) return refusal;
  return traits.takes_effect ? table_.CheckKeep(session, caller.number) : nullptr;
}

ErrorPtr NativeSessions::CheckSeat(const SessionTable::Session& session, bool for_tools) const {
  if (!session.seat) {
    // Tools read and write without being members.
    if (for_tools) return nullptr;
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNotAMember,
                     absl::StrCat("this session has not joined job '", job_.options.job,
                                  "': join it first; without that it may only read and write keys "
                                  "and watch"));
  }
  const Seat& seat = *session.seat;
  if (seat.service != attempts_.current().service()) {
    return attempts_.WrongService(seat.service, true);
  }
  // In the same attempt another life of the member may sit in another session.
  if (!job_.lives.IsFormer(seat.member, seat.incarnation)) return nullptr;
  return MakeError(
      absl::StatusCode::kAborted, Reason::kMemberRestarted,
      absl::StrCat("this is a request of a former life of ", job_.Describe(seat.member),
                   ", which has restarted since; end this process"));
}

SessionTable::Session* NativeSessions::Begin(const Caller& caller, const RequestTraits& traits,
                                             Effects& out) {
  SessionTable::Session* const session = Find(caller.agent);
  ErrorPtr refusal;
  if (session == nullptr) {
    refusal = Unknown();
  } else if (const auto* kept = table_.Kept(*session, caller.number);
             !traits.takes_effect || (kept != nullptr && !MayBeStock(*kept))) {
    refusal = CheckNumber(*session, caller);
  } else if (AnswerAgain(*session, caller, nullptr, out)) {
    return nullptr;
  } else {
    refusal = table_.CheckKeep(*session, caller.number);
  }
  if (!refusal) return session;
  out.Fail(caller.call, std::move(refusal));
  return nullptr;
}

ErrorPtr NativeSessions::Unknown() const {
  return MakeError(absl::StatusCode::kNotFound, Reason::kUnknownSession,
                   absl::StrCat("job '", job_.options.job,
                                "' does not know this session: open it first (OpenSession)"));
}

bool NativeSessions::AnswerAgain(const SessionTable::Session& session, const Caller& caller,
                                 const std::string* value, Effects& out) const {
  const record::AnswerKept* const kept = table_.Kept(session, caller.number);
  if (kept == nullptr) return false;
  out.Succeed(caller.call, coord::AnswerAgain(*kept, value));
  return true;
}

void NativeSessions::KeepAnswer(SessionTable::Session& session, const Caller& caller,
                                size_t records, size_t replies, Effects& out) {
  // Without a record nothing took effect, so that asking again is harmless.
  if (caller.number == 0 || out.records.size() == records) return;
  LOCKSTEP_DCHECK(records <= out.records.size() && replies <= out.replies.size());
  const auto reply =
      std::find_if(out.replies.begin() + static_cast<ptrdiff_t>(replies), out.replies.end(),
                   [&caller](const Reply& each) { return each.call == caller.call; });
  // A long deletion is answered later, and Settle keeps that answer.
  if (reply == out.replies.end() || reply->error) return;
  if (auto kept = KeptAnswerOf(caller, reply->answer)) {
    table_.Keep(session, *std::move(kept), out);
  }
}

void NativeSessions::Settle(const std::vector<KeyDeletions::Ended>& deleted, Effects& out) {
  // Their answers are kept as if they had come with the request.
  for (const KeyDeletions::Ended& ended : deleted) {
    SessionTable::Session* const session = Find(ended.caller.numbered_in());
    // The session may have been closed meanwhile; its client asks for nothing again.
    if (session == nullptr || ended.caller.number <= session->answered_through) continue;
    if (auto kept = KeptAnswerOf(ended.caller, ended.answer)) {
      table_.Keep(*session, *std::move(kept), out);
    }
  }
  // A member is let in long after it asked, when the last of the others comes.
  const Attempt& attempt = attempts_.current();
  for (const Reply& reply : out.replies) {
    const auto* joined = std::get_if<Joined>(&reply.answer);
    // Replies of stock members and all others bring no session a seat.
    if (joined == nullptr || reply.error) continue;
    const Membership::Member& member = attempt.membership().Get(joined->member);
    LOCKSTEP_DCHECK(member.native());  // stock members are answered with Registered
    table_.Sit(member.session,
               {joined->member, member.incarnation, job_.attempt, attempt.service()});
  }
}

void NativeSessions::Apply(const record::MemberChanged& record) {
  // Only a member that was let in has a seat.
  if (record.state != MemberState::kConnected && !record.left) return;
  table_.Sit(record.session,
             {record.member, record.incarnation, job_.attempt, attempts_.current().service()});
}

void NativeSessions::ReachDeadline(Time now, Effects& out) {
  table_.Expire(
      now, [this](const SessionTable::Session& session) { return IsLiveMember(session); }, out);
}

}  // namespace lockstep::coord

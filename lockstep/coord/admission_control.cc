#include "lockstep/coord/admission_control.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/admission.h"
#include "lockstep/coord/member_rights.h"

namespace lockstep::coord {

// Stock members.

ErrorPtr AdmissionControl::CheckRole(const RegisterMember& request) const {
  LOCKSTEP_DCHECK(job_.IsMember(request.member));  // Register has refused strangers
  const RoleRecord* role = nullptr;
  if (ErrorPtr refusal = job_.roles().Find(request.role, &role)) {
    // Roles that were given differ in size; a member that does not say its own is known
    // by its index.
    return request.role.empty() ? nullptr : refusal;
  }
  if (request.role.empty() || role->name == job_.roles().Of(request.member).name ||
      job_.options.roles.empty()) {
    return nullptr;
  }
  return MakeError(
      absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
      absl::StrCat(job_.Name(request.member), " is not of role '", request.role, "': job '",
                   job_.options.job, "' has the members ", job_.roles().NameMembers()));
}

void AdmissionControl::Register(Time now, const RegisterMember& request, Effects& out) {
  const Admission admission{.call = request.call,
                            .member = request.member,
                            .incarnation = request.incarnation,
                            .deadline = request.deadline,
                            .peer = request.peer,
                            .role = request.role,
                            .recoverable = request.recoverable,
                            .agent = request.agent};
  // The gate of the attempt refuses it. Before the lives, which are kept by member.
  if (!job_.IsMember(request.member)) return attempts_.current().Admit(now, admission, out);
  const bool is_new = job_.lives.IsNew(request.member, request.incarnation);
  // A life that the job knows registers again at no further cost.
  if (job_.no_room.for_small && is_new) return out.Fail(request.call, job_.no_room.for_small);
  const bool opens = attempts_.OpensNext(request.member, request.incarnation);
  // Before the attempt opens: a refused caller must not end the one that is on.
  if (ErrorPtr refusal = opens ? attempts_.CheckNext() : nullptr) {
    return out.Fail(request.call, refusal);
  }
  // Before the role is looked at: another attempt may call it otherwise.
  if (opens) attempts_.OpenNext(now, job_.attempt + 1, out);
  if (ErrorPtr refusal = CheckRole(request)) return out.Fail(request.call, refusal);
  Attempt& attempt = attempts_.current();
  if (!opens && !attempt.failed()) {
    // A stock process that takes another's place ends the attempt; it must not end that of a native
    // member, which is known to live and is no stock process, whatever life this one names.
    if (attempt.membership().Get(request.member).native()) {
      if (ErrorPtr refusal = CheckHolder(now, request.member, /*same_life=*/false)) {
        return out.Fail(request.call, refusal);
      }
    }
    // Refused when that fails the attempt, as a retry will open the next one.
    if (is_new) attempt.ExpireBrokenLinks(now, request.member, out);
  }
  attempt.Admit(now, admission, out);
}

// Native members.

ErrorPtr AdmissionControl::CheckJoin(const JoinJob& request, const RoleRecord** role) const {
  // The role first: an index counts within its role.
  if (ErrorPtr unknown = job_.roles().Find(request.role, role)) return unknown;
  const CoordinatorOptions& options = job_.options;
  auto wrong = [](Reason reason, std::string text) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason, std::move(text));
  };
  auto over = [](absl::string_view what, size_t is, absl::string_view limit, size_t max) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
        absl::StrCat(what, " (", is, ") is over ", limit, " (", max, "); nothing was changed"));
  };
  if (request.incarnation == Incarnation()) {
    return wrong(Reason::kInvalidArgument,
                 "an incarnation of 0: choose a random number, new in each life of the process");
  }
  if (request.index && (*request.index < 0 || *request.index >= (*role)->size)) {
    return wrong(Reason::kUnknownMember,
                 absl::StrCat((*role)->name, "/", *request.index, " is not in job '", options.job,
                              "', which has the members ", job_.roles().NameMembers(),
                              "; check the index and the size of the job"));
  }
  if (request.labels.size() > options.labels_max) {
    return over("the number of labels", request.labels.size(), "labels_max", options.labels_max);
  }
  const size_t most = options.label_bytes_max;
  for (const auto& [name, value] : request.labels) {
    const size_t bytes = std::max(name.size(), value.size());
    if (bytes > most) return over("the bytes of a label", bytes, "label_bytes_max", most);
  }
  const size_t bytes = std::max(request.host.size(), request.peer.size());
  if (bytes > most) return over("the bytes of a host", bytes, "label_bytes_max", most);
  return nullptr;
}

ErrorPtr AdmissionControl::CheckAttempt(const JoinJob& request, bool known) const {
  if (!IsAttemptWithin(request.attempt, job_.attempt)) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
        absl::StrCat("this process was started for attempt ", request.attempt, " of job '",
                     job_.options.job, "' (LOCKSTEP_ATTEMPT), which is at attempt ", job_.attempt,
                     ": more than ", kAttemptsAheadMax,
                     " ahead (attempts_ahead_max); correct the number"));
  }
  // 0: the caller does not count attempts. A later attempt is for `Join` to decide, once it knows
  // whether this one can give way.
  if (request.attempt == 0 || request.attempt > job_.attempt) return nullptr;
  const Attempt& attempt = attempts_.current();
  // A life that the failed attempt knows hears why the attempt failed, which tells it more.
  const bool over = attempt.ended() || (attempt.failed() && !known);
  if (request.attempt == job_.attempt && !over) return nullptr;
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kWrongAttempt,
      absl::StrCat("this process was started for attempt ", request.attempt, " of job '",
                   job_.options.job, "' (LOCKSTEP_ATTEMPT), which is over",
                   request.attempt == job_.attempt
                       ? ""
                       : absl::StrCat("; the job is at attempt ", job_.attempt),
                   "; others come in its place: end it"));
}

ErrorPtr AdmissionControl::CheckOnlyOnce(const SessionTable::Session& session,
                                         const JoinJob& request,
                                         std::optional<MemberIndex> member) const {
  const Attempt& attempt = attempts_.current();
  // A failed attempt gives way to the next, where the session may be another member.
  if (!session.asks || attempt.failed()) return nullptr;
  const MemberIndex asked = *session.asks;
  const Membership::Member& is = attempt.membership().Get(asked);
  const bool lives = is.state == MemberState::kConnected || attempt.registration().Waits(asked);
  // The member has gone, or another session has taken its place: this session is free again.
  if (!lives || is.session != session.id) return nullptr;
  // A retry of the same life.
  if (is.incarnation == request.incarnation && (!member || *member == asked)) return nullptr;
  return MakeError(absl::StatusCode::kAlreadyExists, Reason::kMemberExists,
                   absl::StrCat("this session has joined already, as ", job_.Describe(asked),
                                "; leave first, or join in a session of its own"));
}

ErrorPtr AdmissionControl::CheckLife(const JoinJob& request,
                                     std::optional<MemberIndex> member) const {
  if (request.caller.standing != Standing::kTask) return nullptr;
  const auto lives_as = attempts_.current().membership().Find(request.incarnation);
  if (!lives_as || lives_as == member) return nullptr;
  return MakeError(
      absl::StatusCode::kAlreadyExists, Reason::kMemberExists,
      absl::StrCat("the incarnation of this process is that of ", job_.Describe(*lives_as),
                   "; choose a random number, new in each life of a process"));
}

bool AdmissionControl::IsSameLife(const JoinJob& request, MemberIndex member) const {
  const Membership::Member& holder = attempts_.current().membership().Get(member);
  // Members can read each other's incarnations, but not each other's sessions.
  return holder.incarnation == request.incarnation &&
         (request.caller.standing != Standing::kTask || holder.session == request.caller.session);
}

ErrorPtr AdmissionControl::CheckHolder(Time now, MemberIndex index, bool same_life) const {
  LOCKSTEP_DCHECK(job_.IsMember(index));
  const Attempt& attempt = attempts_.current();
  // A failed attempt has no places to defend: this life opens the next attempt, or is refused.
  if (attempt.failed()) return nullptr;
  const Membership::Member& holder = attempt.membership().Get(index);
  const FailureDetector::Health& health = attempt.membership().detector().Of(index);
  const bool registers = attempt.registration().Waits(index);
  // A member whose link broke has most likely died, so it does not keep out its successor.
  const bool lives = (holder.state == MemberState::kConnected && !health.broke()) || registers;
  if (!lives || same_life) return nullptr;
  const PlaceRecord& place = job_.places[index.value()];
  return MakeError(Error{
      .code = absl::StatusCode::kAlreadyExists,
      .reason = Reason::kMemberExists,
      .message = absl::StrCat(job_.Describe(index), " of job '", job_.options.job,
                              "' is another process, which ",
                              registers ? "has waited for the others" : "has been in", " for ",
                              FormatSpan(now - holder.since), ", calls from ", holder.peer,
                              place.host.empty() ? "" : absl::StrCat(" on host ", place.host),
                              " and was last heard ", FormatSpan(now - health.signs.last_heard()),
                              " ago; end it first, or join with another index"),
      .origin = index});
}

std::optional<MemberIndex> AdmissionControl::FindMember(const JoinJob& request,
                                                        const RoleRecord& role) const {
  // The index is within the role, as CheckJoin has seen.
  if (request.index) return MemberIndex(role.first + *request.index);
  // It asks again, if it is known.
  const auto known = attempts_.current().membership().Find(request.incarnation);
  return known && &job_.roles().Of(*known) == &role ? known : std::nullopt;
}

ErrorPtr AdmissionControl::SettleBound(const JoinJob& request, const RoleRecord& role,
                                       std::optional<MemberIndex>& member) const {
  const std::optional<MemberIndex> bound = request.caller.bound;
  if (!bound) return nullptr;
  if (ErrorPtr refusal = CheckBound(bound, member, job_.options.job)) return refusal;
  if (!job_.IsMember(*bound) || &job_.roles().Of(*bound) != &role) {
    return MakeError(
        absl::StatusCode::kPermissionDenied, Reason::kNotPermitted,
        absl::StrCat("the client's certificate names member ", bound->value(), " of job '",
                     job_.options.job, "', which has the members ", job_.roles().NameMembers(),
                     ", and the request asks for a member of role '", role.name,
                     "'; nothing was changed. Use a certificate of such a member"));
  }
  member = bound;
  return nullptr;
}

ErrorPtr AdmissionControl::SettleAttempt(Time now, const JoinJob& request,
                                         std::optional<MemberIndex> member, bool known,
                                         Effects& out) {
  // In an attempt that is over no member holds a place, and no broken link is waited for.
  if (!attempts_.over()) {
    if (member) {
      const bool same_life = IsSameLife(request, *member);
      if (ErrorPtr refusal = CheckHolder(now, *member, same_life)) return refusal;
    }
    // That may end the attempt: then this life opens the next one.
    if (!known) attempts_.current().ExpireBrokenLinks(now, member, out);
  }
  // Only now: giving up a member may have failed the attempt.
  const Attempt& attempt = attempts_.current();
  const bool opens = attempt.ended() || (attempt.failed() && !known);
  if (ErrorPtr refusal = opens ? attempts_.CheckNext() : nullptr) return refusal;
  const int64_t next = std::max(job_.attempt + 1, request.attempt);
  // A process of a later attempt may end this one only if no member is in it.
  if (opens || (request.attempt >= next && attempt.empty())) attempts_.OpenNext(now, next, out);
  return nullptr;
}

void AdmissionControl::Join(Time now, SessionTable::Session& session, const JoinJob& request,
                            Effects& out) {
  const CallId call = request.caller.call;
  const RoleRecord* role = nullptr;
  if (ErrorPtr refusal = CheckJoin(request, &role)) return out.Fail(call, refusal);
  LOCKSTEP_DCHECK(role != nullptr && session.id == request.caller.session);

  std::optional<MemberIndex> member = FindMember(request, *role);
  if (ErrorPtr refusal = SettleBound(request, *role, member)) return out.Fail(call, refusal);
  if (ErrorPtr refusal = CheckOnlyOnce(session, request, member)) return out.Fail(call, refusal);
  if (ErrorPtr refusal = CheckLife(request, member)) return out.Fail(call, refusal);
  // Both by the attempt that is on; SettleAttempt may open another.
  const bool former = member && job_.lives.IsFormer(*member, request.incarnation);
  const bool known =
      member && attempts_.current().membership().lives().Knew(*member, request.incarnation);
  if (ErrorPtr refusal = CheckAttempt(request, known)) return out.Fail(call, refusal);
  // Known and former lives cost nothing more.
  if (!known && !former && job_.no_room.for_small) return out.Fail(call, job_.no_room.for_small);
  // A former life opens nothing and ends nothing; the attempt refuses it.
  if (!former) {
    if (ErrorPtr refusal = SettleAttempt(now, request, member, known, out)) {
      return out.Fail(call, refusal);
    }
  }
  Attempt& attempt = attempts_.current();
  // SettleAttempt could not open it: members are still in this attempt.
  if (request.attempt > job_.attempt) {
    return out.Fail(call,
                    MakeError(absl::StatusCode::kFailedPrecondition, Reason::kWrongAttempt,
                              absl::StrCat("this process was started for attempt ", request.attempt,
                                           " of job '", job_.options.job,
                                           "' (LOCKSTEP_ATTEMPT), but attempt ", job_.attempt,
                                           " is still on, with ", attempt.membership().connected(),
                                           " members; end those first, or correct the number")));
  }
  // Last, in the attempt that takes the process: another attempt has other free members.
  if (!member) member = attempt.registration().FreeMember(*role);
  if (!member) return out.Fail(call, JobFull(*role));
  LOCKSTEP_DCHECK(&job_.roles().Of(*member) == role);
  // Before it is let in, which may be much later: its session may be closed until then.
  session.asks = *member;
  attempt.Admit(now,
                {.call = call,
                 .member = *member,
                 .incarnation = request.incarnation,
                 .deadline = request.deadline,
                 .peer = request.peer.empty() ? session.peer : request.peer,
                 .role = request.role,
                 .host = request.host,
                 .pid = request.pid,
                 .labels = request.labels,
                 .session = session.id},
                out);
}

ErrorPtr AdmissionControl::JobFull(const RoleRecord& role) const {
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kJobFull,
                   absl::StrCat("job '", job_.options.job, "' has ", role.size,
                                role.size == 1 ? " member" : " members", " of role '", role.name,
                                role.size == 1 ? "', and it" : "', and each of them",
                                " is there already; start fewer processes, "
                                "end one, or make the job larger"));
}

}  // namespace lockstep::coord

#include "lockstep/coord/call_gate.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

CallGate::CallGate(const JobRecord& job, Membership& membership, std::function<size_t()> waits)
    : job_(job), membership_(membership), waits_(std::move(waits)) {}

bool CallGate::CheckMember(MemberIndex member, CallId call, Effects& out) const {
  if (job_.IsMember(member)) return true;
  out.Fail(call, MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
                           absl::StrCat(job_.Name(member), " is not in the cluster: job '",
                                        job_.options.job, "' has the members ",
                                        job_.roles().NameMembers(),
                                        "; check the process id and the size of the job")));
  return false;
}

bool CallGate::CheckCaller(MemberIndex member, const Caller& caller, Effects& out) const {
  if (!CheckMember(member, caller.call, out)) return false;
  // A former life's request was held up on the way; it must not act for the new one.
  if (!job_.lives.IsFormer(member, caller.incarnation)) return true;
  out.Fail(caller.call,
           MakeError(absl::StatusCode::kAborted, Reason::kMemberRestarted,
                     absl::StrCat("this is a request of a former life of ",
                                  job_.NameWithLife(member), ", which has restarted since")));
  return false;
}

bool CallGate::MayPark(CallId call, Effects& out) const {
  if (job_.no_room.for_small) {
    out.Fail(call, job_.no_room.for_small);
    return false;
  }
  const size_t waits = waits_();
  if (waits < job_.options.waits_max) return true;
  out.Fail(call, MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                           absl::StrCat(waits, " calls of job '", job_.options.job,
                                        "' wait, which is the limit waits_max; nothing was "
                                        "changed")));
  return false;
}

void CallGate::NoteLife(Time now, const Caller& caller) {
  // Tools and former lives have no such incarnation: they are no sign of a member's life.
  if (std::optional<MemberIndex> member = membership_.Find(caller.incarnation)) {
    membership_.detector().Heard(now, *member);
  }
}

ErrorPtr CallGate::CheckIn(Time now, MemberIndex index) const {
  LOCKSTEP_DCHECK(job_.IsMember(index));
  const Membership::Member& member = membership_.Get(index);
  // Before the state below: a member in error is told why, not to register again.
  if (member.state == MemberState::kError) {
    return MakeError(
        absl::StatusCode::kAborted, Reason::kMemberFailed,
        absl::StrCat(job_.NameWithLife(index), " is already in error: ", member.error->message));
  }
  // Messages that were under way when the member left are still taken for a while.
  if (member.state == MemberState::kDisconnected &&
      (!member.grace_until || now > *member.grace_until)) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kNotRegistered,
                     absl::StrCat(job_.Name(index),
                                  " must be registered before sending heartbeat messages. "
                                  "The service might have restarted: register again"));
  }
  return nullptr;
}

}  // namespace lockstep::coord

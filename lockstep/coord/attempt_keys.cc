// What an attempt does with its keys, and with agreements on an index.
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/attempt.h"

namespace lockstep::coord {

bool Attempt::FindOwner(const Caller& caller, const KeyLifetime& lifetime,
                        std::optional<MemberIndex>& owner, Effects& out) const {
  if (!lifetime.with_member) return true;
  owner = membership_.Find(caller.incarnation);
  if (owner && membership_.Get(*owner).state == MemberState::kConnected) return true;
  out.Fail(caller.call,
           MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNotAMember,
                     absl::StrCat("a key that lives as long as its member can be set by a member "
                                  "only, and ",
                                  owner ? absl::StrCat(job_.NameWithLife(*owner),
                                                       " is not connected any more")
                                        : "the caller is none",
                                  "; join the job first")));
  return false;
}

void Attempt::Handle(Time now, SetKey request, Effects& out) {
  NoteLife(now, request.caller);
  std::optional<MemberIndex> owner;
  if (!FindOwner(request.caller, request.lifetime, owner, out)) return;
  ReadAlong(now, request, out);
  keys_.Set(now, std::move(request), owner, out);
}

void Attempt::Handle(Time now, CompareAndSetKey request, Effects& out) {
  NoteLife(now, request.caller);
  std::optional<MemberIndex> owner;
  if (!FindOwner(request.caller, request.lifetime, owner, out)) return;
  keys_.CompareAndSet(now, std::move(request), owner, out);
}

void Attempt::Handle(Time now, const GetKey& request, Effects& out) {
  NoteLife(now, request.caller);
  if (keys_.Get(now, request, /*may_wait=*/false, out)) return;
  if (MayPark(request.caller.call, out)) keys_.Get(now, request, /*may_wait=*/true, out);
}

void Attempt::Handle(Time now, GetKeys request, Effects& out) {
  NoteLife(now, request.caller);
  if (keys_.Get(now, std::move(request), /*may_wait=*/false, out)) return;
  if (job_.no_room.for_new) return out.Fail(request.caller.call, job_.no_room.for_new);
  if (!MayPark(request.caller.call, out)) return;
  keys_.Get(now, std::move(request), /*may_wait=*/true, out);
}

void Attempt::Handle(Time now, const WatchKeys& request, Effects& out) {
  NoteLife(now, request.caller);
  if (keys_.Watch(request, /*may_wait=*/false, out)) return;
  if (MayPark(request.caller.call, out)) keys_.Watch(request, /*may_wait=*/true, out);
}

void Attempt::Handle(Time now, const TryGetKey& request, Effects& out) {
  NoteLife(now, request.caller);
  keys_.TryGet(request, out);
}

void Attempt::Handle(Time now, const IncrementKey& request, Effects& out) {
  NoteLife(now, request.caller);
  keys_.Increment(now, request, out);
}

void Attempt::Handle(Time now, const MaxKey& request, Effects& out) {
  NoteLife(now, request.caller);
  keys_.Max(now, request, out);
}

void Attempt::Handle(Time now, const ListKeys& request, Effects& out) {
  NoteLife(now, request.caller);
  keys_.List(request, out);
}

void Attempt::Handle(Time now, const DeleteKey& request, Effects& out) {
  NoteLife(now, request.caller);
  keys_.Delete(request, out);
}

void Attempt::Handle(Time now, const AgreeOnIndex& request, Effects& out) {
  if (!CheckCaller(request.member, request.caller, out)) return;
  NoteLife(now, request.caller);
  if (MayPark(request.caller.call, out)) agreements_.Ask(now, request, out);
}

void Attempt::ForgetTraces(Time now, MemberIndex member, const ErrorPtr& because, Effects& out) {
  preemption_.MemberGone(now, member, because->reason == Reason::kMemberLeft, because->message,
                         out);
  agreements_.MemberGone(member, because, out);
  keys_.MemberGone(member, out);
}

}  // namespace lockstep::coord

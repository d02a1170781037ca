#include "lockstep/coord/primitives.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

Primitives::Primitives(const JobRecord& job, const Membership& membership, CallGate& gate,
                       int64_t first_revision)
    : job_(job),
      membership_(membership),
      gate_(gate),
      barriers_(job, membership),
      agreements_(job, membership),
      keys_(job.options, first_revision),
      alive_(membership),
      preemption_(job, membership),
      stock_(job, membership, preemption_, keys_) {}

bool Primitives::FindOwner(const Caller& caller, const KeyLifetime& lifetime,
                           std::optional<MemberIndex>& owner, Effects& out) const {
  if (!lifetime.with_member) return true;
  // By the life that asks: a former one names no member here.
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

void Primitives::Handle(Time now, SetKey&& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  std::optional<MemberIndex> owner;
  if (!FindOwner(request.caller, request.lifetime, owner, out)) return;
  // Before the key is set, which moves the request's texts.
  stock_.ObserveStockKey(now, request, out);
  keys_.Set(now, std::move(request), owner, out);
}

void Primitives::Handle(Time now, CompareAndSetKey&& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  std::optional<MemberIndex> owner;
  if (!FindOwner(request.caller, request.lifetime, owner, out)) return;
  keys_.CompareAndSet(now, std::move(request), owner, out);
}

void Primitives::Handle(Time now, const GetKey& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  if (keys_.Get(now, request, /*may_wait=*/false, out)) return;
  // The gate is asked only for a call that has to wait: reads are never over waits_max.
  if (gate_.MayPark(request.caller.call, out)) keys_.Get(now, request, /*may_wait=*/true, out);
}

void Primitives::Handle(Time now, GetKeys request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  if (keys_.Get(now, request, /*may_wait=*/false, out)) return;
  // A wait for many keys is no small one: it holds all their names.
  if (job_.no_room.for_new) return out.Fail(request.caller.call, job_.no_room.for_new);
  if (!gate_.MayPark(request.caller.call, out)) return;
  keys_.Get(now, request, /*may_wait=*/true, out);
}

void Primitives::Handle(Time now, const WatchKeys& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  if (keys_.Watch(request, /*may_wait=*/false, out)) return;
  if (gate_.MayPark(request.caller.call, out)) keys_.Watch(request, /*may_wait=*/true, out);
}

void Primitives::Handle(Time now, const TryGetKey& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  keys_.TryGet(request, out);
}

void Primitives::Handle(Time now, const IncrementKey& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  keys_.Increment(now, request, out);
}

void Primitives::Handle(Time now, const MaxKey& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  keys_.Max(now, request, out);
}

void Primitives::Handle(Time now, const ListKeys& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  keys_.List(request, out);
}

void Primitives::Handle(Time now, const DeleteKey& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  keys_.Delete(request, out);
}

void Primitives::Handle(Time now, const AgreeOnIndex& request, Effects& out) {
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
  gate_.NoteLife(now, request.caller);
  // Before the machine: a call that may not wait must not open an instance either.
  if (gate_.MayPark(request.caller.call, out)) agreements_.Ask(now, request, out);
}

void Primitives::Handle(Time now, const ArriveAtBarrier& request, Effects& out) {
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
  gate_.NoteLife(now, request.caller);
  if (gate_.MayPark(request.caller.call, out)) barriers_.Arrive(now, request, out);
}

void Primitives::Handle(Time now, const CancelBarrier& request, Effects& out) {
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
  gate_.NoteLife(now, request.caller);
  barriers_.Cancel(request, out);
}

void Primitives::Handle(Time now, GetAliveMembers request, Effects& out) {
  const CallId call = request.caller.call;
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
  gate_.NoteLife(now, request.caller);
  // A stock client that names nobody is not in its list, as below.
  if (request.members.empty() && request.caller.native()) {
    request.members = *job_.everybody;
  }
  if (std::find(request.members.begin(), request.members.end(), request.member) ==
      request.members.end()) {
    return out.Fail(
        call, MakeError(Error{.code = absl::StatusCode::kInvalidArgument,
                              .reason = Reason::kCallerNotListed,
                              .message = absl::StrCat(
                                  job_.Name(request.member), " asks who is alive in a list of ",
                                  request.members.size(), " tasks that it is not in"),
                              .from_service = false}));
  }
  if (gate_.MayPark(call, out)) alive_.Ask(request, out);
}

void Primitives::Handle(Time now, const NotifyPreemption& asked, Effects& out) {
  NotifyPreemption request = asked;
  if (!request.host.empty()) {
    // By what members say and by what launchers say: stock members name no host.
    for (int32_t i = 0; i < job_.options.size; ++i) {
      if (job_.places[i].host == request.host || job_.processes[i].host == request.host) {
        request.subjects.emplace_back(i);
      }
    }
    if (request.subjects.empty()) {
      return out.Fail(
          request.caller.call,
          MakeError(absl::StatusCode::kNotFound, Reason::kUnknownMember,
                    absl::StrCat("no member of job '", job_.options.job, "' runs on host '",
                                 request.host, "'; `lockstep members` shows where they run")));
    }
  } else if (request.subjects.empty() && request.member) {
    // A member that names no one speaks of itself.
    request.subjects.push_back(*request.member);
  }
  // Sorted, each once: notices are compared by their subjects.
  std::sort(request.subjects.begin(), request.subjects.end());
  request.subjects.erase(std::unique(request.subjects.begin(), request.subjects.end()),
                         request.subjects.end());
  preemption_.Handle(now, request, out);
}

void Primitives::Handle(Time now, const WatchPreemption& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  if (gate_.MayPark(request.caller.call, out)) preemption_.Handle(now, request, out);
}

void Primitives::Handle(Time now, const AnswerHold& request, Effects& out) {
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
  preemption_.Handle(now, request, out);
}

void Primitives::Handle(Time now, const ReportSave& request, Effects& out) {
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
  preemption_.Handle(now, request, out);
}

void Primitives::MemberLeaves(Time now, MemberIndex member, Effects& out) {
  preemption_.MemberLeaves(now, member, out);
}

// Barriers come first: what fails them is what their callers want to hear of.
void Primitives::MemberGone(Time now, MemberIndex member, const ErrorPtr& because, Effects& out) {
  LOCKSTEP_DCHECK(because != nullptr);
  barriers_.MemberGone(member, because, out);
  preemption_.MemberGone(now, member, because->reason == Reason::kMemberLeft, because->message,
                         out);
  agreements_.MemberGone(member, because, out);
  keys_.MemberGone(member, out);
  alive_.MemberChanged(member, out);
}

void Primitives::EndFormerLife(MemberIndex member, Effects& out) {
  barriers_.MemberRestarted(member, out);
}

void Primitives::MemberIsBack(MemberIndex member, const ErrorPtr& because, Effects& out) {
  LOCKSTEP_DCHECK(membership_.Get(member).state == MemberState::kConnected);
  // The new life is connected and is awaited where the former one asked.
  alive_.MemberRestarted(member, because, out);
  agreements_.MemberRestarted(member, because, out);
  // What the former life owned dies, even if its loss was never noticed.
  keys_.MemberGone(member, out);
}

bool Primitives::Forget(CallId call) {
  return keys_.Forget(call) || barriers_.Forget(call) || agreements_.Forget(call) ||
         preemption_.Forget(call) || alive_.Forget(call);
}

void Primitives::ReachDeadline(Time now, Effects& out) {
  barriers_.ReachDeadline(now, out);
  agreements_.ReachDeadline(now, out);
  preemption_.ReachDeadline(now, out);
  keys_.ReachDeadline(now, out);
}

Time Primitives::NextDeadline() const {
  return std::min({barriers_.NextDeadline(), agreements_.NextDeadline(), keys_.NextDeadline(),
                   preemption_.NextDeadline()});
}

void Primitives::Settle(Time now, Effects& out) {
  // Before the watchers are answered: it may end the preemption or set its state.
  stock_.Settle(now, out);
  preemption_.Flush(out);
}

void Primitives::AttemptEnds(Time now, Effects& out) {
  preemption_.AttemptEnds(now, out);
  preemption_.Flush(out);
}

void Primitives::FailGatherings(const ErrorPtr& at_barriers, const ErrorPtr& at_agreements,
                                Effects& out) {
  barriers_.FailAll(at_barriers, out);
  agreements_.FailAll(at_agreements, out);
}

void Primitives::FailOthers(const ErrorPtr& error, Effects& out) {
  keys_.FailAll(error, out);
  alive_.FailAll(error, out);
  preemption_.FailAll(error, out);
}

void Primitives::FailPreemptionWatches(const ErrorPtr& error, Effects& out) {
  preemption_.FailAll(error, out);
}

void Primitives::Close(const ErrorPtr& error, int64_t next_revision, Effects& out) {
  FailGatherings(error, error, out);
  // Apart from the others: tools that watch keys go on in the next attempt.
  keys_.Close(error, next_revision, out);
  alive_.FailAll(error, out);
}

absl::Status Primitives::Apply(Time at, const record::KeySet& record) {
  return keys_.Apply(at, record);
}
absl::Status Primitives::Apply(Time at, const record::KeyDeleted& record) {
  return keys_.Apply(at, record);
}
absl::Status Primitives::Apply(Time, const record::OwnerGone& record) {
  keys_.Apply(record);
  return absl::OkStatus();
}
absl::Status Primitives::Apply(Time at, const record::BarrierEnded& record) {
  return barriers_.Apply(at, record);
}
absl::Status Primitives::Apply(Time at, const record::IndexAgreed& record) {
  return agreements_.Apply(at, record);
}
absl::Status Primitives::Apply(Time at, const record::PreemptionChanged& record) {
  return preemption_.Apply(at, record);
}
absl::Status Primitives::Apply(Time at, const record::SyncMemberChanged& record) {
  return preemption_.Apply(at, record);
}

void Primitives::Snapshot(std::vector<TimedRecord>& records) const {
  keys_.Snapshot(records);
  barriers_.Snapshot(records);
  agreements_.Snapshot(records);
  preemption_.Snapshot(records);
}

size_t Primitives::waits() const {
  return barriers_.waits() + agreements_.waits() + keys_.waits() + alive_.waits() +
         preemption_.waits();
}

BarriersListed Primitives::OpenBarriers() const {
  return {.barriers = barriers_.View(job_.options.view_rows_max), .open = barriers_.open()};
}

void Primitives::FillView(Time now, CoordinatorView& view) const {
  view.keys_awaited = keys_.waiting().keys();
  for (const KeyWaits::Slot* slot : keys_.waiting().First(job_.options.view_rows_max)) {
    const auto& [key, waiters] = *slot;
    KeyWaitView wait{.key = key, .since = now};
    for (const auto& [call, waiter] : waiters) {
      // Stock clients ask for the notice as long as they live; that is no wait of the program.
      if (waiter.background) continue;
      ++wait.waiters;
      wait.since = std::min(wait.since, waiter.since);
      if (auto member = membership_.Find(waiter.incarnation)) wait.members.push_back(*member);
    }
    LOCKSTEP_DCHECK(wait.waiters > 0);  // a slot of the background alone is not listed
    // A member may wait with several calls and is shown once.
    std::sort(wait.members.begin(), wait.members.end());
    wait.members.erase(std::unique(wait.members.begin(), wait.members.end()), wait.members.end());
    view.key_waits.push_back(std::move(wait));
  }
  view.keys = keys_.table().size();
  view.key_bytes = keys_.table().bytes();
  // Also the last one, until the attempt is over: people ask what became of it.
  if (preemption_.state().id > 0) view.preemption = {preemption_.state(), preemption_.Members()};
}

}  // namespace lockstep::coord

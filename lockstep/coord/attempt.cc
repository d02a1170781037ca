#include "lockstep/coord/attempt.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// The shutdown barrier is the last.
BarriersListed OpenBarriersOf(const Primitives& primitives, const ShutdownBarrier& shutdown) {
  BarriersListed listed = primitives.OpenBarriers();
  if (std::optional<BarrierView> view = shutdown.View()) {
    listed.barriers.push_back(*std::move(view));
    ++listed.open;
  }
  return listed;
}

}  // namespace

Attempt::Attempt(JobRecord& job, ServiceIncarnation service, int64_t first_revision)
    : job_(job),
      service_(service),
      membership_(job),
      registration_(job, membership_),
      polls_(job, membership_),
      shutdown_(job, membership_, service),
      watch_(membership_, job.options.watch_interval),
      // The gate counts waits only while it handles a request; by then all machines below exist.
      gate_(job, membership_, [this] { return waits(); }),
      primitives_(job, membership_, gate_, first_revision),
      lifecycle_(job, service, {gate_, membership_, registration_, polls_, shutdown_, primitives_}),
      views_(job, membership_, registration_, polls_),
      health_(job, membership_, polls_, views_) {}

AttemptState Attempt::state() const {
  // Failed first: an attempt that failed stays so after its members have left.
  if (failed()) return AttemptState::kFailed;
  if (ended()) return AttemptState::kEnded;
  // Before running: the registration stays complete to the end.
  if (shutdown_.open()) return AttemptState::kLeaving;
  return registration_.complete() ? AttemptState::kRunning : AttemptState::kWaiting;
}

size_t Attempt::waits() const {
  return primitives_.waits() + watch_.waits() + registration_.waits() + polls_.waits() +
         shutdown_.waits();
}

void Attempt::Handle(Time now, const WatchMembers& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  if (gate_.MayPark(request.caller.call, out)) {
    watch_.Watch(request.caller.call, request.version, out);
  }
}

void Attempt::Handle(Time now, const GetMemberStates& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  auto members = std::make_shared<std::vector<MemberStatus>>();
  members->reserve(request.members.size());
  for (MemberIndex index : request.members) {
    if (!gate_.CheckMember(index, request.caller.call, out)) return;
    const Membership::Member& member = membership_.Get(index);
    members->push_back({index, member.incarnation, member.state, member.error});
  }
  out.Succeed(request.caller.call, MembersWatched{std::move(members), membership_.version()});
}

void Attempt::Handle(Time now, const ListBarriers& request, Effects& out) {
  gate_.NoteLife(now, request.caller);
  BarriersListed listed = OpenBarriersOf(primitives_, shutdown_);
  listed.at = now;
  out.Succeed(request.caller.call, std::move(listed));
}

void Attempt::Handle(Time now, const CallLeft& fact, Effects&) {
  const CallId call = fact.call;
  // A call waits in one machine at most, so the first that knows it is the only one.
  static_cast<void>(polls_.Forget(now, fact) || shutdown_.Forget(call) ||
                    registration_.Forget(now, call) || watch_.Forget(call) ||
                    primitives_.Forget(call));
}

// Members are given up first: what their loss means at a barrier tells more than its time-out.
void Attempt::Handle(Time now, const DeadlineReached& fact, Effects& out) {
  lifecycle_.Handle(now, fact, out);
  primitives_.ReachDeadline(now, out);
}

void Attempt::Handle(Time, const Stop&, Effects& out) {
  const std::string text =
      absl::StrCat("the coordination service of job '", job_.options.job, "' is shutting down");
  const ErrorPtr aborted = MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped, text);
  // Upstream's words come first, as in the other errors of barriers.
  primitives_.FailGatherings(MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped,
                                       absl::StrCat("Barrier failed because ", text)),
                             aborted, out);
  registration_.FailAll(aborted, out);
  shutdown_.Abandon(aborted, out);
  watch_.Stop(out);
  const ErrorPtr cancelled = MakeError(Error{.code = absl::StatusCode::kCancelled,
                                             .reason = Reason::kServiceStopped,
                                             .message = text,
                                             .from_service = false});
  polls_.FailAll(cancelled, out);
  primitives_.FailOthers(cancelled, out);
}

void Attempt::Close(const ErrorPtr& error, int64_t next_revision, Effects& out) {
  primitives_.FailPreemptionWatches(error, out);
  polls_.FailAll(error, out);
  registration_.FailAll(error, out);
  primitives_.Close(error, next_revision, out);
  watch_.FailAll(error, out);
  shutdown_.Abandon(error, out);
}

void Attempt::Settle(Time now, Effects& out) {
  // The primitives first: what stock members agreed on may end a preemption. The watchers last: one
  // answer covers all that the event has changed.
  primitives_.Settle(now, out);
  membership_.RecordChanges(out);
  health_.Tell(now, failed() || ended(), out);
  watch_.Flush(now, out);
}

void Attempt::RecordEnd(Time now, Effects& out) {
  // The members' last states belong to this attempt, before the record that begins the next.
  membership_.RecordChanges(out);
  primitives_.AttemptEnds(now, out);
}

absl::Status Attempt::Apply(Time at, const record::AttemptRuns& record) {
  registration_.Apply(at, record);
  return absl::OkStatus();
}

absl::Status Attempt::Apply(Time at, const record::AttemptFailed& record) {
  lifecycle_.Apply(at, record);
  return absl::OkStatus();
}

absl::Status Attempt::Apply(Time, const record::ShutdownEnded& record) {
  shutdown_.Apply(record);
  return absl::OkStatus();
}

absl::Status Attempt::Apply(Time at, const record::MemberChanged& record) {
  lifecycle_.Apply(at, record);
  return absl::OkStatus();
}

void Attempt::Restored(Time now, int64_t version, Effects& out) {
  // The membership first: it marks the members whose return the others wait for.
  membership_.Restored(now, version);
  health_.Restored(out);
  polls_.Restored();
  primitives_.Restored(now, out);
}

void Attempt::Snapshot(std::vector<TimedRecord>& records) const {
  membership_.Snapshot(records);
  registration_.Snapshot(records);
  lifecycle_.Snapshot(records);
  shutdown_.Snapshot(records);
  primitives_.Snapshot(records);
}

Time Attempt::NextDeadline() const {
  return std::min({membership_.detector().NextDeadline(), registration_.NextDeadline(),
                   primitives_.NextDeadline(), watch_.NextDeadline(), shutdown_.NextDeadline()});
}

void Attempt::FillView(Time now, CoordinatorView& view) const {
  LOCKSTEP_DCHECK(view.size == membership_.size());
  view.service = service_;
  // Before the first registration the attempt has not begun.
  view.started = registration_.began().value_or(now);
  view.state = state();
  // Up to the first that came: large jobs are viewed often.
  for (int32_t i = 0; i < membership_.size() && !view.somebody_came; ++i) {
    view.somebody_came = !views_.IsMissing(MemberIndex(i));
  }
  BarriersListed listed = OpenBarriersOf(primitives_, shutdown_);
  view.barriers = std::move(listed.barriers);
  view.barriers_open = listed.open;
  primitives_.FillView(now, view);
  view.waits = waits();
}

}  // namespace lockstep::coord

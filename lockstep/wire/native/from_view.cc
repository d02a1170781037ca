#include "lockstep/wire/native/from_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

int64_t Microseconds(absl::Duration duration) { return absl::ToInt64Microseconds(duration); }

// A moment that has passed: never negative, also where clocks of two readings meet.
int64_t Ago(Time now, Time then) { return std::max<int64_t>(0, Microseconds(now - then)); }

MemberCondition Convert(coord::MemberCondition condition) {
  switch (condition) {
    case coord::MemberCondition::kMissing:
      return MemberCondition::kMissing;
    case coord::MemberCondition::kRegistering:
      return MemberCondition::kRegistering;
    case coord::MemberCondition::kConnected:
      return MemberCondition::kConnected;
    case coord::MemberCondition::kSuspect:
      return MemberCondition::kSuspect;
    case coord::MemberCondition::kLost:
      return MemberCondition::kLost;
    case coord::MemberCondition::kFailed:
      return MemberCondition::kFailed;
    case coord::MemberCondition::kLeft:
      return MemberCondition::kLeft;
  }
  LOCKSTEP_CHECK(false);
}

AttemptState Convert(coord::AttemptState state) {
  switch (state) {
    case coord::AttemptState::kWaiting:
      return AttemptState::kWaiting;
    case coord::AttemptState::kRunning:
      return AttemptState::kRunning;
    case coord::AttemptState::kLeaving:
      return AttemptState::kLeaving;
    case coord::AttemptState::kEnded:
      return AttemptState::kEnded;
    case coord::AttemptState::kFailed:
      return AttemptState::kFailed;
    case coord::AttemptState::kStopped:
      return AttemptState::kStopped;
  }
  LOCKSTEP_CHECK(false);
}

std::vector<int32_t> Convert(const std::vector<MemberIndex>& members) {
  std::vector<int32_t> indices;
  indices.reserve(members.size());
  for (const MemberIndex member : members) indices.push_back(member.value());
  return indices;
}

ProcessState Convert(coord::ProcessState state) {
  switch (state) {
    case coord::ProcessState::kUnknown:
      break;
    case coord::ProcessState::kRunning:
      return ProcessState::kRunning;
    case coord::ProcessState::kStopped:
      return ProcessState::kStopped;
    case coord::ProcessState::kEnded:
      return ProcessState::kEnded;
    case coord::ProcessState::kFailed:
      return ProcessState::kFailed;
    case coord::ProcessState::kLeftOut:
      return ProcessState::kLeftOut;
  }
  return ProcessState::kUnspecified;
}

KeyWaitStatus Convert(Time now, const coord::KeyWaitView& wait) {
  return {.key = ToUtf8(wait.key),
          .waiters = static_cast<int64_t>(wait.waiters),
          .since_ago_us = Ago(now, wait.since),
          .members = Convert(wait.members)};
}

ErrorStatus Convert(Time now, const coord::ErrorView& error) {
  return {.at_ago_us = Ago(now, error.at),
          .code = static_cast<int32_t>(error.code),
          .reason = std::string(coord::ReasonName(error.reason)),
          .message = ToUtf8(error.message),
          .origin = ToUtf8(error.origin),
          .consequence = error.consequence,
          .attempt = error.attempt};
}

// The enums of both sides have the same order, and ours begin with kUnspecified.
template <class To, class From>
To Same(From from) {
  return static_cast<To>(static_cast<int>(from) + 1);
}

std::optional<int64_t> In(Time now, Time then) {
  if (then.is_infinite()) return std::nullopt;
  return Microseconds(then - now);
}

}  // namespace

BarrierStatus FromBarrier(Time now, const coord::BarrierView& barrier) {
  BarrierStatus status = {.id = ToUtf8(barrier.barrier.id),
                          .counter = barrier.barrier.counter,
                          .opened_ago_us = Ago(now, barrier.opened),
                          .waiting = Convert(barrier.waiting),
                          .awaited = Convert(barrier.awaited)};
  if (!barrier.deadline.is_infinite()) {
    status.deadline_in_us = std::max<int64_t>(0, Microseconds(barrier.deadline - now));
  }
  return status;
}

MemberStatus FromMember(Time now, const coord::MemberView& member) {
  MemberStatus status = {.index = member.member.value(),
                         .name = ToUtf8(member.name),
                         .condition = Convert(member.condition),
                         .since_ago_us = Ago(now, member.since),
                         .why = ToUtf8(member.why),
                         .peer = ToUtf8(member.peer),
                         .host = ToUtf8(member.host),
                         .pid = member.pid,
                         .step = member.step,
                         .phase = ToUtf8(member.phase),
                         .doing = ToUtf8(member.doing),
                         .native = member.native,
                         .process = Convert(member.process)};
  if (member.process != coord::ProcessState::kUnknown) {
    status.process_since_ago_us = Ago(now, member.process_since);
  }
  for (const auto& [name, value] : member.labels) {
    status.labels.push_back({.name = ToUtf8(name), .value = ToUtf8(value)});
  }
  if (member.last_heard) status.last_heard_ago_us = Ago(now, *member.last_heard);
  return status;
}

coord::SyncState ToCoord(SyncState state) {
  return static_cast<coord::SyncState>(static_cast<int>(state) - 1);
}

PreemptionState FromState(Time now, const coord::PreemptionState& state) {
  PreemptionState out = {.version = state.version,
                         .id = state.id,
                         .phase = Same<PreemptionPhase>(state.phase),
                         .round = state.round,
                         .sync_step = state.sync_step,
                         .withdrawn = state.withdrawn,
                         .outcome = Same<PreemptionOutcome>(state.outcome),
                         .text = ToUtf8(state.text),
                         .notices = {},
                         .death_in_us = In(now, state.death),
                         .since_ago_us = Ago(now, state.since),
                         .attempt = state.attempt};
  for (const coord::PreemptionNotice& notice : state.notices) {
    out.notices.push_back({.source = ToUtf8(notice.source),
                           .event = ToUtf8(notice.event),
                           .subjects = Convert(notice.subjects),
                           .death_in_us = In(now, notice.death),
                           .text = ToUtf8(notice.text)});
  }
  return out;
}

JobStatus FromView(Time now, const coord::CoordinatorView& view, std::string grpc_address) {
  JobStatus status = {.job = ToUtf8(view.job),
                      .size = view.size,
                      .attempt = view.attempt,
                      .state = Convert(view.state),
                      .service_incarnation = view.service.value(),
                      .keys = static_cast<int64_t>(view.keys),
                      .key_bytes = static_cast<int64_t>(view.key_bytes),
                      .waits = static_cast<int64_t>(view.waits),
                      .grpc = std::move(grpc_address),
                      .barriers_open = static_cast<int64_t>(view.barriers_open),
                      .keys_awaited = static_cast<int64_t>(view.keys_awaited)};
  // An attempt starts with its first registration; before it `started` means nothing.
  if (view.somebody_came) status.started_ago_us = Ago(now, view.started);
  for (const auto& member : view.members) status.members.push_back(FromMember(now, member));
  for (const auto& barrier : view.barriers) status.barriers.push_back(FromBarrier(now, barrier));
  for (const auto& wait : view.key_waits) status.key_waits.push_back(Convert(now, wait));
  for (const auto& error : view.errors) status.errors.push_back(Convert(now, error));
  if (view.preemption) {
    PreemptionStatus& preemption = status.preemption.emplace();
    preemption.state = FromState(now, view.preemption->state);
    for (const coord::SyncMember& member : view.preemption->members) {
      preemption.members.push_back({.member = member.member.value(),
                                    .state = Same<SyncState>(member.state),
                                    .step = member.step,
                                    .text = ToUtf8(member.text)});
    }
  }
  return status;
}

WatchJobReply FromChange(Time now, const coord::JobChange& change) {
  WatchJobReply reply = {.version = change.version,
                         .snapshot = change.snapshot,
                         .attempt = change.attempt,
                         .state = Convert(change.state),
                         .members = {},
                         .errors = {}};
  for (const auto& member : change.members) reply.members.push_back(FromMember(now, member));
  for (const auto& error : change.errors) reply.errors.push_back(Convert(now, error));
  return reply;
}

}  // namespace lockstep::wire::native

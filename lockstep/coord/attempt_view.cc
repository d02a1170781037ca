// How an attempt looks to people.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/attempt.h"

namespace lockstep::coord {
namespace {

// The shutdown barrier is the last.
BarriersListed ListOpen(const BarrierTable& barriers, size_t rows_max,
                        const ShutdownBarrier& shutdown) {
  BarriersListed listed{.barriers = barriers.View(rows_max), .open = barriers.open()};
  if (std::optional<BarrierView> view = shutdown.View()) {
    listed.barriers.push_back(*std::move(view));
    ++listed.open;
  }
  return listed;
}

}  // namespace

AttemptState Attempt::state() const {
  if (failed()) return AttemptState::kFailed;
  if (ended()) return AttemptState::kEnded;
  if (shutdown_.open()) return AttemptState::kLeaving;
  return registration_.complete() ? AttemptState::kRunning : AttemptState::kWaiting;
}

size_t Attempt::waits() const {
  return barriers_.waits() + agreements_.waits() + keys_.waits() + alive_.waits() + watch_.waits() +
         registration_.waits() + preemption_.waits() + polls_.waits() + shutdown_.waits();
}

size_t Attempt::memory() const { return membership_.memory() + barriers_.memory(); }

void Attempt::Handle(Time now, const ListBarriers& request, Effects& out) {
  NoteLife(now, request.caller);
  BarriersListed listed = ListOpen(barriers_, job_.options.view_rows_max, shutdown_);
  listed.at = now;
  out.Succeed(request.caller.call, std::move(listed));
}

void Attempt::FillView(Time now, CoordinatorView& view) const {
  view.service = service_;
  view.started = registration_.began().value_or(now);
  view.state = state();
  for (int32_t i = 0; i < membership_.size() && !view.somebody_came; ++i) {
    view.somebody_came = !views_.IsMissing(MemberIndex(i));
  }
  BarriersListed listed = ListOpen(barriers_, job_.options.view_rows_max, shutdown_);
  view.barriers = std::move(listed.barriers);
  view.barriers_open = listed.open;
  view.keys_awaited = keys_.awaited();
  for (const KeyWaits::Slot* slot : keys_.waiters(job_.options.view_rows_max)) {
    const auto& [key, waiters] = *slot;
    KeyWaitView wait{.key = key, .since = now};
    for (const auto& [call, waiter] : waiters) {
      if (waiter.background) continue;
      ++wait.waiters;
      wait.since = std::min(wait.since, waiter.since);
      if (auto member = membership_.Find(waiter.incarnation)) wait.members.push_back(*member);
    }
    std::sort(wait.members.begin(), wait.members.end());
    wait.members.erase(std::unique(wait.members.begin(), wait.members.end()), wait.members.end());
    view.key_waits.push_back(std::move(wait));
  }
  view.keys = keys_.size();
  view.key_bytes = keys_.bytes();
  view.waits = waits();
  if (preemption_.state().id > 0) view.preemption = {preemption_.state(), preemption_.Members()};
}

}  // namespace lockstep::coord

#include "lockstep/coord/preemption_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

PreemptionState PreemptionWatch::Next() const {
  PreemptionState next = *state_;
  ++next.version;
  return next;
}

void PreemptionWatch::Publish(Time now, PreemptionState next, Effects& out) {
  LOCKSTEP_CHECK(next.version == state_->version + 1);  // (1)
  LOCKSTEP_CHECK(next.id != state_->id || !state_->sync_step ||
                 next.sync_step == state_->sync_step);  // (2)
  // A preemption only goes on, and is followed by one of a higher number.
  LOCKSTEP_DCHECK(next.id > state_->id || (next.id == state_->id && next.phase >= state_->phase));
  // A change within a phase leaves its begin, from which its deadline counts.
  if (next.phase != state_->phase || next.id != state_->id) next.since = now;
  state_ = std::make_shared<const PreemptionState>(std::move(next));
  // With the time of this clock, from which a replay shifts the others.
  out.records.push_back(record::PreemptionChanged{state_, now});
}

void PreemptionWatch::Flush(Effects& out) {
  std::erase_if(parked_, [&](const auto& parked) {
    // A watcher that names a version ahead of ours comes from another server, and is answered too.
    if (parked.second == state_->version) return false;
    out.Succeed(parked.first, PreemptionChanged{state_});
    return true;
  });
}

void PreemptionWatch::FailAll(const ErrorPtr& error, Effects& out) {
  for (const auto& [call, after] : parked_) out.Fail(call, error);
  parked_.clear();
}

absl::Status PreemptionWatch::Apply(Time at, const record::PreemptionChanged& record,
                                    int64_t attempt) {
  if (record.state->version <= state_->version) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version ", record.state->version, " of a preemption after version ", state_->version));
  }
  auto state = std::make_shared<PreemptionState>(*record.state);
  state->attempt = attempt;
  // The record has times of another clock, which showed `record.at` when ours shows `at`.
  const absl::Duration shift = at - record.at;
  state->since = state->since + shift;
  state->death = state->death + shift;
  for (PreemptionNotice& notice : state->notices) notice.death = notice.death + shift;
  state_ = std::move(state);
  return absl::OkStatus();
}

void PreemptionWatch::Snapshot(std::vector<TimedRecord>& out) const {
  // There was no preemption in this attempt.
  if (state_->version == 0) return;
  out.push_back({state_->since, record::PreemptionChanged{state_, state_->since}});
}

}  // namespace lockstep::coord

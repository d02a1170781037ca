#include "lockstep/coord/signs_of_life.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::coord {

// A member is doubted before it is given up, and a retry is no period.
static_assert(kSilentIsSuspect > 0 && kSilentIsSuspect < 1);
static_assert(kSilentPeriods > 1 && kPeriodsKept > 0);
static_assert(kHeartbeatAgain < kUnseenPeriod && kUnseenPeriod <= kPeriodMax);

void Heartbeats::Note(Time now) {
  LOCKSTEP_DCHECK(!last_ || *last_ <= now);
  // A retry: it would make the period look far too short.
  if (last_ && now - *last_ < kHeartbeatAgain) return;
  if (last_) {
    // The oldest period makes room.
    periods_[next_] = std::min(now - *last_, kPeriodMax);
    next_ = (next_ + 1) % kPeriodsKept;
    seen_ = true;
  }
  last_ = now;
}

absl::Duration Heartbeats::period() const {
  return seen_ ? *std::max_element(periods_.begin(), periods_.end()) : kUnseenPeriod;
}

void SignsOfLife::Begin(Time now, bool native) {
  last_heard_ = now;
  native_ = native;
}

void SignsOfLife::Connected(Time now) {
  last_heard_ = now;
  polled_ = now;
  // The first heartbeat comes a period after the registration, so that one is known by then.
  heartbeats_ = Heartbeats(now);
}

void SignsOfLife::ServerRestarted(Time now) {
  last_heard_ = now;
  polled_ = now;
  // When the last heartbeat of before came is not known, so the next tells no period.
  heartbeats_ = Heartbeats();
}

void SignsOfLife::HeardHeartbeat(Time now) {
  heartbeats_.Note(now);
  last_heard_ = now;
}

void SignsOfLife::SetPolls(Time now, bool polls) {
  polls_ = polls;
  // Until now the poll was a sign of life, or it is one from now on.
  polled_ = now;
}

Time SignsOfLife::SilentSince() const {
  // A poll that stands counts by the longer patience, not as a word that was just heard.
  if (native_ || polls_) return last_heard_;
  return std::max(last_heard_, polled_);
}

absl::Duration SignsOfLife::Patience(absl::Duration usual) const {
  // Only the end of a poll shows a death early; without one the usual time has to do.
  if (native_ || !polls_) return usual;
  return std::max(usual, kSilentPeriods * heartbeats_.period());
}

Time SignsOfLife::SuspectAt(absl::Duration usual) const {
  // Doubt comes early when it is not known what to expect.
  const absl::Duration patience = heartbeats_.seen() ? Patience(usual) : usual;
  const Time suspect = SilentSince() + kSilentIsSuspect * patience;
  LOCKSTEP_DCHECK(suspect <= LostAt(usual));
  return suspect;
}

}  // namespace lockstep::coord

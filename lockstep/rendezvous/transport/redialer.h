// When an end of a conversation dials again, and when it gives a dial up. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::transport {

// Exponential backoff with jitter: a link that was good is redialed at once; then the pause
// doubles, half of it drawn. As with the link to the server, a link that broke soon counts as
// failures to connect.
//
// At most one of `dial_at` and `give_up_at` is finite. Threads: thread-compatible.
class Redialer {
 public:
  Redialer(absl::Duration first, absl::Duration last, uint64_t seed)
      : first_(first), last_(last), random_(seed) {}

  // Sets `give_up_at`, and counts: each dial doubles the next pause.
  void DialStarted(Time now, absl::Duration timeout) {
    ++attempts_;
    dial_at_ = Time::Infinite();
    give_up_at_ = now + timeout;
  }
  // The answer is to come sooner.
  void GiveUpBy(Time at) { give_up_at_ = std::min(give_up_at_, at); }
  // There is nothing to give up any more; `Pause` says when to dial again.
  void DialFailed() { give_up_at_ = Time::Infinite(); }
  // Neither a dial nor its end is due.
  void LinkUp() { dial_at_ = give_up_at_ = Time::Infinite(); }
  // True: dial at once.
  bool LinkLost(bool was_good) {
    attempts_ = was_good ? 0 : std::max(attempts_, kAttemptsOfBadLink);
    return attempts_ == 0;
  }
  // Sets `dial_at`.
  void Pause(Time now) {
    const int doublings = std::clamp(attempts_ - 1, 0, 20);
    const absl::Duration whole = std::min(first_ * (int64_t{1} << doublings), last_);
    const double part =
        0.5 + 0.5 * static_cast<double>(Draw() >> 11) / static_cast<double>(1ull << 53);
    dial_at_ = now + whole * part;
  }

  // When the pause is over, or the dial has had no answer for too long. Infinite: neither.
  Time dial_at() const { return dial_at_; }
  Time give_up_at() const { return give_up_at_; }

 private:
  static constexpr int kAttemptsOfBadLink = 2;

  // splitmix64
  uint64_t Draw() {
    uint64_t z = (random_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  const absl::Duration first_;
  const absl::Duration last_;
  uint64_t random_;
  int attempts_ = 0;  // since the last good link
  Time dial_at_ = Time::Infinite();
  Time give_up_at_ = Time::Infinite();
};

}  // namespace lockstep::transport

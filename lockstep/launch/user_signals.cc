#include "lockstep/launch/user_signals.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace lockstep::launch {
namespace {

// Two of the same within this time are one.
constexpr absl::Duration kOneSignal = absl::Seconds(1);
static_assert(kOneSignal < kSecondInterruptWindow);  // a second Ctrl-C is another signal

}  // namespace

bool UserSignals::Ends(int signal) { return signal != SIGUSR1 && signal != SIGUSR2; }

UserSignals::Notice UserSignals::TakeAsNotice(Time now, int signal) {
  const auto& notices = options_.notice_signals;
  if (std::find(notices.begin(), notices.end(), signal) == notices.end()) return Notice::kNo;
  const auto [taken, first] = taken_.try_emplace(signal, Taken{now, false});
  if (first) return Notice::kFirst;
  if (now - taken->second.at < kOneSignal) return Notice::kRepeated;
  taken->second.passed_on = true;
  return Notice::kNo;
}

std::optional<Time> UserSignals::Interrupt(Time now) {
  const std::optional<Time> before = std::exchange(interrupted_, now);
  return before && now - *before <= kSecondInterruptWindow ? before : std::nullopt;
}

bool UserSignals::NoteEnd(int signal) {
  if (end_signal_) return false;
  end_signal_ = signal;
  return true;
}

Time UserSignals::HeedUntil() const {
  Time until = Time::Infinite();
  for (const auto& [signal, taken] : taken_) {
    if (!taken.passed_on) until = std::min(until, taken.at + options_.notice_ack_timeout);
  }
  return until;
}

std::vector<int> UserSignals::PassOn() {
  std::vector<int> signals;
  for (auto& [signal, taken] : taken_) {
    if (!std::exchange(taken.passed_on, true)) signals.push_back(signal);
  }
  return signals;
}

}  // namespace lockstep::launch

// What the signals mean that somebody sends to `lockstep run`. Pure.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/supervisor_options.h"

namespace lockstep::launch {

// How soon after a SIGINT another one kills. Not the grace, which may be shorter than anybody can
// press a key twice.
inline constexpr absl::Duration kSecondInterruptWindow = absl::Seconds(10);

// A signal ends the run, is one of the program's own (SIGUSR1, SIGUSR2), or is a notice to the job:
// the first of one that `SupervisorOptions::notice_signals` names. A notice is not passed on to the
// processes, unless nobody heeds it in time, or the signal comes once more.
//
// Bounds: one entry for each signal that can be a notice. Threads: thread-compatible. `options`
// must outlive it.
class UserSignals {
 public:
  explicit UserSignals(const SupervisorOptions& options) : options_(options) {}

  // False of SIGUSR1 and SIGUSR2, to which programs give a meaning of their own.
  static bool Ends(int signal);

  enum class Notice {
    kNo,        // pass it on
    kFirst,     // the job is to hear of it
    kRepeated,  // who signals a process and its group, as timeout(1) does, means it once
  };
  // Only `notice_signals` are; the same one again, a second later, is passed on.
  Notice TakeAsNotice(Time now, int signal);

  // Of SIGINT. Returns when the one before came, if this is to kill.
  std::optional<Time> Interrupt(Time now);
  // It killed processes that had not failed before.
  void MarkKilled() { killed_ = true; }
  bool killed() const { return killed_; }

  // The processes were told to end: what they end with then is no failure.
  void MarkToldToEnd() { told_to_end_ = true; }
  bool told_to_end() const { return told_to_end_; }
  // A signal ends processes. False: an earlier one did.
  bool NoteEnd(int signal);
  // The first that did.
  const std::optional<int>& end_signal() const { return end_signal_; }

  // When the notices are passed on that nobody heeded.
  Time HeedUntil() const;
  // Returns the notices that were not passed on yet, and takes them for passed on.
  std::vector<int> PassOn();

 private:
  struct Taken {
    Time at;
    bool passed_on = false;
  };

  const SupervisorOptions& options_;
  std::optional<Time> interrupted_;  // the last SIGINT
  bool killed_ = false;
  bool told_to_end_ = false;
  std::optional<int> end_signal_;
  std::map<int, Taken> taken_;  // as notices
};

}  // namespace lockstep::launch

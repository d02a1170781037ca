// What a preemption of the job means to the processes of one run. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/exit_status.h"

namespace lockstep::launch {

// How the job's current preemption stands, as its coordinator tells it.
struct PreemptionTold {
  int64_t attempt = 0;     // of the job
  int64_t id = 0;          // in its attempt; 0: there was none
  bool open = false;       // it has not ended
  bool near = false;       // the members are asked for a step, or were: it is not days away
  bool withdrawn = false;  // nobody dies after all
  std::optional<int64_t> step;
  std::string outcome;                 // "saved"; of one that has ended
  std::string text;                    // of the outcome
  std::vector<std::string> sources;    // who said so
  std::optional<absl::Duration> left;  // until the first death, where that is known

  friend bool operator==(const PreemptionTold&, const PreemptionTold&) = default;
};

// What the sources of this host say now, also behind a preemption's end.
struct HostTold {
  bool standing = false;               // it will be taken away
  std::optional<absl::Duration> left;  // until then, where that is known
};

// Tells endings that a preemption explains from failures, and how long the others may take then.
//
// A process that ends once a preemption is near was preempted, or follows from one that was: its
// host is taken away, it saved and ended as it should, or it lost the peer that did. That holds
// until `kExplains` after the preemption ended, or after the death when that is later; what fails
// after that fails by itself.
//
// Threads: thread-compatible.
class PreemptedRun {
 public:
  static constexpr absl::Duration kExplains = absl::Minutes(10);

  // Of processes that come after that attempt. Not known: then what has ended before we look is of
  // an attempt before.
  explicit PreemptedRun(std::optional<int64_t> former = std::nullopt) : former_(former) {}

  // Returns what is new in it, for people.
  std::vector<std::string> Take(Time now, const PreemptionTold& told);
  // What this host's sources said is withdrawn, or has another time. Of other hosts' deaths only
  // the coordinator knows.
  void Take(Time now, const HostTold& told);

  // An ending now is no failure.
  bool Explains(Time now) const;
  // The processes ended because of it, so they may be started again: it was neither withdrawn nor
  // came too late to matter.
  bool Interrupted(Time now) const;
  // All saved, as far as that is known.
  bool saved() const { return told_.outcome == "saved" || told_.outcome == "synced"; }

  // It ended without a sync step, since no member answered.
  bool nobody_answered() const { return told_.outcome == "nobody_answered"; }

  // One process has ended by it at `first`: until when the others may go on. Infinite: it is to end
  // first.
  Time OthersUntil(Time first, absl::Duration grace) const;
  // A process failed now, and this explains it.
  void NoteEnding(Time now, const ExitStatus& ending);
  // When the first one did.
  std::optional<Time> first_ended() const;
  // The attempt has ended because of it. Where nobody was to save and all ended well, the work was
  // done before.
  bool EndedAttempt(Time now) const { return Interrupted(now) && (step() || ended_); }
  // Of an attempt without a failure. A preempted run that saved ends with `preempt_exit_code`, like
  // no other, so that a scheduler starts it again.
  int ExitCode(Time now, int preempt_exit_code) const;
  int64_t attempt() const { return told_.attempt; }
  std::optional<int64_t> step() const { return told_.step; }
  // The death, where it is known.
  Time death() const { return death_; }
  // No member dies after all, as the coordinator or this host's sources say.
  bool withdrawn() const { return told_.withdrawn || host_lives_; }

  // "preemption 1 (gce): saved: 4 of 4 members saved at step 120"; empty: there was none.
  std::string Summary() const;

 private:
  // Those that failed by it.
  struct Ended {
    Time first;
    ExitStatus how;             // of the first
    std::optional<int> chosen;  // the first exit code that one gave by itself
  };

  std::string Named() const;

  std::optional<int64_t> former_;
  PreemptionTold told_;
  Time death_ = Time::Infinite();
  Time ended_at_ = Time::Infinite();
  std::optional<Ended> ended_;
  bool host_stood_ = false;  // this host was said to die
  bool host_lives_ = false;  // and, behind the end of the preemption, that it does not
};

}  // namespace lockstep::launch

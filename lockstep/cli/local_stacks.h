// Takes the stacks of the processes that one `lockstep run` has started.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/stacks.h"
#include "lockstep/launch/standstill.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/wire/native/stack_question.h"

namespace lockstep::cli {

// Where the processes run, and what they are called.
struct StackSubjects {
  std::string folder;  // that launch::WritePythonHook was given; empty: Python is asked by py-spy
  std::string host;
  std::string role;
};

// Owns which processes of this launcher run, which have ended, and since when each stands still.
//
// Threads: thread-safe; one `Take` at a time. Bounds: one entry for each member of this launcher.
class LocalStacks {
 public:
  explicit LocalStacks(StackSubjects subjects) : subjects_(std::move(subjects)) {}

  const StackSubjects& subjects() const { return subjects_; }

  // A process was started or has ended.
  void Note(const launch::ProcessReport& report);

  // Looks whether processes run, at most 16 of them, in turn: for the standstill. Does nothing
  // while `Take` runs, for which the processes run themselves.
  void Look();

  // The first member whose process has not moved for so long; nothing: none, or `Take` runs.
  std::optional<int32_t> StillFor(absl::Duration long_enough) const;

  // The stacks of the members that the question is about, all of one moment; of those that have
  // ended, that they have. Looks that processes feel are had only every 5 s: whoever reaches the
  // server may ask for one. Blocks, for seconds.
  std::vector<launch::ProcessStacks> Take(const wire::native::StacksAsked& asked);

 private:
  const StackSubjects subjects_;
  mutable Mutex mutex_;
  std::map<int32_t, int64_t> pids_ ABSL_GUARDED_BY(mutex_);   // by member, of those that run
  std::map<int32_t, int64_t> ended_ ABSL_GUARDED_BY(mutex_);  // likewise, of this attempt
  launch::Standstill standstill_ ABSL_GUARDED_BY(mutex_);
  int32_t next_ ABSL_GUARDED_BY(mutex_) = 0;     // the member that `Look` begins with
  bool taking_ ABSL_GUARDED_BY(mutex_) = false;  // whoever is asked runs for that
  Time disturb_at_ ABSL_GUARDED_BY(mutex_);      // before it, no look is felt
};

}  // namespace lockstep::cli

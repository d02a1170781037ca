// Whether a failure is answered by starting processes again, and how soon. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "lockstep/launch/supervisor_options.h"

namespace lockstep::launch {

// Counts the failures of a run, those that come quickly after each other, and those that read the
// same.
//
// Bounds: keeps `same_failures_max` texts. Threads: thread-compatible. `options` must outlive it.
class RestartPolicy {
 public:
  explicit RestartPolicy(const SupervisorOptions& options) : options_(options) {}

  // A restart of all is left.
  bool AllowsAll() const;
  // One of a process alone is, that was started again so often.
  bool AllowsAlone(int32_t restarts) const;

  // So many of all were used up, by any node.
  int32_t used() const { return used_; }
  // As the node group counts: other nodes' failures used some up.
  void SetUsed(int32_t used) { used_ = used; }
  // `AllowsAll` said that one is left.
  void Use() { ++used_; }

  // With `text`, how many failures in a row would read the same.
  int32_t CountAlike(const std::string& text) const;
  // Another attempt would likely fail as this one did.
  bool TooManyAlike(const std::string& text) const {
    return CountAlike(text) >= options_.same_failures_max;
  }
  // The attempt had lasted so long: who had trained for long may fail by chance in the same words.
  bool IsEarly(absl::Duration lasted) const { return lasted < options_.early_failure; }

  // An attempt failed after `lasted`, and another one is to follow. Returns how long that waits.
  absl::Duration BackOff(const std::string& text, absl::Duration lasted);
  // In a row.
  int32_t quick_failures() const { return quick_failures_; }

 private:
  const SupervisorOptions& options_;
  int32_t used_ = 0;
  int32_t quick_failures_ = 0;
  std::deque<std::string> texts_;  // of the early failures in a row
};

}  // namespace lockstep::launch

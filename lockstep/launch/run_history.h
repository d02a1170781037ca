// The attempts of a run before the current one. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::launch {

// Bounds: a sentence for each attempt that failed; restarts are limited.
// Threads: thread-compatible.
class RunHistory {
 public:
  // "attempt 3": the current one, by its number among those of the job.
  std::string AttemptName() const { return absl::StrCat("attempt ", first_number_ + restarts_); }
  // The job says so; unless it does, those of the run alone are counted.
  void SetNumber(int64_t number) { first_number_ = number - restarts_; }
  // Another attempt follows, for whatever reason.
  void Restart() { ++restarts_; }
  int32_t restarts() const { return restarts_; }

  // The current attempt failed. In `failed_attempts` there is a sentence for each.
  void AddFailed(std::string sentence) { failed_.push_back(std::move(sentence)); }
  const std::vector<std::string>& failed_attempts() const { return failed_; }
  // Work that a preemption lost since nobody had saved it before; empty: none.
  void SetLost(std::string sentence) { lost_ = std::move(sentence); }
  const std::string& lost() const { return lost_; }

 private:
  int64_t first_number_ = 1;  // of the attempt without restarts
  int32_t restarts_ = 0;
  std::vector<std::string> failed_;
  std::string lost_;
};

}  // namespace lockstep::launch

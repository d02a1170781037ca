// The source `signal` of a program that takes its signals itself, from a descriptor.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "lockstep/base/mutex.h"
#include "lockstep/preempt/signal_watch.h"
#include "lockstep/preempt/source.h"

namespace lockstep::cli {

// Each signal that the program takes becomes a notice. One that comes before `Start` waits for it.
//
// Threads: thread-safe. Bounds: before `Start`, one entry for each signal taken.
class SignalSource : public preempt::Source {
 public:
  explicit SignalSource(preempt::SignalOptions options);

  // Which signals are notices.
  const std::vector<int>& signals() const { return options_.signals; }
  // The program got one of these.
  void Take(int signal);

  const std::string& name() const override { return name_; }
  // Always OK.
  absl::Status Start(preempt::SourceListener listener) override;
  void Stop() override;
  preempt::SourceHealth health() const override;
  void Acknowledge(const std::string&) override {}

 private:
  void Tell(int signal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const preempt::SignalOptions options_;
  const std::string name_ = "signal";
  mutable Mutex mutex_;
  preempt::SourceListener listener_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> early_ ABSL_GUARDED_BY(mutex_);  // that came before `Start`
  preempt::SourceHealth health_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::cli

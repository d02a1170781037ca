// Writes the mark on a thread of its own, so that no commit waits for it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/journal/mark.h"

namespace lockstep::journal {

// Threads: `Durable` and `Stop` on one thread.
class MarkWriter {
 public:
  // `delay`: from a mark until it is being written, at most. `failed` comes once, on its thread;
  // afterwards nothing is written any more.
  MarkWriter(std::unique_ptr<MarkFile> file, absl::Duration delay,
             std::function<void(absl::Status)> failed);
  ~MarkWriter();
  MarkWriter(const MarkWriter&) = delete;
  MarkWriter& operator=(const MarkWriter&) = delete;

  // Everything up to here is durable. Waits for nothing.
  void Durable(const Mark& mark);

  // Writes what is not written yet, and ends. Returns why something could not be written.
  absl::Status Stop();

 private:
  void Run();
  // The mark that is to be written now; nothing: there will be none any more.
  std::optional<Mark> Next();

  const std::unique_ptr<MarkFile> file_;
  const absl::Duration delay_;
  const std::function<void(absl::Status)> failed_;

  Mutex mutex_;
  CondVar changed_;
  Mark newest_ ABSL_GUARDED_BY(mutex_);
  bool unwritten_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace lockstep::journal

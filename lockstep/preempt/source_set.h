// The sources of one host, run together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/preempt/source.h"

namespace lockstep::preempt {

// Calls the listener with what any of them tells, one call at a time, on threads of the sources; so
// a slow listener holds up the others. None after `Stop` has returned. A listener may call `health`
// and `Acknowledge`, not `Stop`.
//
// Threads: `Start` and `Stop` by one thread, once each; the rest thread-safe.
class SourceSet {
 public:
  // Starts none of them. What the listener lacks is not called.
  SourceSet(std::vector<std::unique_ptr<Source>> sources, SourceListener listener);
  // As `Stop`.
  ~SourceSet();
  SourceSet(const SourceSet&) = delete;
  SourceSet& operator=(const SourceSet&) = delete;

  // The first error of a source that cannot start; the others run.
  absl::Status Start();
  // Within moments, also when other ends hang.
  void Stop();

  std::vector<SourceHealth> health() const;  // one of each source, in their order

  // Everybody has saved: the notice `id` of `source` may come true. Does something only where the
  // source was told to pass that on (Azure).
  void Acknowledge(const std::string& source, const std::string& id);

 private:
  const std::vector<std::unique_ptr<Source>> sources_;
  Mutex calling_;
  const SourceListener listener_ ABSL_GUARDED_BY(calling_);  // called under it
};

}  // namespace lockstep::preempt

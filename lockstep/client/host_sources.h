// The sources of preemption notices of one host, and the job that is told what they learn.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/client/job_preemptions.h"
#include "lockstep/preempt/registry.h"
#include "lockstep/preempt/source.h"
#include "lockstep/preempt/source_set.h"

namespace lockstep::client {

// Keeps what the sources say now, tells the job each change, and tells it all again when asked to:
// an attempt of the job that begins knows nothing of what the former was told.
//
// Threads: thread-safe but for `Start` and the destructor, which one thread calls. Bounds: what the
// sources keep, a few notices each.
class HostSources {
 public:
  struct Options {
    std::vector<std::string> specs;  // docs/preemption-sources.md
    // A sentence for people: a source works, fails, works again. On threads of the sources.
    std::function<void(std::string)> say = nullptr;
    // What stands has changed: whether anything does, and the first death that is known. Likewise.
    std::function<void(bool standing, std::optional<absl::Duration> left)> changed = nullptr;
  };

  // INVALID_ARGUMENT: a source that there is not, or an option of it that is wrong.
  static absl::StatusOr<std::unique_ptr<HostSources>> Make(Options options,
                                                           const preempt::SourceRegistry& registry,
                                                           const preempt::Host& host);
  ~HostSources();
  HostSources(const HostSources&) = delete;
  HostSources& operator=(const HostSources&) = delete;

  // Who dies with this host: these members, and all that run on `host`. What is learnt before waits
  // for this. The error of a source that cannot start; the others run.
  absl::Status Start(JobPreemptions job, std::vector<int32_t> members, std::string host);

  // As if a source had told it: of what the caller has learnt by itself.
  void Tell(const preempt::SourceEvent& event);

  // A preemption is over: what stands now needs no telling again, and if `saved` may come true.
  void PreemptionEnded(bool saved);
  // Another attempt has begun.
  void TellAgain();
  // From now on other members run here.
  void SetMembers(std::vector<int32_t> members);

  // One of each source, also before `Start`.
  std::vector<preempt::SourceHealth> health() const { return sources_->health(); }

 private:
  struct Standing {
    preempt::SourceEvent event;
    std::optional<Time> death;
    bool over = false;  // a preemption has dealt with it
  };

  explicit HostSources(Options options) : options_(std::move(options)) {}
  DeathNotice NoticeOf(const Standing& standing) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Say(std::string sentence) const;
  void TellJob(const preempt::SourceEvent& event);
  void TellHealth(const preempt::SourceHealth& health);

  const Options options_;
  std::unique_ptr<preempt::SourceSet> sources_;

  mutable Mutex mutex_;
  std::optional<JobPreemptions> job_ ABSL_GUARDED_BY(mutex_);
  std::vector<int32_t> members_ ABSL_GUARDED_BY(mutex_);
  std::string host_ ABSL_GUARDED_BY(mutex_);
  // By source and id.
  std::map<std::pair<std::string, std::string>, Standing> standing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::client

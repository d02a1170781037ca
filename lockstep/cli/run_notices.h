// What `lockstep run` learns of preemptions, and what it tells the job of them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/client/host_sources.h"
#include "lockstep/client/session.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/preempted_run.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

class SignalsOfRun;

// The sources of this host on one side, the job's preemptions on the other; what comes from either
// is told on the loop. It comes back by itself when the server does.
//
// Threads: loop-confined but for what `say` and `told` are posted from. Destroy it when the loop
// has stopped.
class RunNotices {
 public:
  struct Callbacks {
    std::function<void(std::string)> say;
    std::function<void(const launch::PreemptionTold&)> told;
    std::function<void(const std::optional<launch::PreemptionTold>&)> checked;
    // What the sources of this host say has changed.
    std::function<void(const launch::HostTold&)> host;
  };

  // `specs`: docs/preemption-sources.md; `signal` is taken by `TakeSignal`. INVALID_ARGUMENT: one
  // that there is not, or with a wrong option.
  static absl::StatusOr<std::unique_ptr<RunNotices>> Make(const std::vector<std::string>& specs);
  ~RunNotices();
  RunNotices(const RunNotices&) = delete;
  RunNotices& operator=(const RunNotices&) = delete;

  // Which signals are notices.
  const std::vector<int>& signals() const;

  // The processes of so many of the job's members run here, from member `first`.
  void Start(runtime::Loop& loop, const launch::JobAddress& address, int32_t first, int32_t size,
             Callbacks callbacks);
  void TakeSignal(int signal);
  // How the job's preemption stands now: `checked`, also when nobody answers.
  void Check();
  // Processes are started again: another attempt, that knows nothing of the former one's notices,
  // and in which other members may run here.
  void Restarted(int32_t first, int32_t size);

 private:
  RunNotices() = default;
  void Opened(absl::StatusOr<std::unique_ptr<Session>> session);
  std::vector<int32_t> Members() const;
  void WatchJob();
  void Take(absl::StatusOr<PreemptionNotice> notice);
  launch::PreemptionTold ToTold(const PreemptionNotice& notice) const;

  SignalsOfRun* signals_ = nullptr;  // one of the sources; null when it is not asked for
  runtime::Loop* loop_ = nullptr;
  int32_t first_ = 0;
  int32_t size_ = 0;
  Callbacks callbacks_;
  std::thread opening_;
  std::atomic<bool> stopping_ = false;
  std::unique_ptr<Session> session_;
  std::unique_ptr<client::HostSources> sources_;
  std::unique_ptr<JobPreemptionWatch> watch_;
  std::unique_ptr<runtime::Timer> again_;
  uint64_t watches_ = 0;  // what comes of former ones is not heeded
  Time watched_at_;
  // Attempt and id of the last preemption whose end the sources were told of.
  std::pair<int64_t, int64_t> ended_ = {0, 0};
};

}  // namespace lockstep::cli

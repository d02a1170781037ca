// What `lockstep run` learns of preemptions, and what it tells the job of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/cli/preemption_follower.h"
#include "lockstep/cli/session_opener.h"
#include "lockstep/cli/signal_source.h"
#include "lockstep/client/host_sources.h"
#include "lockstep/client/session.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/preempted_run.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

// The members of the job whose processes run here.
struct MemberRange {
  int32_t first = 0;
  int32_t size = 0;

  std::vector<int32_t> All() const;
};

// Joins the sources of this host and the preemptions of the job: what the sources learn goes to the
// job, and the end of a preemption to the sources. Reports both on the loop. It comes back by
// itself when the server does.
//
// Threads: loop-confined. The sources and the client call on threads of theirs; what they bring is
// posted to the loop. Destroy it when the loop has stopped. Ownership: the loop outlives it.
class RunNotices {
 public:
  struct Callbacks {
    std::function<void(std::string)> say;
    std::function<void(const launch::PreemptionTold&)> told;
    std::function<void(const std::optional<launch::PreemptionTold>&)> checked;
    // What the sources of this host report has changed.
    std::function<void(const launch::HostTold&)> host;
  };

  // `specs`: docs/preemption-sources.md; `signal` is what `TakeSignal` takes. INVALID_ARGUMENT: an
  // unknown source, or a wrong option of one.
  static absl::StatusOr<std::unique_ptr<RunNotices>> Make(const std::vector<std::string>& specs);
  RunNotices(const RunNotices&) = delete;
  RunNotices& operator=(const RunNotices&) = delete;

  // Which signals are notices.
  const std::vector<int>& signals() const;

  // Once. Opens a session in the background and starts the sources then; `say` gets what fails.
  void Start(runtime::Loop& loop, const launch::JobAddress& address, MemberRange members,
             Callbacks callbacks);
  // The program got one of `signals`.
  void TakeSignal(int signal);
  // Asks how the job's preemption stands now. `checked` gets the answer, or nothing when the server
  // has none.
  void Check();
  // The processes are started again, for another attempt, in which other members may run here. It
  // knows nothing of the former one's notices, so the sources repeat what stands.
  void Restarted(MemberRange members);

 private:
  RunNotices() = default;
  void Opened(absl::StatusOr<std::unique_ptr<Session>> session);

  SignalSource* signals_ = nullptr;  // one of the sources; null when it is not asked for
  runtime::Loop* loop_ = nullptr;    // null before `Start`
  MemberRange members_;
  Callbacks callbacks_;
  // Destroyed from the last up: the opener's thread and the sources use what stands before them.
  std::unique_ptr<Session> session_;  // null until it is open
  std::unique_ptr<client::HostSources> sources_;
  std::optional<PreemptionFollower> follower_;  // with the session
  std::optional<SessionOpener> opener_;
};

}  // namespace lockstep::cli

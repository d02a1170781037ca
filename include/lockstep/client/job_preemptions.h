// Preemptions of a job, for those who are not in it: launchers, agents of a host, tools. Public.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/client/call.h"
#include "lockstep/client/preemption.h"

namespace lockstep {

namespace client {
class Engine;
}  // namespace client

// That members will die, as somebody outside the job learnt it.
struct DeathNotice {
  std::string source;  // how it was learnt: "gce", "signal"
  // The source's own name of it; said again, it is the same notice. Empty: a new one each time.
  std::string event;
  // Who. None, and no host: the member whose session this is, else everybody.
  std::vector<int32_t> members;
  std::string host;                    // all members that run there, too
  std::optional<absl::Duration> left;  // until then; absent: not known
  std::string text;                    // for people
};

// Calls back with each change of the job's current preemption until it is destroyed.
class JobPreemptionWatch {
 public:
  ~JobPreemptionWatch();
  JobPreemptionWatch(const JobPreemptionWatch&) = delete;
  JobPreemptionWatch& operator=(const JobPreemptionWatch&) = delete;

 private:
  friend class JobPreemptions;
  class Impl;
  explicit JobPreemptionWatch(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// Cheap to copy; a copy may outlive its session, and then answers FAILED_PRECONDITION.
// Thread-safe.
class JobPreemptions {
 public:
  // Done when the server knows.
  absl::Status Notify(DeathNotice notice, CallOptions options = {}) const;
  // As `Notify`: `done` is called when the server knows, not when a member does.
  Pending NotifyAsync(DeathNotice notice, CallOptions options, Completion<void> done) const;

  // They die at another time than was said of this source and event: in `left`, or nobody knows
  // when. NOT_FOUND, `no_preemption`: there is no open preemption.
  Pending MoveAsync(DeathNotice notice, CallOptions options, Completion<void> done) const;
  // They do not die. An empty event: nothing of what this source said is true any more.
  Pending WithdrawAsync(std::string source, std::string event, CallOptions options,
                        Completion<void> done) const;

  // How it stands now.
  Pending GetAsync(CallOptions options, Completion<PreemptionNotice> done) const;

  // The first call says how it stands, when there was a preemption. On a thread of the library; the
  // last with an error, when the watch cannot go on: with the job's attempt all its preemptions
  // end.
  std::unique_ptr<JobPreemptionWatch> Watch(
      std::function<void(absl::StatusOr<PreemptionNotice>)> changed) const;

 private:
  friend class Member;
  friend class Session;
  explicit JobPreemptions(std::weak_ptr<client::Engine> engine) : engine_(std::move(engine)) {}
  std::weak_ptr<client::Engine> engine_;
};

}  // namespace lockstep

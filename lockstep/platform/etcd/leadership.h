// Keeps an Election going: asks etcd what it wants to know, and watches the leader's key.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/etcd/client.h"
#include "lockstep/platform/etcd/election.h"

namespace lockstep::etcd {

// Owns two threads. Threads: thread-safe. Bounds: each wait ends with the client's time-out, or by
// the destructor.
class Leadership {
 public:
  // What is told: `lost` once, after which this server never leads again; on a thread of this
  // object's. `trouble`: etcd does not answer, and what it says instead; empty: it does again.
  struct Callbacks {
    std::function<void(absl::Status why)> lost;
    std::function<void(std::string why)> trouble;
  };

  // `client` outlives it; nobody else may cancel that.
  Leadership(Client& client, Election::Options options, Callbacks callbacks);
  // Ends without ending the lease: a leader resigns first.
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  struct View {
    Election::Role role = Election::Role::kFollower;
    Revision epoch = 0;              // of this server's leadership
    std::optional<KeyValue> leader;  // who leads, as far as this server knows
    absl::Status why;                // the role is `Over`
  };
  View view() const;

  // Waits until this server leads, or never will. DEADLINE_EXCEEDED: neither within `timeout`.
  absl::Status AwaitLead(absl::Duration timeout) const;
  // Whether this server leads, as far as it knows; else why not.
  absl::Status Check() const;
  // Who has led since this revision is known to be dead.
  void Died(Revision leader);
  // Gives the key back, so that the next one leads at once. Waits no longer than twice `timeout`.
  void Resign(absl::Duration timeout);

 private:
  void Campaign();
  void Watch();
  // Waits until this server does not lead any more; returns the lease that it has left, or 0.
  int64_t GiveUp(absl::Duration timeout);
  Election::Answer Ask(const Election::Request& request, absl::Duration patience);
  void Tell(const absl::Status& status);

  Client& client_;
  const Callbacks callbacks_;
  const std::string key_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  Election election_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool in_trouble_ = false;  // the campaign's own
  std::thread campaign_;
  std::thread watch_;
};

}  // namespace lockstep::etcd

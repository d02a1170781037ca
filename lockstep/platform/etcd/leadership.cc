#include "lockstep/platform/etcd/leadership.h"

#include <utility>

#include "lockstep/platform/runtime/boot_clock.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/signals_blocked.h"

namespace lockstep::etcd {
namespace {

using runtime::BootNow;

// Between two tries to watch.
constexpr absl::Duration kWatchPause = absl::Milliseconds(200);

// Carries out a request.
struct Asking {
  Client& client;
  const absl::Duration patience;
  Election::Answer& answer;

  void operator()(const Election::Grant& grant) const {
    const auto ttl = client.GrantLease(grant.lease, grant.ttl, patience);
    answer.status = ttl.status();
    if (ttl.ok()) answer.ttl = *ttl;
  }
  void operator()(const Election::Renew& renew) const {
    answer.status = client.RenewLease(renew.lease, patience);
  }
  void operator()(const Election::Revoke& revoke) const {
    answer.status = client.RevokeLease(revoke.lease, patience);
  }
  void operator()(const Transaction& transaction) const {
    auto result = client.Commit(transaction, patience);
    answer.status = result.status();
    if (result.ok()) answer.result = *std::move(result);
  }
};

}  // namespace

Leadership::Leadership(Client& client, Election::Options options, Callbacks callbacks)
    : client_(client),
      callbacks_(std::move(callbacks)),
      key_(options.layout.leader()),
      election_(std::move(options)) {
  const runtime::AllSignalsBlocked blocked;
  campaign_ = std::thread([this] { Campaign(); });
  watch_ = std::thread([this] { Watch(); });
}

Leadership::~Leadership() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  client_.Cancel();
  campaign_.join();
  watch_.join();
}

Leadership::View Leadership::view() const {
  const MutexLock lock(mutex_);
  return {.role = election_.role(),
          .epoch = election_.epoch(),
          .leader = election_.leader(),
          .why = election_.why()};
}

absl::Status Leadership::AwaitLead(absl::Duration timeout) const {
  const WaitLimit limit = WaitLimitAfter(timeout);
  const MutexLock lock(mutex_);
  while (election_.role() == Election::Role::kFollower) {
    if (!changed_.WaitUntil(mutex_, limit)) {
      return absl::DeadlineExceededError("another server leads");
    }
  }
  return election_.why();
}

absl::Status Leadership::Check() const {
  const MutexLock lock(mutex_);
  return election_.why();
}

void Leadership::Died(Revision leader) {
  const MutexLock lock(mutex_);
  election_.Died(BootNow(), leader);
  changed_.NotifyAll();
}

void Leadership::Resign(absl::Duration timeout) {
  const int64_t lease = GiveUp(timeout);
  // A leader that was replaced, or could not renew it, leaves it: nobody is to wait for its end.
  if (lease != 0) client_.RevokeLease(lease, timeout).IgnoreError();
}

int64_t Leadership::GiveUp(absl::Duration timeout) {
  const WaitLimit limit = WaitLimitAfter(timeout);
  const MutexLock lock(mutex_);
  election_.Resign();
  changed_.NotifyAll();
  while (election_.role() != Election::Role::kOver && changed_.WaitUntil(mutex_, limit)) {
  }
  return election_.lease();
}

Election::Answer Leadership::Ask(const Election::Request& request, absl::Duration patience) {
  Election::Answer answer;
  std::visit(Asking{.client = client_, .patience = patience, .answer = answer}, request);
  return answer;
}

// Said once, and once when it is over.
void Leadership::Tell(const absl::Status& status) {
  const bool trouble = !status.ok() && !absl::IsNotFound(status);
  if (trouble == in_trouble_) return;
  in_trouble_ = trouble;
  if (callbacks_.trouble) callbacks_.trouble(trouble ? std::string(status.message()) : "");
}

void Leadership::Campaign() {
  while (true) {
    std::optional<Election::Request> request;
    absl::Duration patience;
    absl::Status over;
    {
      const MutexLock lock(mutex_);
      while (!ending_) {
        const Time now = BootNow();
        request = election_.Next(now);
        patience = election_.Patience(now);
        over = election_.why();
        if (request || !over.ok()) break;
        changed_.WaitUntil(mutex_, WaitLimitAfter(election_.NextDeadline() - now));
      }
      if (ending_) return;
      if (!over.ok()) changed_.NotifyAll();
    }
    if (!over.ok()) {
      if (callbacks_.lost) callbacks_.lost(over);
      return;
    }
    const Time asked = BootNow();
    const Election::Answer answer = Ask(*request, patience);
    {
      const MutexLock lock(mutex_);
      if (ending_) return;
      election_.Take(asked, BootNow(), answer);
      changed_.NotifyAll();
    }
    Tell(answer.status);
  }
}

// What it misses is found by looking: it only makes that sooner.
void Leadership::Watch() {
  while (true) {
    const absl::Status status = client_.Watch({.key = key_}, [this](Client::Events&& events) {
      const MutexLock lock(mutex_);
      for (const KeyValue& event : events.events) election_.Changed(BootNow(), event);
      if (!events.events.empty()) changed_.NotifyAll();
      return !ending_ && election_.role() != Election::Role::kOver;
    });
    const WaitLimit limit = WaitLimitAfter(kWatchPause);
    const MutexLock lock(mutex_);
    while (!ending_ && changed_.WaitUntil(mutex_, limit)) {
    }
    if (ending_ || election_.role() == Election::Role::kOver) return;
  }
}

}  // namespace lockstep::etcd

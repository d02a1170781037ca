#include "lockstep/client/polling_loop.h"

#include <algorithm>

#include "lockstep/base/check.h"
#include "lockstep/rendezvous/transport/spin.h"

namespace lockstep::client {
namespace {

using Clock = std::chrono::steady_clock;

// Looking at the sockets costs a system call, looking at the clock as much as looking at memory.
constexpr uint64_t kLooksPerPoll = 128;
constexpr int kLooksPerClock = 8;

}  // namespace

// One thread at a time, but not always the same.
PollingLoop::PollingLoop() : io_(1), keep_running_(asio::make_work_guard(io_)) {}

void PollingLoop::RunSome(Instant until, bool spins, const std::atomic<bool>& enough) {
  if (!pollers_.empty()) {
    const Instant now = Clock::now();
    const Instant spin_until = std::min(until, spins ? now + spin_ : now);
    do {
      for (int look = 0; look < kLooksPerClock; ++look) {
        // The sockets have their turn also while there is always something in memory.
        if (++looks_ % kLooksPerPoll == 0 && io_.poll() > 0) return;
        if (PollAll() || enough) return;
        transport::CpuRelax();
      }
    } while (Clock::now() < spin_until);
    const bool sleeps = std::all_of(pollers_.begin(), pollers_.end(),
                                    [](runtime::Poller* each) { return each->PrepareToSleep(); });
    if (!sleeps) until = Clock::now();
  }
  if (until == Instant::max()) {
    io_.run_one();
  } else {
    io_.run_one_until(until);
  }
  for (runtime::Poller* poller : pollers_) poller->Awake();
}

// A poller may add or remove another one.
bool PollingLoop::PollAll() {
  bool any = false;
  for (size_t i = 0; i < pollers_.size(); ++i) any |= pollers_[i]->Poll();
  return any;
}

void PollingLoop::Add(runtime::Poller* poller, absl::Duration spin) {
  LOCKSTEP_DCHECK(std::find(pollers_.begin(), pollers_.end(), poller) == pollers_.end());
  pollers_.push_back(poller);
  spin_ = absl::ToChronoNanoseconds(spin);
}

void PollingLoop::Remove(runtime::Poller* poller) { std::erase(pollers_, poller); }

}  // namespace lockstep::client

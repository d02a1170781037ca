#include "lockstep/hosts/net/steady_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "lockstep/platform/runtime/signals_blocked.h"

namespace lockstep::hosts {
namespace {

constexpr int kNiceness = -10;

void AskForPriority() {
  const sched_param lowest_of_real_time{.sched_priority = 1};
  if (::pthread_setschedparam(::pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK,
                              &lowest_of_real_time) == 0) {
    return;
  }
  // Of this thread alone, as Linux has it.
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness));
}

}  // namespace

SteadyThread::SteadyThread(std::function<void()> turn) : turn_(std::move(turn)) {
  const runtime::AllSignalsBlocked blocked;
  thread_ = std::thread([this] {
    AskForPriority();
    while (!ending()) turn_();
  });
}

SteadyThread::~SteadyThread() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  thread_.join();
}

bool SteadyThread::ending() const {
  const MutexLock lock(mutex_);
  return ending_;
}

void KeepInMemory() {
  // With a limit, what the process takes later would fail beyond it.
  const rlimit unlimited{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  if (::setrlimit(RLIMIT_MEMLOCK, &unlimited) != 0) return;
  static_cast<void>(::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT));
}

}  // namespace lockstep::hosts

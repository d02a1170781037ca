#include "lockstep/client/threads.h"

#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "asio/error.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/signals_blocked.h"

namespace lockstep::client {
namespace {

// What runs on the loops never waits; but a machine may be busy.
constexpr absl::Duration kParkWithin = absl::Seconds(1);

// One for each process: a forked child gets its own. Under the mutex that a fork leaves free. Never
// destroyed.
template <class Loop>
struct OfProcess {
  const int threads;
  const char* const name;  // of the threads
  Loop* loop = nullptr;
  uint64_t generation = 0;
  bool runs = false;
};

OfProcess<LoopDriver> process_loop{.threads = 2, .name = "lockstep"};
OfProcess<transport::BulkLoop> process_bulk_loop{.threads = 1, .name = "lockstep-bulk"};

template <class Loop>
void Park(const OfProcess<Loop>& of) {
  Loop* loop = nullptr;
  {
    const MutexLock lock(runtime::ForkMutex());
    // Those of a parent are not here.
    if (of.runs && of.generation == runtime::ForkGeneration()) loop = of.loop;
  }
  if (loop != nullptr) loop->Park(kParkWithin);
}

// The loops compare errors with those of Asio, whose categories are destroyed at exit. What is
// registered after they were made comes before that. Once.
void ParkBeforeErrorsAreGone() {
  static const int registered = [] {
    asio::error::get_system_category();
    asio::error::get_netdb_category();
    asio::error::get_addrinfo_category();
    asio::error::get_misc_category();
    return std::atexit([] {
      Park(process_bulk_loop);
      Park(process_loop);
    });
  }();
  static_cast<void>(registered);
}

template <class Loop>
void Start(const OfProcess<Loop>& of) {
  const runtime::AllSignalsBlocked blocked;  // those are for the program around us
  for (int i = 0; i < of.threads; ++i) {
    std::thread thread([loop = of.loop] { loop->RunForever(); });
    pthread_setname_np(thread.native_handle(), of.name);
    thread.detach();
  }
}

// Its threads, when `runs`: a loop that is only made needs none yet.
template <class Loop>
Loop& Get(OfProcess<Loop>& of, bool runs) {
  const MutexLock lock(runtime::ForkMutex());
  ParkBeforeErrorsAreGone();
  if (of.loop == nullptr || of.generation != runtime::ForkGeneration()) {
    of.loop = new Loop;
    of.generation = runtime::ForkGeneration();
    of.runs = false;
  }
  if (runs && !std::exchange(of.runs, true)) Start(of);
  return *of.loop;
}

}  // namespace

LoopDriver& ProcessLoop() { return Get(process_loop, /*runs=*/true); }

absl::Status MakeProcessBulkLoop() {
  try {
    Get(process_bulk_loop, /*runs=*/false);
    return absl::OkStatus();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptors for a rendezvous: ", error.what(), " (RLIMIT_NOFILE)"));
  }
}

transport::BulkLoop& ProcessBulkLoop() { return Get(process_bulk_loop, /*runs=*/true); }

}  // namespace lockstep::client

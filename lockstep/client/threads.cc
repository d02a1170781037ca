#include "lockstep/client/threads.h"

#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "absl/time/time.h"
#include "asio/error.hpp"
#include "lockstep/runtime/fork_guard.h"

namespace lockstep::client {
namespace {

constexpr int kThreads = 2;
constexpr char kThreadName[] = "lockstep";
// What runs on the loop never waits; but a machine may be busy.
constexpr absl::Duration kParkWithin = absl::Seconds(1);

// Under the mutex that a fork leaves free. Never destroyed.
LoopDriver* process_loop = nullptr;
uint64_t process_generation = 0;

void ParkAtExit() {
  LoopDriver* loop = nullptr;
  {
    const std::lock_guard lock(runtime::ForkMutex());
    // Those of a parent are not here.
    if (process_generation == runtime::ForkGeneration()) loop = process_loop;
  }
  if (loop != nullptr) loop->Park(kParkWithin);
}

// The loop compares errors with those of Asio, whose categories are destroyed at exit. What is
// registered after they were made comes before that.
void ParkBeforeErrorsAreGone() {
  asio::error::get_system_category();
  asio::error::get_netdb_category();
  asio::error::get_addrinfo_category();
  asio::error::get_misc_category();
  std::atexit(ParkAtExit);
}

LoopDriver* Start() {
  auto* loop = new LoopDriver;
  // Signals are for the threads of the program around us; a thread inherits its maker's mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < kThreads; ++i) {
    std::thread thread([loop] { loop->RunForever(); });
    pthread_setname_np(thread.native_handle(), kThreadName);
    thread.detach();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return loop;
}

}  // namespace

LoopDriver& ProcessLoop() {
  const std::lock_guard lock(runtime::ForkMutex());
  if (process_loop == nullptr) ParkBeforeErrorsAreGone();
  if (process_loop == nullptr || process_generation != runtime::ForkGeneration()) {
    process_generation = runtime::ForkGeneration();
    process_loop = Start();
  }
  return *process_loop;
}

}  // namespace lockstep::client

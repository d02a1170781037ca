#include "lockstep/client/threads.h"

#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <mutex>
#include <thread>

#include "lockstep/runtime/fork_guard.h"

namespace lockstep::client {
namespace {

constexpr int kThreads = 2;
constexpr char kThreadName[] = "lockstep";

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
  // Under the mutex that a fork leaves free. Never destroyed.
  static LoopDriver* loop = nullptr;
  static uint64_t generation = 0;
  const std::lock_guard lock(runtime::ForkMutex());
  if (loop == nullptr || generation != runtime::ForkGeneration()) {
    generation = runtime::ForkGeneration();
    loop = Start();
  }
  return *loop;
}

}  // namespace lockstep::client

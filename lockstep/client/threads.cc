#include "lockstep/client/threads.h"

#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/runtime/fork_guard.h"

namespace lockstep::client {
namespace {

// Signals are for the threads of the program around us; a thread inherits its maker's mask.
template <class Body>
void StartThread(const char* name, Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name);
  thread.detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

thread_local bool on_callback_thread = false;

}  // namespace

struct Threads::Callbacks {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<Function> queue;
  bool started = false;

  void Run() {
    on_callback_thread = true;
    std::unique_lock lock(mutex);
    while (true) {
      filled.wait(lock, [this] { return !queue.empty(); });
      Function next = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      next();
      next = nullptr;  // what it held goes before the lock is taken
      lock.lock();
    }
  }
};

Threads& Threads::Get() {
  // Under the mutex that a fork leaves free. Never destroyed.
  static Threads* threads = nullptr;
  static uint64_t generation = 0;
  const std::lock_guard lock(runtime::ForkMutex());
  if (threads == nullptr || generation != runtime::ForkGeneration()) {
    generation = runtime::ForkGeneration();
    threads = new Threads;
  }
  return *threads;
}

Threads::Threads() : callbacks_(*new Callbacks) {
  StartThread("lockstep", [this] { loop_.RunForever(); });
}

void Threads::Callback(Function function) {
  {
    const std::lock_guard lock(callbacks_.mutex);
    callbacks_.queue.push_back(std::move(function));
    if (!std::exchange(callbacks_.started, true)) {
      StartThread("lockstep-calls", [callbacks = &callbacks_] { callbacks->Run(); });
    }
  }
  callbacks_.filled.notify_one();
}

bool Threads::OnCallbackThread() const { return on_callback_thread; }

}  // namespace lockstep::client

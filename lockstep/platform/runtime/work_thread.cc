#include "lockstep/platform/runtime/work_thread.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::runtime {

WorkThread::~WorkThread() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
    thread = std::move(thread_);
  }
  // Not under the mutex, which the thread needs to see that it ends.
  if (thread.joinable()) thread.join();
}

void WorkThread::Push(Function function) {
  const MutexLock lock(mutex_);
  LOCKSTEP_DCHECK(!ending_);
  waiting_.push_back(std::move(function));
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.NotifyOne();
}

void WorkThread::Run() {
  // Each is destroyed before the next runs, and never under the mutex.
  while (Function function = Take()) function();
}

WorkThread::Function WorkThread::Take() {
  const MutexLock lock(mutex_);
  while (!ending_ && waiting_.empty()) changed_.Wait(mutex_);
  if (ending_) return nullptr;
  Function function = std::move(waiting_.front());
  waiting_.pop_front();
  return function;
}

}  // namespace lockstep::runtime

// A thread for what would hold up a loop.
#pragma once

#include <deque>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "lockstep/base/mutex.h"

namespace lockstep::runtime {

// Runs functions one after the other, in the order in which they come, on a thread that starts with
// the first of them.
//
// Owns the thread and what waits for it. Threads: `Push` is thread-safe. Bounds: the owner limits
// what waits. Promises: each function runs once, unless the destructor comes first: that waits for
// the function that runs and drops the others.
class WorkThread {
 public:
  using Function = absl::AnyInvocable<void()>;  // destroyed before the next one runs

  WorkThread() = default;
  ~WorkThread();
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // Returns at once. Not called while the destructor runs.
  void Push(Function function);

 private:
  void Run();
  // The next function; null: there will be none.
  Function Take();

  Mutex mutex_;
  CondVar changed_;
  std::deque<Function> waiting_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::runtime

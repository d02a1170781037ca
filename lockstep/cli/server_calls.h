// Calls of `lockstep run` that wait for the server, without holding up its loop.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

// Each runs on a thread of its own, and what it returns runs on the loop.
//
// Bounds: one call of a kind at a time, so at most as many threads as there are kinds.
// Threads: loop-confined, but for `stopping`. `loop` must outlive it.
class ServerCalls {
 public:
  enum class Kind {
    kBundle,     // gathers what is known of a failed run
    kOpenStore,  // for an attempt
    kReported,   // waits until the server has what was reported
    kRootCause,
    kSeen,  // what the others wait for when a process fails
    kWhy,   // the same, when somebody ends the run
  };
  using Then = std::function<void()>;

  explicit ServerCalls(runtime::Loop& loop) : loop_(loop) {}
  // As `Stop`.
  ~ServerCalls() { Stop(); }

  // Waits for the one before of this kind, which has answered or will soon. A null `Then` means
  // that nothing is to be done on the loop.
  void Start(Kind kind, std::function<Then()> call);
  // A call that may take long looks whether it should end.
  bool stopping() const { return stopping_; }
  // Waits for all of them.
  void Stop();

 private:
  runtime::Loop& loop_;
  std::atomic<bool> stopping_ = false;
  std::map<Kind, std::thread> threads_;
};

}  // namespace lockstep::cli

// A process that has to end, and does, whatever hangs in it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace lockstep::runtime {

// Ends the process with `code` unless this object goes within `limit`, and calls `told` before:
// what hangs in a file system or waits for a peer cannot be told to stop. Owns a thread.
class EndLimit {
 public:
  EndLimit(absl::Duration limit, int code, std::function<void()> told);
  ~EndLimit();
  EndLimit(const EndLimit&) = delete;
  EndLimit& operator=(const EndLimit&) = delete;

 private:
  std::mutex mutex_;  // covers what follows
  std::condition_variable changed_;
  bool gone_ = false;
  std::thread thread_;
};

}  // namespace lockstep::runtime

// A process that has to end, and does, whatever hangs in it.
#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "lockstep/base/mutex.h"

namespace lockstep::runtime {

// Ends the process with `code` unless this object goes within `limit`, and calls `told` before:
// what hangs in a file system or waits for a peer cannot be told to stop. Owns a thread.
class EndLimit {
 public:
  // `told` runs on the thread of this object, and nothing after it but the end of the process.
  EndLimit(absl::Duration limit, int code, std::function<void()> told);
  ~EndLimit();
  EndLimit(const EndLimit&) = delete;
  EndLimit& operator=(const EndLimit&) = delete;

 private:
  bool GoneWithin(absl::Duration limit);

  Mutex mutex_;
  CondVar changed_;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::runtime

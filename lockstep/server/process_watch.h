// Waits for processes of this machine to end. Linux: pidfd.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::server {

// A process is known by its number and the time of its start, as it said of itself: one that got
// the number later is never taken for it.
//
// Threads: loop-confined. Bounds: `watches_max` descriptors; what is beyond is not watched.
class ProcessWatch {
 public:
  using Ended = std::function<void()>;

  explicit ProcessWatch(runtime::Loop& loop, size_t watches_max = 1000);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Calls `ended` from the loop, once, when the process has ended. `machine` is the process's
  // (runtime::ProcessMachine). Not when it is on another machine, or cannot be watched.
  void Watch(uint64_t key, const std::string& machine, int64_t pid, int64_t started, Ended ended);
  // It is not called any more.
  void Forget(uint64_t key) { watches_.erase(key); }

 private:
  runtime::Loop& loop_;
  const size_t watches_max_;
  const std::string machine_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<asio::posix::stream_descriptor>> watches_;
  // Gone with this, for what is on its way then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::server

// SIGTERM and SIGINT for a program that ends in good order: the first asks, the second ends it.
#pragma once

#include <functional>

#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::runtime {

// The first of these signals calls back on the loop. The second one ends the process at once with
// 128 + its number, from the handler itself: whether the loop runs, hangs, or has ended. At its end
// the signals do again what they did before. Only one at a time in a process.
class StopSignals {
 public:
  // Takes both signals over. `first` runs once, on the loop, with the signal that came.
  StopSignals(Loop& loop, std::function<void(int signal)> first);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  asio::posix::stream_descriptor came_;  // an eventfd; the handler has a duplicate
};

}  // namespace lockstep::runtime

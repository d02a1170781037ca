// Where the launcher hears of exceptions that end its Python processes, before these have ended.
#pragma once

#include <functional>
#include <string>

#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/launch/python_hook.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::launch {

// Reads lines from a named pipe that WritePythonHook made. What is no such line, or longer than
// the kernel writes in one piece, is dropped.
//
// Threads: loop-confined. `loop` must outlive it.
class ExceptionPipe {
 public:
  using Raised = std::function<void(const RaisedException&)>;
  // Without the pipe nothing is ever told.
  ExceptionPipe(runtime::Loop& loop, const std::string& folder, Raised raised);

 private:
  void Wait();
  void Read();

  const Raised raised_;
  asio::posix::stream_descriptor pipe_;
  std::string line_;  // not yet a whole one
};

}  // namespace lockstep::launch

// Connections to this process that its listeners closed, since nobody showed that they may come.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lockstep/platform/runtime/complaints.h"

namespace lockstep::client {

// Counts them, and names some on standard error: a library has no log, and whoever runs the program
// should hear that strangers call.
//
// Threads: `Note` on the loop, `count` on any. Bounds: a line an interval (runtime::Complaints).
class RefusedConnections {
 public:
  // `who`: as which member of which job this process listens.
  explicit RefusedConnections(std::string who);

  // Of one of them: a sentence.
  void Note(const std::string& why);
  uint64_t count() const { return count_; }

 private:
  std::atomic<uint64_t> count_ = 0;
  runtime::Complaints complaints_;
};

}  // namespace lockstep::client

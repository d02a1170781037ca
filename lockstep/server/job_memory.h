// What a job holds of the server's memory.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/coord/coordinator.h"
#include "lockstep/coord/events.h"
#include "lockstep/platform/runtime/memory_account.h"

namespace lockstep::server {

// Refuses events that make the job hold more than there is room for, and tells the account what it
// holds. Owns the job's two shares of the account, which outlives them. Threads: the loop's.
class JobMemory {
 public:
  JobMemory(runtime::MemoryAccount& memory, const std::string& job);

  // Whose memory it is, as refusals say it.
  static std::string OwnerOf(const std::string& job);

  // Why what makes the job hold more is refused, for this event; `durable`: it is written down.
  coord::NoRoom RoomFor(const coord::Event& event, bool durable);
  // It holds so much now; `beside` is what the shell holds for it.
  void Count(const coord::CoordinatorMemory& held, size_t beside, bool durable);

 private:
  runtime::MemoryAccount& memory_;
  runtime::MemoryShare keys_;
  runtime::MemoryShare others_;
};

}  // namespace lockstep::server

// Places where a test lets its own process die, stop or end, in the midst of what it does.
//
//   runtime::FaultPoint("rendezvous/offer_sent");
//
// They are compiled into every build, so that what is tested is what is shipped. One costs a load
// of a word that never changes and a branch that is never taken: less than can be measured beside
// the system call or the lock next to it. The library reads no environment variable for it: only a
// program that includes this header, a test's, can arm one.
#pragma once

#include <atomic>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep::runtime {
namespace internal {

struct ArmedFault;
// Null but in tests. What it points to stays for good.
extern std::atomic<ArmedFault*> armed_fault;
void ReachFaultPoint(ArmedFault& armed, std::string_view name);

}  // namespace internal

// Thread-safe, with any lock held.
inline void FaultPoint(std::string_view name) {
  internal::ArmedFault* const armed = internal::armed_fault.load(std::memory_order_acquire);
  if (armed != nullptr) [[unlikely]] {
    internal::ReachFaultPoint(*armed, name);
  }
}

// "rendezvous/offer_sent:3:kill": when it comes there the third time, the process does that to
// itself: kill (SIGKILL), stop (SIGSTOP) or exit (with code 3, at once). Takes the place of what
// was armed before. INVALID_ARGUMENT: it does not read so. For tests.
absl::Status ArmFaultPoint(std::string_view what);

}  // namespace lockstep::runtime

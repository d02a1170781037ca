// What the processes of a model job do once they are connected. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/sim/random.h"

namespace lockstep::sim {

// One thing that all of `members` do together; others skip it. `name` is unique to the operation,
// save for barriers, whose ids are used again.
struct Operation {
  enum class Kind {
    kSleep,
    kBarrier,
    kExchange,   // each sets a key, then waits for the keys of the others
    kBroadcast,  // the first sets a key that the others wait for
    kCount,      // each increments the same key
    kAlive,      // who is alive?
  };
  Kind kind = Kind::kSleep;
  std::string name;
  std::vector<MemberIndex> members;
  bool everybody = false;   // barriers then send no list
  absl::Duration duration;  // how long to sleep, or how long to wait at most
};

// The same for all processes of a job, as in any training program. `timeout` is what each wait is
// given.
std::vector<Operation> DrawProgram(Random& random, int32_t size, int operations,
                                   absl::Duration timeout);

}  // namespace lockstep::sim

// Who is not where the others wait in their code. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/observe/suspects.h"

namespace lockstep::observe {

struct OddOnes {
  std::vector<const ProcessLocation*> odd;  // of the snapshot; empty: nothing tells
  std::string others;                       // "3 of 4 wait in all_reduce, train.py:88"
  std::optional<int64_t> since_us;          // since the first of the others has not moved
};

// Who waits for other processes is waited for by nobody else than them: so those are odd who are
// elsewhere while at least as many wait for others, of them those that run; or, if all wait for
// others, who waits at another place than more than half of all. Of programs whose stacks do not
// tell what they wait for, those who are not where more than half of all wait.
OddOnes FindOddOnes(const StackSnapshot& snapshot);

}  // namespace lockstep::observe

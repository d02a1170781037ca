// Where a block lies, as one process tells it to another. Pure.
#pragma once

#include <cstdint>

namespace lockstep::transport {

struct Place {
  uint32_t segment = 0;
  uint64_t offset = 0;  // where the block begins
  uint64_t bytes = 0;
  // Which use of this memory: greater each time that it is given out.
  uint32_t generation = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

}  // namespace lockstep::transport

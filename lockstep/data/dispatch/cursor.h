// Where a reading stands, as a text that goes into a trainer's checkpoint. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/dispatch/iteration_spec.h"
#include "lockstep/data/dispatch/records.h"

namespace lockstep::dispatch {

// All that is not yet read of a dataset: the rests, and every segment from `next` on. Two readers
// at the same place have equal cursors, whatever each of them has heard of what comes.
struct Cursor {
  std::string definition;  // the identity of the dataset
  Mode mode = Mode::kExact;
  int64_t elements = 0;  // exact: handed out before it, since the dataset's beginning
  int64_t round = 0;     // rounds: the one that is going on...
  int64_t place = 0;     // ...and how many turns of it are over
  int64_t next = 0;
  std::vector<SegmentRest> rests;  // sorted
};

// Whether both were taken at the same place. What each reader had heard of that comes behind may
// differ: a rest that is empty, which one of them knows and the other does not.
bool SamePlace(const Cursor& a, const Cursor& b);

// Begins with a version and ends with a check value; printable, no spaces.
std::string EncodeCursor(const Cursor& cursor);
// Reason "cursor_invalid" when it is none of ours, or damaged. The code is INVALID_ARGUMENT.
std::variant<Cursor, ErrorPtr> DecodeCursor(std::string_view text);

}  // namespace lockstep::dispatch

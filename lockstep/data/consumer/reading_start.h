// Where a consumer begins to read, as its options say. Pure.
#pragma once

#include <optional>
#include <variant>

#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/dispatch/error.h"

namespace lockstep::dispatch {

struct ReadingStart {
  Cursor begin;                  // where all consumers of the iteration begin
  std::optional<Cursor> rejoin;  // where this one goes on; none: it is new in the iteration
};

// Decodes the cursors of the options. Errors: "cursor_invalid" when one of them is damaged;
// "cursor_mismatch" when it is of another dataset or mode, or goes on before the beginning.
std::variant<ReadingStart, ErrorPtr> DecodeStart(const ConsumerOptions& options);

}  // namespace lockstep::dispatch

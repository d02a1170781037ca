// What is below a directory, read at once or in pages. Pure.
#pragma once

#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/key_table.h"
#include "lockstep/coord/options.h"

namespace lockstep::coord {

// Null: `listed` has what is below the directory, or the page behind `after` with a `limit`.
// RESOURCE_EXHAUSTED (limit_exceeded): it is more than page_entries_max or page_bytes_max, or for
// stock callers list_bytes_max, and no page was asked for. What CheckKey says of the directory; the
// empty one is everything to native callers.
ErrorPtr ReadDirectory(const KeyTable& table, const CoordinatorOptions& options,
                       const ListKeys& request, KeysListed& listed);

// Null: `all` has the key and what is below it, as a snapshot. RESOURCE_EXHAUSTED
// (limit_exceeded): it is more than page_entries_max or page_bytes_max, and there are no pages of a
// snapshot.
ErrorPtr ReadSnapshot(const KeyTable& table, const CoordinatorOptions& options,
                      const WatchKeys& request, KeysChanged& all);

}  // namespace lockstep::coord

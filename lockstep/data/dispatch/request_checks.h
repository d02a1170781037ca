// Which requests about iterations are lawful, whatever the iteration is. Pure.
#pragma once

#include <string>

#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/dispatch/dataset_table.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/iteration_ledger.h"
#include "lockstep/data/dispatch/options.h"

namespace lockstep::dispatch {

ErrorPtr InvalidRequest(std::string message);  // INVALID_ARGUMENT (invalid_argument)
ErrorPtr LimitReached(std::string message);    // RESOURCE_EXHAUSTED (limit_reached)

// Null: the request makes sense; `start` is where the iteration begins then. Otherwise
// - INVALID_ARGUMENT (invalid_argument, sharding_unsupported, cursor_invalid);
// - NOT_FOUND (dataset_unknown);
// - FAILED_PRECONDITION (cursor_mismatch): the cursor is of another reading;
// - RESOURCE_EXHAUSTED (limit_reached).
ErrorPtr CheckRequest(const Options& options, const DatasetTable& datasets,
                      const OpenIteration& request, Cursor& start);

// Null: its numbers count what there can be. Otherwise INVALID_ARGUMENT.
ErrorPtr CheckRequest(const ConsumerPoll& request);
// As for a poll.
ErrorPtr CheckRequest(const CloseConsumer& request);

// Null: who asks for this means the iteration that is there. Otherwise INVALID_ARGUMENT
// (iteration_differs), with all differences.
ErrorPtr CheckSame(const IterationLedger& there, const DatasetTable& datasets,
                   const IterationSpec& spec, const Cursor& start);

}  // namespace lockstep::dispatch

// Who may take which place in an iteration. Pure.
#pragma once

#include "lockstep/data/dispatch/consumer_sessions.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/iteration_ledger.h"
#include "lockstep/data/dispatch/options.h"

namespace lockstep::dispatch {

// Whose place the caller takes: its own, or one that waits for a successor; null: none.
const ConsumerEntry* PredecessorOf(const IterationLedger& ledger, const OpenIteration& request);

// Null: it may take the place of `known`, or a new one when that is null. Otherwise
// - the iteration's own error, when it has failed;
// - ALREADY_EXISTS (consumer_index_taken): another consumer reads there;
// - FAILED_PRECONDITION (cursor_mismatch): what it would read next is not given any more;
// - RESOURCE_EXHAUSTED (limit_reached): Options.consumers_max.
ErrorPtr CheckOpen(const IterationLedger& ledger, const ConsumerSessions& sessions,
                   const Options& options, const OpenIteration& request,
                   const ConsumerEntry* known);

// Whether the iteration, which is finished, has to be read again for it.
bool ReadsBeforeEnd(const IterationLedger& ledger, const OpenIteration& request,
                    const ConsumerEntry* known);

// The index of a consumer that joins.
int32_t IndexFor(const IterationLedger& ledger, const OpenIteration& request);

}  // namespace lockstep::dispatch

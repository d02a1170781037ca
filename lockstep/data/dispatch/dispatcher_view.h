// What a dispatcher looks like, for people. Pure.
#pragma once

#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/dataset_table.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/iteration_table.h"
#include "lockstep/data/dispatch/view.h"

namespace lockstep::dispatch {

// Adds the next rows behind the cursor; as Dispatcher::ReadView.
bool ReadRows(const DispatcherState& state, const DatasetTable& datasets,
              const IterationTable& iterations, Time now, ViewCursor& cursor, View& out);

}  // namespace lockstep::dispatch

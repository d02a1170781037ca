// An iteration as people and the shell see it. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/reading_mode.h"
#include "lockstep/data/dispatch/view.h"

namespace lockstep::dispatch {

IterationRow RowOf(const IterationParts& parts, const ReadingMode& mode, Time now);

// For whom an iteration waits whose dataset's files are being listed, and since when.
std::string WaitsForFiles(const DispatcherState& state, DatasetId dataset, Time now);

// Of a consumer that is there.
std::optional<ConsumerProcess> ProcessOf(const IterationLedger& ledger, ConsumerId consumer);
void ListProcesses(const IterationLedger& ledger, std::vector<ConsumerProcess>& out);

}  // namespace lockstep::dispatch

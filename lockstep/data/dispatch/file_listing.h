// Which worker lists the files of a dataset. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/worker_table.h"

namespace lockstep::dispatch {

// Asks one worker at a time, and another one too when that takes long or fails; whoever is done
// first is believed. Not recorded: after a restart somebody is asked anew.
//
//   Ask --late (resolve_timeout)--> another one is asked too --all are late--> in turn again
//
// Bounds: the workers that were asked, for each dataset that is being listed.
class FileListing {
 public:
  explicit FileListing(DispatcherState& state) : state_(state) {}

  // Who is to be asked now; 0: there is no worker.
  WorkerId Choose(DatasetId dataset) const;
  // The worker is asked, from now on unless it was before; it is late after resolve_timeout.
  void Ask(Time now, DatasetId dataset, WorkerId worker);
  // It failed; how often it has.
  int32_t NoteFailure(DatasetId dataset, WorkerId worker);
  // Nobody is asked at the moment any more: whoever was takes long.
  std::optional<Resolving> TakeLate(DatasetId dataset);
  // Another one is chosen from here on.
  void NoteLate(DatasetId dataset, WorkerId worker);
  // It does not list them any more, and may be asked again.
  void ForgetAsked(DatasetId dataset, WorkerId worker);
  // It is gone: whether it failed or was late does not matter any more.
  void ForgetWorker(WorkerId worker);
  // They are listed, or nobody wants them any more.
  void Forget(DatasetId dataset);

 private:
  struct Asked {
    std::map<WorkerId, int32_t> failures;
    std::map<WorkerId, Time> since;  // when first
    std::set<WorkerId> late;
  };

  DispatcherState& state_;
  // Who is asked at the moment: DispatcherState::resolving.
  std::map<DatasetId, Asked> asked_;
};

}  // namespace lockstep::dispatch

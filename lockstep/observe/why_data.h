// Which members of a job wait for the data service, and for what there. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/wire/native/data_status_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

struct Diagnosis;

// One iteration that members of the job read.
struct DataWait {
  std::string iteration;
  std::string waits_for;         // empty when it has failed
  std::string error;             // why it has failed
  bool no_workers = false;       // the data service has none at all
  std::vector<int32_t> members;  // of the job, ascending

  friend bool operator==(const DataWait&, const DataWait&) = default;
};

// A consumer is a member if both are the same process: host and pid. Of an iteration whose files
// are not listed, or that no worker serves, each consumer waits; of others those that waited for
// the same thing in `before`, a moment ago: a reader that keeps up waits now and then.
std::vector<DataWait> DataWaitsOf(const wire::native::JobStatus& job,
                                  const wire::native::DataStatusReply& now,
                                  const wire::native::DataStatusReply& before);

// Adds a finding for each. A job that only waits for data is not well.
void TellData(const wire::native::JobStatus& job, const std::vector<DataWait>& waits,
              Diagnosis& out);

}  // namespace lockstep::observe

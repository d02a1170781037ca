// The state of a server on disk: from entries of its journal to its jobs, and from its jobs to a
// snapshot.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/journal/journal.h"
#include "lockstep/server/data_host.h"
#include "lockstep/server/job_table.h"
#include "lockstep/server/options.h"

namespace lockstep::server {

// Opens the journal that the options say, and makes the jobs and the data service again that are in
// it; null: they say none. Waits until this server leads, where several share one. Says in the log
// what was there and how long it took. FAILED_PRECONDITION: it cannot be used. DATA_LOSS: what is
// in it is damaged.
absl::StatusOr<std::unique_ptr<journal::Journal>> OpenState(const ServerOptions& options,
                                                            JobTable& jobs, DataHost& data);

// Where that is, for people.
std::string PlaceOf(const ServerOptions& options);

// All that the jobs and the data service are now. Reads them here; bytes are made of it where the
// source is used.
// The records of jobs that are set aside, and of the data service if it is, go into it as they are.
journal::SnapshotSource SnapshotOf(const JobTable& jobs, const DataHost& data);

}  // namespace lockstep::server

// A view as Prometheus reads it; docs/metrics.md names everything. Pure.
//
// Whoever may see one job is shown that job alone: a view of it has nothing of other jobs, and its
// metrics leave out those of the server, which add up what all jobs do.
//
// The label `job` is the only one that grows, with the jobs (`jobs_max`); there is none for
// members.
#pragma once

#include <string>

#include "lockstep/server/server_view.h"

namespace lockstep::server {

std::string MetricsText(const ServerView& view);
// Of a view of one job.
std::string JobMetricsText(const ServerView& view);

}  // namespace lockstep::server

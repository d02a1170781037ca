// A view as Prometheus reads it; docs/metrics.md names everything. Pure.
//
// The label `job` is the only one that grows, with the jobs (`jobs_max`); there is none for
// members.
#pragma once

#include <string>

#include "lockstep/server/server_view.h"

namespace lockstep::server {

std::string MetricsText(const ServerView& view);

}  // namespace lockstep::server

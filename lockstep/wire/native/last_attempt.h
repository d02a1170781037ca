// Which attempts of a job have been used. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/wire/native/status_messages.h"

namespace lockstep::wire::native {

// The number of the job's last attempt that somebody came into, as a member or at its store.
inline int64_t LastAttempt(const JobStatus& job) {
  const int64_t joined = job.started_ago_us ? job.attempt : job.attempt - 1;
  if (!job.torch_store) return joined;
  const bool used = job.torch_store->connections > 0 || job.torch_store->keys > 0;
  return std::max(joined, used ? job.torch_store->attempt : job.torch_store->attempt - 1);
}

}  // namespace lockstep::wire::native

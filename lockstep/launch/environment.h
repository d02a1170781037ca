// The environment that a process of a job is started with. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"

namespace lockstep::launch {

// What is the same for all processes of one `lockstep run`.
struct JobAddress {
  std::string job;
  std::string link;  // H:P where the server speaks the link
  std::string grpc;  // H:P where stock clients find the job
};

using Environment = std::map<std::string, std::string>;

// Of `NAME=value` strings, as `environ` holds them. The first of a name counts, as with getenv.
Environment ParseEnvironment(const char* const* strings);

// The other way round, sorted by name.
std::vector<std::string> Format(const Environment& environment);

// Adds to `inherited` what makes a process member `member` of the job:
//
//   LOCKSTEP_COORDINATOR, LOCKSTEP_JOB, LOCKSTEP_INDEX, LOCKSTEP_SIZE, LOCKSTEP_ROLE
//       for native clients;
//   LOCKSTEP_RUN_ID
//       marks everything that this run started, so that it can be found and killed. A run within
//       a run appends its own id;
//   JAX_COORDINATOR_BIND_ADDRESS
//       parks the service that JAX's process 0 insists on starting on a throw-away port;
//   JAX_COORDINATOR_ADDRESS, OMPI_MCA_orte_hnp_uri, OMPI_COMM_WORLD_SIZE, _RANK, _LOCAL_RANK
//       what `jax.distributed.initialize()` without arguments looks for;
//   JAX_NUM_PROCESSES, JAX_PROCESS_ID
//       for programs that pass explicit arguments; JAX itself does not read them;
//   PYTHONUNBUFFERED
//       unless set: output shows when it is printed, not when a buffer is full;
//   no_proxy, NO_PROXY (and no_grpc_proxy when set)
//       when a proxy is set, so that gRPC reaches the coordinator without it. Not otherwise, since
//       JAX warns of every such variable.
//
// LOCKSTEP_ATTEMPT is left as it is: a run starts its processes once, and which attempt they come
// into is settled when the first of them joins, not before; one that joins again after all have
// left comes into the next. Whoever starts processes anew and counts that may say so.
Environment MemberEnvironment(Environment inherited, const JobAddress& address,
                              const std::string& role, MemberIndex member, int32_t size,
                              const std::string& run_id);

// For a run whose server is its own: without what is said of other servers and of their jobs
// (LOCKSTEP_CONFIG, LOCKSTEP_SERVER_*, LOCKSTEP_ATTEMPT). Their addresses are taken, and their
// state is not this run's.
Environment WithoutOtherServers(Environment inherited);

}  // namespace lockstep::launch

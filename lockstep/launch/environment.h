// The environment that a process of a job is started with. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"

namespace lockstep::launch {

// Where a job is.
struct JobAddress {
  std::string job;
  std::string link;   // where the servers speak the link, as link::Servers::Read takes it
  std::string grpc;   // H:P where stock clients find the job
  std::string store;  // H:P of the attempt's TCPStore, for torch.distributed; empty: there is none
};

using Environment = std::map<std::string, std::string>;

// Of `NAME=value` strings, as `environ` holds them. The first of a name counts, as with getenv.
Environment ParseEnvironment(const char* const* strings);

// The other way round, sorted by name.
std::vector<std::string> Format(const Environment& environment);

// Where a launcher's processes stand among those of the whole job: a node has consecutive members.
struct Placement {
  int32_t size = 1;        // of the job
  int32_t first = 0;       // member
  int32_t local_size = 1;  // processes of this launcher
  int32_t node = 0;
  int32_t nodes = 1;

  friend bool operator==(const Placement&, const Placement&) = default;
};

// Which attempt of a run its processes belong to.
struct RunAttempt {
  int32_t restarts = 0;  // before it
  int32_t max_restarts = 0;
  // The number of the job's attempt, where the run counts them: LOCKSTEP_ATTEMPT.
  std::optional<int64_t> number;
};

// What is the same for all processes of one attempt of a run.
struct RunEnvironment {
  Environment inherited;
  JobAddress address;
  std::string role = "task";
  std::string run_id;    // of this launcher
  std::string run_name;  // the same for all launchers of a run; empty: the job's name
  Placement placement;
  RunAttempt attempt;
  // HOST:PORT of each member for TensorFlow's own servers; empty: no TF_CONFIG.
  std::vector<std::string> tensorflow;
  // Where a process may leave a file on its own error; empty: nowhere.
  std::string error_folder;
  // What the user wants besides; it wins.
  Environment extra;
};

// Adds to what is inherited what makes a process number `local` of this launcher's:
//
//   LOCKSTEP_COORDINATOR, LOCKSTEP_JOB, LOCKSTEP_INDEX, LOCKSTEP_SIZE, LOCKSTEP_ROLE
//       for native clients;
//   LOCKSTEP_ATTEMPT
//       where the run counts attempts. Else it is left as it is: a run that starts its processes
//       once does not know which attempt they come into before the first of them joins, and whoever
//       starts processes anew and counts that may say so;
//   LOCKSTEP_RUN_ID
//       marks everything that this run started, so that it can be found and killed. A run within
//       a run appends its own id;
//   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, NODE_RANK,
//   ROLE_NAME, ROLE_RANK, ROLE_WORLD_SIZE, TORCHELASTIC_RUN_ID, _RESTART_COUNT, _MAX_RESTARTS
//       what torchrun gives its workers;
//   TORCHELASTIC_ERROR_FILE
//       where torch's `record` leaves the error that ends a process;
//   MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE
//       where there is a store: with the last each rank is a client of it only;
//   TORCH_NCCL_ASYNC_ERROR_HANDLING; OMP_NUM_THREADS with several processes
//       unless set, as torchrun;
//   TF_CONFIG
//       TensorFlow's cluster of workers, where there are ports for it;
//   JAX_COORDINATOR_BIND_ADDRESS
//       parks the service that JAX's process 0 insists on starting on a throw-away port;
//   JAX_COORDINATOR_ADDRESS, OMPI_MCA_orte_hnp_uri, OMPI_COMM_WORLD_SIZE, _RANK, _LOCAL_RANK,
//   _LOCAL_SIZE
//       what `jax.distributed.initialize()` without arguments looks for;
//   JAX_NUM_PROCESSES, JAX_PROCESS_ID
//       for programs that pass explicit arguments; JAX itself does not read them;
//   PYTHONUNBUFFERED
//       unless set: output shows when it is printed, not when a buffer is full;
//   no_proxy, NO_PROXY (and no_grpc_proxy when set)
//       when a proxy is set, so that gRPC reaches the coordinator without it. Not otherwise, since
//       JAX warns of every such variable.
//
// What an MPI launcher said of `lockstep run` itself (PMI_RANK, PMIX_RANK, MV2_COMM_WORLD_RANK and
// their like) is taken away: it is not true of the processes, and some libraries believe it first.
Environment MemberEnvironment(const RunEnvironment& run, int32_t local);

// TORCHELASTIC_ERROR_FILE of process number `local`; flat in its folder. Empty: there is none.
std::string ErrorFileOf(const RunEnvironment& run, int32_t local);

// Whether MemberEnvironment sets OMP_NUM_THREADS, which the user should hear of.
bool LimitsThreads(const RunEnvironment& run);

// For a run whose server is its own: without what is said of other servers and of their jobs
// (LOCKSTEP_CONFIG, LOCKSTEP_SERVER_*, LOCKSTEP_ATTEMPT). Their addresses are taken, and their
// state is not this run's.
Environment WithoutOtherServers(Environment inherited);

}  // namespace lockstep::launch

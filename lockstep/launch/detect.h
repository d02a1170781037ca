// Who started `lockstep run`, and so which of how many nodes this is. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/launch/environment.h"

namespace lockstep::launch {

// Lines of a hosts file that are taken: `hosts_file_lines_max`.
inline constexpr size_t kHostsFileLinesMax = 65536;

// A line of a hosts file: `gpu-3 slots=8`.
struct HostLine {
  std::string host;
  std::optional<int32_t> slots;
};

// Empty lines and what follows # are left out. INVALID_ARGUMENT names the line.
absl::StatusOr<std::vector<HostLine>> ParseHostsFile(std::string_view text);

// The first host of a list as Slurm writes it: "gpu03" of "gpu[03-05,07],login1". Empty: it is
// none.
std::string FirstHost(std::string_view list);

struct DetectInput {
  const Environment* environment = nullptr;
  const std::vector<HostLine>* hosts = nullptr;  // null: no hosts file was given
  std::string host_name;                         // of this host
};

// What is known of the cluster. Each launcher that a scheduler starts is a node here, be it on a
// host of its own or not.
struct Detected {
  std::string by;                // "slurm", "open mpi", ...; empty: nobody, so there is one node
  std::optional<int32_t> nodes;  // absent: not known, and has to be said
  int32_t node = 0;              // rank of this one
  std::optional<int32_t> processes;  // on this node
  std::string coordinator_host;      // where a server for all nodes is best put; empty: not known
  std::string run_name;              // the same for all nodes; empty: not known
  std::vector<std::string> why;      // sentences for people
};

// In this order the first that fits: a hosts file; nobody within another `lockstep run`; Open MPI;
// PMI (MPICH, Intel MPI, MVAPICH); a step of Slurm; an indexed job of Kubernetes. An MPI launcher
// comes before Slurm, since it may have been started by it: its own numbers are the ones of its
// processes. All variables of a scheduler have to be there: a shell that somebody opened on a node
// has some of them. INVALID_ARGUMENT: what is there contradicts itself.
absl::StatusOr<Detected> DetectCluster(const DetectInput& input);

}  // namespace lockstep::launch

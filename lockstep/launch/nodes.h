// How many nodes and processes a run has, from what was said and what was found. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/launch/detect.h"
#include "lockstep/launch/environment.h"

namespace lockstep::launch {

// As the user said it; empty and absent: not said.
struct NodesWanted {
  int32_t processes = 0;        // -n; 0: not said
  std::string per_node;         // "4", "auto", "cpu", "gpu"
  std::string nodes;            // "2", "2:4"
  std::optional<int32_t> node;  // rank of this one
};

// What "auto", "cpu" and "gpu" count.
struct HostDevices {
  int32_t cpus = 1;
  int32_t gpus = 0;
};

struct Nodes {
  int32_t processes = 0;        // of this launcher; 0: as many as the job has members
  int32_t least = 1;            // nodes that an attempt needs
  int32_t most = 1;             // that take part at most
  std::optional<int32_t> node;  // rank that this one asks for; absent: any

  // No other node can take part: no node group is needed.
  bool alone() const { return most == 1; }
};

// "4" or "2:4", as torchrun's --nnodes.
absl::Status ParseNodes(const std::string& text, int32_t& least, int32_t& most);

// What was said wins over what was found. INVALID_ARGUMENT: they contradict each other, or
// something is not known; the message says what to say.
absl::StatusOr<Nodes> SettleNodes(const NodesWanted& wanted, const Detected& detected,
                                  const HostDevices& devices);

// "2 nodes by --nnodes, of which this is node 1"; `wanted`: what they were settled from.
std::string TextOf(const Nodes& nodes, const NodesWanted& wanted);

// Where this launcher may come to stand once the nodes have met, supposing that each of them says
// its rank if this one does, and has as many processes. One placement where that settles it; else
// some, which differ in all that is not settled.
std::vector<Placement> PossiblePlacements(const Nodes& nodes);

}  // namespace lockstep::launch

#include "lockstep/launch/nodes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::launch {
namespace {

absl::StatusOr<int32_t> ParsePerNode(const std::string& text, const HostDevices& devices) {
  if (text == "cpu") return devices.cpus;
  if (text == "gpu" && devices.gpus == 0) {
    return absl::InvalidArgumentError("--nproc-per-node gpu: no GPU is seen on this host");
  }
  if (text == "gpu") return devices.gpus;
  if (text == "auto") return devices.gpus > 0 ? devices.gpus : devices.cpus;
  int32_t processes = 0;
  if (!absl::SimpleAtoi(text, &processes) || processes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nproc-per-node ", text, ": must be a number from 1, auto, cpu or gpu"));
  }
  return processes;
}

absl::StatusOr<int32_t> Processes(const NodesWanted& wanted, const Detected& detected,
                                  const HostDevices& devices, const Nodes& nodes) {
  int32_t per_node = 0;
  if (!wanted.per_node.empty()) {
    auto parsed = ParsePerNode(wanted.per_node, devices);
    if (!parsed.ok()) return parsed;
    per_node = *parsed;
  }
  if (wanted.processes != 0) {
    if (!nodes.alone()) {
      return absl::InvalidArgumentError(
          absl::StrCat("-n ", wanted.processes, " is for one node, and this is one of ", nodes.most,
                       "; --nproc-per-node says how many processes each has"));
    }
    if (per_node != 0 && per_node != wanted.processes) {
      return absl::InvalidArgumentError(absl::StrCat("-n ", wanted.processes,
                                                     " and --nproc-per-node ", wanted.per_node,
                                                     " contradict each other; say one of them"));
    }
    return wanted.processes;
  }
  if (per_node != 0) return per_node;
  if (detected.processes) return *detected.processes;
  // torchrun's default, where somebody starts a launcher on each node.
  return nodes.alone() && detected.by.empty() ? 0 : 1;
}

}  // namespace

absl::Status ParseNodes(const std::string& text, int32_t& least, int32_t& most) {
  const size_t colon = text.find(':');
  const bool range = colon != std::string::npos;
  if (!absl::SimpleAtoi(text.substr(0, colon), &least) ||
      !absl::SimpleAtoi(range ? text.substr(colon + 1) : text, &most) || least < 1 ||
      most < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "': must be a number of nodes, as 2, or MIN:MAX, as 2:4"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Nodes> SettleNodes(const NodesWanted& wanted, const Detected& detected,
                                  const HostDevices& devices) {
  Nodes nodes;
  if (!wanted.nodes.empty()) {
    if (absl::Status status = ParseNodes(wanted.nodes, nodes.least, nodes.most); !status.ok()) {
      return status;
    }
  } else if (detected.nodes) {
    nodes.least = nodes.most = *detected.nodes;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(detected.by,
                     " started this, but does not tell how many nodes there are; --nnodes says it "
                     "(--nnodes 1: this one alone)"));
  }
  auto processes = Processes(wanted, detected, devices, nodes);
  if (!processes.ok()) return processes.status();
  nodes.processes = *processes;
  if (nodes.alone()) return nodes;

  nodes.node = wanted.node;
  if (!nodes.node && !detected.by.empty()) {
    if (detected.node < 0) return absl::InvalidArgumentError(detected.why.back());
    nodes.node = detected.node;
  }
  if (nodes.node && *nodes.node >= nodes.most) {
    return absl::InvalidArgumentError(absl::StrCat("this is node ", *nodes.node, ", but ranks of ",
                                                   nodes.most, " nodes go from 0 to ",
                                                   nodes.most - 1));
  }
  return nodes;
}

std::string TextOf(const Nodes& nodes, const NodesWanted& wanted) {
  const std::string by = wanted.nodes.empty() ? "" : " by --nnodes";
  if (nodes.alone()) return absl::StrCat("one node", by);
  if (nodes.least != nodes.most) {
    return absl::StrCat(nodes.least, " to ", nodes.most, " nodes", by,
                        "; which of them this is, they settle when they meet");
  }
  return absl::StrCat(nodes.most, " nodes", by,
                      nodes.node ? absl::StrCat(", of which this is node ", *nodes.node)
                                 : "; which of them this is, they settle when they meet");
}

std::vector<Placement> PossiblePlacements(const Nodes& nodes) {
  std::vector<Placement> placements;
  const auto add = [&](int32_t count, int32_t node) {
    placements.push_back({.size = count * nodes.processes,
                          .first = node * nodes.processes,
                          .local_size = nodes.processes,
                          .node = node,
                          .nodes = count});
  };
  if (nodes.least == nodes.most && (nodes.node || nodes.alone())) {
    add(nodes.most, nodes.node.value_or(0));
    return placements;
  }
  add(nodes.least, 0);
  add(nodes.most, nodes.most - 1);
  return placements;
}

}  // namespace lockstep::launch

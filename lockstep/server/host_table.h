// Whose agents the hosts of a job belong to: sessions, launchers and links.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/hosts/packets.h"
#include "lockstep/launch/node_group/node_group.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/host_pulse.h"
#include "lockstep/wire/native/hosts_messages.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::server {

// Ties what HostPulse says of a host to what the server knows of its agent. A host is watched from
// its agent's first JoinHosts until the agent closes its link; a link that only breaks says
// nothing.
//
// Owns the pulse. Threads: loop-confined. `loop` and `memory` outlive it. Bounds: hosts_max of each
// job, in the account of memory.
class HostTable {
 public:
  struct Loss {
    std::string job;
    std::string name;  // of the host
    SessionId agent;
    node_group::NodeId node;  // 0: no launcher started the agent
    absl::Duration unheard;
  };
  struct Callbacks {
    std::function<void(const Loss&)> lost;
    // It runs no process of the job any more.
    std::function<void(const Loss&)> stopped;
  };

  // `beside`: HOST:PORT of the link, beside which agents send datagrams.
  HostTable(runtime::Loop& loop, runtime::MemoryAccount& memory, const std::string& beside,
            hosts::Terms terms, Callbacks callbacks);

  // As HostPulse says; RESOURCE_EXHAUSTED (memory_max).
  absl::StatusOr<wire::native::JoinHostsReply> Join(const std::string& job, SessionId agent,
                                                    link::LinkId link,
                                                    const wire::native::JoinHosts& asked);
  // Not `by_peer`: the link broke, and the host may be cut off.
  void Ended(link::LinkId link, bool by_peer);
  void JobDeleted(const std::string& job);
  // For people, into the job's status.
  void Show(const coord::Coordinator& coordinator, wire::native::JobStatus& job) const;
  // For how long that launcher may come back when its link broke: its host is watched, and given up
  // if it is more than that, or its processes go on without the server. Absent: neither.
  std::optional<absl::Duration> GraceOf(const std::string& job, node_group::NodeId node) const;

 private:
  struct Host {
    std::string job;
    SessionId agent;
    node_group::NodeId node;
    link::LinkId link;  // over which its agent asked last
    bool waits = false;
    bool lost = false;
  };

  // About what a host costs here and in the pulse, with its tables of peers.
  static constexpr size_t kHostBytes = 4096;
  static constexpr size_t kHostsShownMax = 1000;
  // Where the server does not reach most hosts, nobody is given up: then as without agents.
  static constexpr absl::Duration kWatchedGrace = absl::Seconds(30);
  // As long as agents wait for the server.
  static constexpr absl::Duration kWaitingGrace = absl::Minutes(10);
  // How exactly people are told for how long a host was silent.
  static constexpr absl::Duration kShown = absl::Milliseconds(100);

  void Take(const HostPulse::News& news);
  void Forget(hosts::HostId host);

  const Callbacks callbacks_;
  std::map<hosts::HostId, Host> hosts_;
  std::map<std::pair<std::string, node_group::NodeId>, hosts::HostId> nodes_;  // of launchers
  absl::flat_hash_map<link::LinkId, hosts::HostId> links_;
  runtime::MemoryAccount& memory_;
  runtime::MemoryShare share_;
  HostPulse pulse_;  // the first to go, with its thread
};

}  // namespace lockstep::server

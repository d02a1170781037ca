// The node groups of a server's jobs: launchers that run a job on several nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/events.h"
#include "lockstep/launch/node_group/node_group.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/wire/native/node_group_messages.h"

namespace lockstep::server {

// Node groups at a time: `node_groups_max`.
inline constexpr size_t kNodeGroupsMax = 1000;

// Feeds a machine for each job what its launchers say, and carries out what it wants. A link that
// ends is the end of the node that polled over it, unless that comes back in time. Nothing of it is
// kept on disk: launchers that come back to a server that was started again say where they are.
//
// Threads: loop-confined. `loop` must outlive it. Bounds: kNodeGroupsMax, each a job's in which
// somebody is; a group that all have left is forgotten. The account of memory, in which they are.
class NodeGroupHost {
 public:
  struct Callbacks {
    // The number of the job's last attempt that somebody came into; NOT_FOUND: there is no such
    // job.
    std::function<absl::StatusOr<int64_t>(const std::string& job)> last_attempt;
    // What the job has to know, before the launchers do.
    std::function<void(const std::string& job, const coord::RunBegan& fact)> began;
    // Where sentences for operators go: of which job.
    std::function<void(const std::string& job, std::string text)> tell;
    // For how long a node may come back whose link broke; absent: as long as others.
    std::function<std::optional<absl::Duration>(const std::string& job, node_group::NodeId node)>
        grace;
  };

  // What they hold is in `memory`, which outlives it.
  NodeGroupHost(runtime::Loop& loop, runtime::MemoryAccount& memory, Callbacks callbacks)
      : loop_(loop), memory_(memory), callbacks_(std::move(callbacks)) {}

  // Requests of wire::native::Route::kLaunchers.
  void Take(const link::Request& request, link::Responder responder);
  // The poll gets CANCELLED (cancelled), unless it was answered.
  void Cancelled(link::LinkId link, uint64_t id);
  // The node has gone unless it polls again in time, over whatever link. Not `by_peer`: it may only
  // be cut off.
  void Ended(link::LinkId link, bool by_peer);
  // The host of this node is given up, and later is known to have stopped. Ignored where the node
  // is not known.
  void HostLost(const std::string& job, node_group::NodeId node, std::string text);
  void HostStopped(const std::string& job, node_group::NodeId node);
  // Whoever waits in its group is told `why`, and the group is forgotten.
  void JobDeleted(const std::string& job, const absl::Status& why);

  size_t size() const { return node_groups_.size(); }

  // Answers every wait; refuses what comes later.
  void Stop();
  // Whether the link speaks for a node.
  bool Holds(link::LinkId link) const { return speakers_.contains(link); }

 private:
  struct One {
    One(runtime::Loop& loop, runtime::MemoryAccount& memory, std::string name)
        : job(std::move(name)),
          timer(loop),
          share(&memory, absl::StrCat("job '", job, "'"), "launchers of its nodes") {}
    const std::string job;
    node_group::NodeGroup group{node_group::Options{}};
    runtime::Timer timer;
    std::map<node_group::NodeId, size_t> speakers;  // links that speak for a node
    std::map<node_group::NodeId, size_t> costs;     // of each that speaks, as it last said
    size_t sum = 0;                                 // of all of those
    size_t text_bytes = 0;                          // of the longest failure that was told
    runtime::MemoryShare share;
  };
  struct Call {
    One* one;
    link::Responder responder;
  };
  struct Speaker {
    One* one = nullptr;
    node_group::NodeId node;
    std::map<uint64_t, CallId> calls;  // by the request's id
  };

  void Poll(const link::Request& request, link::Responder responder);
  void TellGroup(const link::Request& request, link::Responder responder);
  One* Find(const std::string& job);
  // The last attempt of the job, for a launcher that begins a run or tells of an attempt that its
  // group does not know; an error where that is too far ahead. 0: it does not matter.
  absl::StatusOr<int64_t> JobAttempt(const One* one,
                                     const wire::native::PollNodeGroup& message) const;
  static size_t CostOf(const wire::native::PollNodeGroup& message);
  // The refusal of a launcher that is new, or says more than before, when there is no room for it.
  absl::Status CheckRoom(const One* one, const wire::native::PollNodeGroup& message) const;
  static void SetCost(One& one, node_group::NodeId node, size_t cost);
  static void CountMemory(One& one);
  void Handle(One& one, const node_group::Event& event);
  void Answer(node_group::Reply reply);
  // Forgets the group, soon, if nobody is in it and no link speaks for it.
  void FreeIfEmpty(const One& one);
  void FreeEmpty();

  runtime::Loop& loop_;
  runtime::MemoryAccount& memory_;
  const Callbacks callbacks_;
  uint64_t last_call_ = 0;
  bool stopped_ = false;
  std::map<std::string, std::unique_ptr<One>>
      node_groups_;  // each while somebody is in it or speaks
  absl::flat_hash_map<CallId, Call> calls_;
  absl::flat_hash_map<link::LinkId, Speaker> speakers_;
  bool freeing_ = false;  // soon
  // Gone with this, for what is on its way then.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::server

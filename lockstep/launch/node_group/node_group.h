// The launchers of one run that has several nodes: who begins an attempt together, with which
// ranks, and what follows when one of them fails, comes or goes. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/node_group/failure_streak.h"

namespace lockstep::node_group {

// Nodes of one group, those that wait in readiness included: `node_group_nodes_max`.
inline constexpr int32_t kNodesMax = 16384;

// Members of an attempt up to which each is told the addresses of all, as it is in its environment.
inline constexpr int32_t kAddressedMembersMax = 1024;

// One life of a launcher: the random number that it chose for itself.
using NodeId = Id<struct NodeIdTag, uint64_t>;

// What a launcher says of itself, and of the run: in this all of a group have to agree.
struct LauncherInfo {
  NodeId id;
  std::string host;
  int64_t pid = 0;  // of the launcher
  int32_t processes = 1;
  std::optional<int32_t> rank;  // that it asks for; absent: any
  // HOST:PORT at which each of its processes may listen to the others; empty: it has none.
  std::vector<std::string> addresses;

  std::string run;           // its name; empty: whichever
  int32_t least = 1;         // nodes that an attempt needs
  int32_t most = 1;          // that take part
  int32_t max_restarts = 0;  // by failures
  // From the first node that is ready until nobody is waited for any longer, and the run fails.
  absl::Duration join_timeout = absl::Minutes(10);
  // From the last node that came until the first attempt begins with fewer than `most`.
  absl::Duration last_call = absl::Seconds(30);
  // From the second failure in a row within `Options::quick_failure` on, before the next
  // attempt: doubled each time, up to the second.
  absl::Duration restart_backoff = absl::Seconds(1);
  absl::Duration restart_backoff_max = absl::Minutes(1);
};

// ---- What can happen.

// A launcher asks what is next for it; parked until there is something. `seen`: how many
// instructions it has. One that is not known, or was lost, comes anew.
struct Poll {
  CallId call;
  LauncherInfo node;
  int64_t seen = 0;
  // Where it is, for a group that does not know it any more: the attempt that it takes part in (0:
  // none), with its rank and that attempt's nodes, or has been over with.
  int64_t attempt = 0;
  int32_t rank = 0;
  int32_t nodes = 0;
  std::optional<int32_t> over;  // with this exit code
  // The last attempt of the job: matters where the node begins a run (`Progress::over`), or tells
  // of an attempt that is after the group's.
  int64_t job_attempt = 0;
};
// The caller does not wait any longer.
struct CallLeft {
  CallId call;
};
// The link that it spoke over is gone.
struct NodeBroke {
  NodeId node;
  // For how long it may come back; absent: `Options::node_grace`. Its host is watched, and did not
  // close the link: HostLost tells if it is more than that.
  std::optional<absl::Duration> grace = std::nullopt;
};
// Its host is given up, and may still run processes of it.
struct HostLost {
  NodeId node;
  std::string text;  // "host h2 has not been heard for 3.1s"
};
// That host runs none any more.
struct HostStopped {
  NodeId node;
};
// A process of it failed, and with it the attempt.
struct NodeFailed {
  NodeId node;
  int64_t attempt = 0;
  std::string text;  // who and how
  int32_t exit_code = 1;
  std::string failure = {};  // how alone, to compare it with others; empty: the text
};
// All of its processes have ended. `again`: they were preempted and go on in another attempt.
struct NodeOver {
  NodeId node;
  int64_t attempt = 0;
  int32_t exit_code = 0;
  bool again = false;
  std::string text = {};  // what that exit code means, where it is no failure
};
// It goes, whatever the others do: somebody told it to end.
struct NodeLeaves {
  NodeId node;
};
struct DeadlineReached {};

using Event = std::variant<Poll, CallLeft, NodeBroke, HostLost, HostStopped, NodeFailed, NodeOver,
                           NodeLeaves, DeadlineReached>;

// ---- What launchers are told, each in an order of its own.

struct Instruction {
  enum class Kind {
    kWait,       // nothing new; `why` says whom the attempt waits for
    kBegin,      // an attempt, in this place of it
    kCalledOff,  // the attempt is over: stop what runs, say NodeOver
    kEnded,      // the run is over: end with `exit_code`
  };
  Kind kind = Kind::kWait;
  int64_t number = 0;  // of the instruction; 0: of kWait, which is none
  int64_t attempt = 0;
  // Of kBegin.
  int32_t rank = 0;  // of the node
  int32_t nodes = 0;
  int32_t first = 0;  // member
  int32_t size = 0;   // of the world
  int32_t failures = 0;
  // Of each member. Empty: they are too many, or not all have one that the others reach.
  std::vector<std::string> addresses;
  // Of the others.
  bool another = false;  // of kCalledOff: an attempt follows
  int32_t exit_code = 0;
  std::string why;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

struct Reply {
  CallId call;
  Instruction instruction;
  std::string refusal;  // not empty: instead of an instruction, why the node cannot take part
};

struct Effects {
  std::vector<Reply> replies;
  // For the log.
  std::vector<std::string> sentences;
  // An attempt begins, with so many members.
  std::optional<int32_t> begins;
};

// How far the run is.
struct Progress {
  bool over = true;     // who comes begins another run
  int64_t attempt = 0;  // the current one, or the last; 0: there was none
  // Of the job, and none of this run: the job's count is higher by that.
  int64_t attempts_before = 0;
  // Of the addresses that nodes of that attempt are told, which are kept once for all of them.
  size_t address_bytes = 0;
};

struct Options {
  // From the end of a launcher's link until it is lost.
  absl::Duration node_grace = absl::Seconds(1);
  // From when its host was given up until it is lost, if nobody can say that it has stopped.
  absl::Duration lost_host_grace = absl::Seconds(30);
  // From the first node that comes back to a server that knows nothing of the run, since it was
  // started again, until those that have not are lost.
  absl::Duration return_grace = absl::Seconds(30);
  // A poll is answered with kWait after this, so that whoever waits can say for whom.
  absl::Duration tell_every = absl::Seconds(5);
  // What fails so soon after its attempt's start may do so again.
  absl::Duration quick_failure = absl::Seconds(10);
  // After so many of those in a row that read the same but for numbers, no attempt follows.
  int32_t same_failures_max = 3;
  // Nodes that one event answers or gives up; the rest are due at once. So whoever else needs the
  // server has its turn between them.
  size_t answers_slice_max = 128;
  // Of texts and addresses in these answers; one answer may go beyond.
  size_t answer_bytes_slice_max = size_t{1} << 20;
};

// Decides for one node group.
//
// A node is ready; takes part in an attempt; is over with it; and ready again, or told that the run
// has ended. An attempt begins when all `most` nodes are ready; or, when nobody is left to be
// waited for, with those that are there, if they are `least`: in the first attempt after the last
// call, in later ones at once. Members are counted through in the order of ranks: the ones asked
// for, then those that a node had before, then the order of coming. Who is too many waits in
// readiness.
//
// An attempt is called off by the first failure in it, by a node that is lost or leaves or whose
// host is, and by one that comes while there is room. Failures and losses use up restarts. The next
// attempt begins only when all nodes of the last one have said that their processes have ended, or
// are lost; after several quick failures in a row only a while later, and after too many of the
// same not at all.
//
// Invariants: a poll is answered exactly once, when `tell_every` is over at the latest; a node gets
// each instruction until it says that it has seen it; every wait for nodes ends by `join_timeout`.
// Threads: thread-compatible. Time: `now` must not go back between calls.
class NodeGroup {
 public:
  explicit NodeGroup(Options options) : options_(options) {}

  // Returns whom to answer and what to log. A node that cannot take part is answered by a refusal
  // that says why.
  Effects Handle(Time now, const Event& event);
  // When to call `Handle(now, DeadlineReached{})`; infinite when nothing is pending.
  Time NextDeadline() const;

  // Nobody is left in it.
  bool empty() const { return nodes_.empty(); }
  Progress progress() const {
    return {.over = nodes_.empty() || ended_,
            .attempt = attempt_.number,
            .attempts_before = attempt_.before,
            .address_bytes = attempt_.address_bytes};
  }

 private:
  // kStale: it takes part in an attempt before the current one, and is to stop.
  enum class State { kReady, kTakesPart, kOver, kStale };
  // An instruction that a node has not seen yet: what is the same for all of them, which may be
  // long, is there once; the rest is this node's own.
  struct Unseen {
    Instruction ToInstruction() const;

    std::shared_ptr<const Instruction> as_all;
    int64_t number = 0;
    int32_t rank = 0;
    int32_t first = 0;
  };
  struct Node {
    // "node 3 on h2 (lockstep run, pid 7)".
    std::string Name() const;

    LauncherInfo is;
    State state = State::kReady;
    int64_t order = 0;              // of coming
    std::optional<int32_t> before;  // its rank in the last attempt
    std::optional<Time> broke_at;
    absl::Duration grace;  // from then on
    std::optional<CallId> call;
    Time called_at;
    int64_t told = 0;            // instructions
    std::vector<Unseen> to_see;  // in their order
  };
  // The current attempt, or the last one. It was begun, and is on until all are over with it.
  struct Attempt {
    int64_t number = 0;         // 0: there was none
    int64_t before = 0;         // of the job, and none of this run
    std::optional<Time> began;  // absent: by a former life of the server
    bool on = false;
    bool called_off = false;
    bool another = false;   // and another one follows
    int32_t exit_code = 0;  // of the first failure
    std::string why;        // likewise
    size_t address_bytes = 0;
  };
  // Nodes of the attempt that a former life of the server began are waited for.
  struct Returning {
    int32_t nodes = 0;
    Time until;
  };
  // The next attempt waits, since several failed quickly.
  struct BackOff {
    Time until;
    absl::Duration wait;
  };

  void On(Time now, const Poll& event, Effects& out);
  void On(Time now, const CallLeft& event, Effects& out);
  void On(Time now, const NodeBroke& event, Effects& out);
  void On(Time now, const HostLost& event, Effects& out);
  void On(Time now, const HostStopped& event, Effects& out);
  void On(Time now, const NodeFailed& event, Effects& out);
  void On(Time now, const NodeOver& event, Effects& out);
  void On(Time now, const NodeLeaves& event, Effects& out);
  void On(Time now, const DeadlineReached& event, Effects& out);

  std::string Refusal(const Poll& event) const;
  Node* TakingPart(NodeId id, int64_t attempt);
  void Come(Time now, const Poll& event, Effects& out);
  // Of a node that says it takes part in an attempt. False: there is no place for it.
  void Return(Time now, const Poll& event, Node& node, Effects& out);
  void Welcome(Time now, Node& node, Effects& out);
  void Lose(Time now, NodeId id, const std::string& how, Effects& out);
  // The attempt is over for all. `failure`: it uses up a restart, if one is left.
  // `text`: of the failure alone, where a node told it.
  void CallOff(Time now, std::string why, int32_t exit_code, bool failure, Effects& out,
               const std::string& text = "");
  // After anything that may have completed something.
  void Settle(Time now, Effects& out);
  void SettleOver(Time now, Effects& out);
  bool MayBegin(Time now) const;
  // Those that are ready and fit in, in the order of their ranks.
  std::vector<Node*> Chosen();
  void Begin(Time now, Effects& out);
  void End(int32_t exit_code, const std::string& why, Effects& out);
  // `rank`, `first`: of kBegin.
  static void Tell(Node& node, std::shared_ptr<const Instruction> as_all, int32_t rank = 0,
                   int32_t first = 0);
  void Answer(Node& node, Instruction instruction, Effects& out);
  int32_t Count(State state) const;
  Time JoinDeadline() const;
  Time LastCallDeadline() const;
  std::string WhatIsAwaited() const;
  std::string WhoIsAwaited() const;

  Options options_;
  std::map<NodeId, Node> nodes_;
  std::optional<LauncherInfo> agreed_;  // what the first said of the run
  int64_t coming_ = 0;
  Attempt attempt_;
  int32_t failures_ = 0;
  FailureStreak streak_;
  std::optional<BackOff> back_off_;
  bool ended_ = false;
  std::optional<Time> waits_since_;  // for nodes
  Time last_came_;
  std::optional<Returning> returning_;
};

}  // namespace lockstep::node_group

// The launchers of one run that has several nodes: who begins an attempt together, with which
// ranks, and what follows when one of them fails, comes or goes. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"

namespace lockstep::coord {

// Nodes of one crew, those that wait in readiness included: `crew_nodes_max`.
inline constexpr int32_t kCrewNodesMax = 16384;

// Members of an attempt up to which each is told the addresses of all, as it is in its environment.
inline constexpr int32_t kCrewAddressesMax = 1024;

// One life of a launcher: the random number that it chose for itself.
using NodeId = Id<struct NodeIdTag, uint64_t>;

// What a launcher says of itself, and of the run: in this all of a crew have to agree.
struct CrewNode {
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
  // From the second failure in a row within `CrewOptions::quick_failure` on, before the next
  // attempt: doubled each time, up to the second.
  absl::Duration restart_backoff = absl::Seconds(1);
  absl::Duration restart_backoff_max = absl::Minutes(1);
};

// ---- What can happen.

// A launcher asks what is next for it; parked until there is something. `seen`: how many
// instructions it has. One that is not known, or was lost, comes anew.
struct CrewPoll {
  CallId call;
  CrewNode node;
  int64_t seen = 0;
  // Where it is, for a crew that does not know it any more: the attempt that it takes part in (0:
  // none), with its rank and that attempt's nodes, or has been over with.
  int64_t attempt = 0;
  int32_t rank = 0;
  int32_t nodes = 0;
  std::optional<int32_t> over;  // with this exit code
};
// The caller does not wait any longer.
struct CrewCallLeft {
  CallId call;
};
// The link that it spoke over is gone.
struct CrewNodeBroke {
  NodeId node;
};
// A process of it failed, and with it the attempt.
struct CrewNodeFailed {
  NodeId node;
  int64_t attempt = 0;
  std::string text;  // who and how
  int32_t exit_code = 1;
  std::string failure = {};  // how alone, to compare it with others; empty: the text
};
// All of its processes have ended. `again`: they were preempted and go on in another attempt.
struct CrewNodeOver {
  NodeId node;
  int64_t attempt = 0;
  int32_t exit_code = 0;
  bool again = false;
  std::string text = {};  // what that exit code means, where it is no failure
};
// It goes, whatever the others do: somebody told it to end.
struct CrewNodeLeaves {
  NodeId node;
};
struct CrewDeadline {};

using CrewEvent = std::variant<CrewPoll, CrewCallLeft, CrewNodeBroke, CrewNodeFailed, CrewNodeOver,
                               CrewNodeLeaves, CrewDeadline>;

// ---- What launchers are told, each in an order of its own.

struct CrewInstruction {
  enum class Kind {
    kWait,       // nothing new; `why` says whom the attempt waits for
    kBegin,      // an attempt, in this place of it
    kCalledOff,  // the attempt is over: stop what runs, say CrewNodeOver
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

  friend bool operator==(const CrewInstruction&, const CrewInstruction&) = default;
};

struct CrewReply {
  CallId call;
  CrewInstruction instruction;
  std::string refusal;  // not empty: instead of an instruction, why the node cannot take part
};

struct CrewEffects {
  std::vector<CrewReply> replies;
  // For the log.
  std::vector<std::string> sentences;
  // An attempt begins, with so many members.
  std::optional<int32_t> begins;
};

struct CrewOptions {
  // From the end of a launcher's link until it is lost.
  absl::Duration node_grace = absl::Seconds(1);
  // From the first node that comes back to a server that knows nothing of the run, since it was
  // started again, until those that have not are lost.
  absl::Duration return_grace = absl::Seconds(30);
  // A poll is answered with kWait after this, so that whoever waits can say for whom.
  absl::Duration tell_every = absl::Seconds(5);
  // What fails so soon after its attempt's start may do so again.
  absl::Duration quick_failure = absl::Seconds(10);
  // After so many of those in a row that read the same but for numbers, no attempt follows.
  int32_t same_failures_max = 3;
};

// Decides for one crew.
//
// A node is ready; takes part in an attempt; is over with it; and ready again, or told that the run
// has ended. An attempt begins when all `most` nodes are ready; or, when nobody is left to be
// waited for, with those that are there, if they are `least`: in the first attempt after the last
// call, in later ones at once. Members are counted through in the order of ranks: the ones asked
// for, then those that a node had before, then the order of coming. Who is too many waits in
// readiness.
//
// An attempt is called off by the first failure in it, by a node that is lost or leaves, and by one
// that comes while there is room. Failures and losses use up restarts. The next attempt begins only
// when all nodes of the last one have said that their processes have ended, or are lost; after
// several quick failures in a row only a while later, and after too many of the same not at all.
//
// Invariants: a poll is answered exactly once, after `tell_every` at the latest; a node gets each
// instruction until it says that it has seen it; every wait for nodes ends by `join_timeout`.
// Threads: thread-compatible. Time: `now` must not go back between calls.
class Crew {
 public:
  explicit Crew(CrewOptions options) : options_(options) {}

  CrewEffects Handle(Time now, const CrewEvent& event);
  Time NextDeadline() const;

  // Nobody is left in it.
  bool empty() const { return nodes_.empty(); }

 private:
  // kStale: it takes part in an attempt before the current one, and is to stop.
  enum class State { kReady, kTakesPart, kOver, kStale };
  struct Node {
    CrewNode is;
    State state = State::kReady;
    int64_t order = 0;              // of coming
    std::optional<int32_t> before;  // its rank in the last attempt
    std::optional<Time> broke_at;
    std::optional<CallId> call;
    Time called_at;
    int64_t told = 0;                    // instructions
    std::deque<CrewInstruction> to_see;  // not seen yet
  };

  void On(Time now, const CrewPoll& event, CrewEffects& out);
  void On(Time now, const CrewCallLeft& event, CrewEffects& out);
  void On(Time now, const CrewNodeBroke& event, CrewEffects& out);
  void On(Time now, const CrewNodeFailed& event, CrewEffects& out);
  void On(Time now, const CrewNodeOver& event, CrewEffects& out);
  void On(Time now, const CrewNodeLeaves& event, CrewEffects& out);
  void On(Time now, const CrewDeadline& event, CrewEffects& out);

  std::string Refusal(const CrewNode& node) const;
  Node* TakingPart(NodeId id, int64_t attempt);
  void Come(Time now, const CrewPoll& event, CrewEffects& out);
  // Of a node that says it takes part in an attempt. False: there is no place for it.
  void Return(Time now, const CrewPoll& event, Node& node, CrewEffects& out);
  void Welcome(Time now, Node& node, CrewEffects& out);
  void Lose(Time now, NodeId id, const std::string& how, CrewEffects& out);
  // The attempt is over for all. `failure`: it uses up a restart, if one is left.
  // `text`: of the failure alone, where a node told it.
  void CallOff(Time now, std::string why, int32_t exit_code, bool failure, CrewEffects& out,
               const std::string& text = "");
  // Counts a failure among those in a row. Returns why no other attempt would help; empty: it may.
  std::string TooManyAlike(Time now, const std::string& text);
  // After anything that may have completed something.
  void Settle(Time now, CrewEffects& out);
  void SettleOver(Time now, CrewEffects& out);
  // When quick failures follow each other.
  void BackOff(Time now, CrewEffects& out);
  bool MayBegin(Time now) const;
  // In the order of members.
  static std::vector<std::string> AddressesOf(const std::vector<Node*>& nodes, int32_t size);
  void Begin(Time now, CrewEffects& out);
  void End(int32_t exit_code, const std::string& why, CrewEffects& out);
  void Tell(Node& node, CrewInstruction instruction);
  void Answer(Node& node, CrewInstruction instruction, CrewEffects& out);
  int32_t Count(State state) const;
  Time JoinDeadline() const;
  Time LastCallDeadline() const;
  std::string WhatIsAwaited() const;
  std::string WhoIsAwaited() const;
  static std::string Name(const Node& node);

  CrewOptions options_;
  std::map<NodeId, Node> nodes_;
  std::optional<CrewNode> agreed_;  // what the first said of the run
  int64_t coming_ = 0;
  int64_t attempt_ = 0;
  int32_t failures_ = 0;
  std::optional<Time> attempt_began_;  // absent: by a former life of the server
  int32_t quick_failures_ = 0;         // in a row
  int32_t same_failures_ = 0;          // of those, with this text
  std::string failure_text_;           // without numbers
  std::optional<Time> begins_at_;      // the next attempt waits until then
  absl::Duration waits_for_;           // as long
  bool on_ = false;                    // an attempt is: begun, and not all are over
  bool called_off_ = false;            // it is
  bool another_ = false;               // and another follows
  int32_t exit_code_ = 0;              // of the first failure
  std::string why_;                    // likewise
  bool ended_ = false;
  std::optional<Time> waits_since_;  // for nodes
  Time last_came_;
  int32_t to_return_ = 0;  // nodes of the attempt that a former life of the server began
  std::optional<Time> return_until_;
};

}  // namespace lockstep::coord

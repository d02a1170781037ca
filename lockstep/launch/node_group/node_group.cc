#include "lockstep/launch/node_group/node_group.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"

namespace lockstep::node_group {
namespace {

// Named before the rest is counted.
constexpr size_t kNamedMax = 8;

// That one node has not seen: that an attempt was called off, that the next has begun and was
// called off, or that the run has ended. It cannot be over with an attempt whose beginning it has
// not seen.
constexpr size_t kUnseenMax = 3;

std::string Plural(int64_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// Of `all`, the first ones by name: kNamedMax of them, or all.
std::string Listed(const std::vector<std::string>& names, size_t all) {
  LOCKSTEP_DCHECK(names.size() == std::min(all, kNamedMax));
  const size_t more = all - names.size();
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" +", more, " more") : "");
}

// Of all members, in their order. Empty: they are too many, or not all have one that the others
// reach.
std::vector<std::string> AddressesOf(const std::vector<const LauncherInfo*>& nodes, int32_t size) {
  std::vector<std::string> all;
  // The list is in each member's environment, which has limits of its own.
  if (size > kAddressedMembersMax) return all;
  size_t loopback = 0;
  for (const LauncherInfo* node : nodes) {
    const std::vector<std::string>& its = node->addresses;
    // All or none: a list with gaps would give members wrong addresses.
    if (its.size() != static_cast<size_t>(node->processes)) return {};
    all.insert(all.end(), its.begin(), its.end());
    if (its.front().starts_with("127.") || its.front().starts_with("[::1]")) ++loopback;
  }
  // A node on the server's own host may know itself by an address that the others cannot reach.
  if (loopback > 0 && loopback < nodes.size()) return {};
  return all;
}

size_t BytesOf(const std::vector<std::string>& texts) {
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += sizeof(std::string) + text.size();
  return bytes;
}

}  // namespace

Instruction NodeGroup::Unseen::ToInstruction() const {
  Instruction instruction = *as_all;
  instruction.number = number;
  instruction.rank = rank;
  instruction.first = first;
  return instruction;
}

std::string NodeGroup::Node::Name() const {
  return absl::StrCat(before    ? absl::StrCat("node ", *before, " on ")
                      : is.rank ? absl::StrCat("node ", *is.rank, " on ")
                                : std::string("the node on "),
                      is.host, " (lockstep run, pid ", is.pid, ")");
}

Effects NodeGroup::Handle(Time now, const Event& event) {
  Effects out;
  std::visit([&](const auto& e) { On(now, e, out); }, event);
  // After every event: any of them may complete an attempt, or what one waits for.
  Settle(now, out);
  LOCKSTEP_DCHECK(nodes_.empty() || agreed_.has_value());
  LOCKSTEP_DCHECK(!attempt_.on || !ended_);
  LOCKSTEP_DCHECK(attempt_.on || Count(State::kTakesPart) == 0);
  return out;
}

Time NodeGroup::NextDeadline() const {
  Time next = std::min(JoinDeadline(), LastCallDeadline());
  if (returning_) next = std::min(next, returning_->until);
  if (back_off_) next = std::min(next, back_off_->until);
  for (const auto& [id, node] : nodes_) {
    if (node.broke_at) next = std::min(next, *node.broke_at + node.grace);
    if (!node.call) continue;
    // What did not fit into the last turn is due at once.
    const bool now = !node.to_see.empty();
    next = std::min(next, now ? node.called_at : node.called_at + options_.tell_every);
  }
  return next;
}

int32_t NodeGroup::Count(State state) const {
  return static_cast<int32_t>(std::count_if(
      nodes_.begin(), nodes_.end(), [state](const auto& n) { return n.second.state == state; }));
}

std::string NodeGroup::Refusal(const Poll& event) const {
  const LauncherInfo& node = event.node;
  if (node.least < 1 || node.most < node.least || node.most > kNodesMax || node.processes < 1) {
    return absl::StrCat("a node group of ", node.least, " to ", node.most, " nodes with ",
                        node.processes, " processes each cannot be");
  }
  if (node.processes > kMembersMax) {
    return absl::StrCat("a node of ", node.processes, " processes is more than the ", kMembersMax,
                        " members that a job may have (members_max)");
  }
  if (event.attempt > 0 && event.nodes < 1) {
    return absl::StrCat("attempt ", event.attempt, " of the run cannot have ",
                        Plural(event.nodes, "node"));
  }
  if (node.rank && (*node.rank < 0 || *node.rank >= node.most)) {
    return absl::StrCat("node rank ", *node.rank, " is not among ", Plural(node.most, "node"));
  }
  // The first launcher sets what the others have to agree on.
  if (!agreed_) return "";
  // The name first: another run differs in other things as well.
  if (!node.run.empty() && !agreed_->run.empty() && node.run != agreed_->run) {
    return absl::StrCat("the job is run by '", agreed_->run, "', and this is '", node.run,
                        "' (--rdzv-id); end the other one first");
  }
  if (node.least != agreed_->least || node.most != agreed_->most ||
      node.max_restarts != agreed_->max_restarts) {
    return absl::StrCat("the launchers of a run must say the same: the first, on ", agreed_->host,
                        ", says --nnodes ", agreed_->least, ":", agreed_->most, " --max-restarts ",
                        agreed_->max_restarts, ", and this one --nnodes ", node.least, ":",
                        node.most, " --max-restarts ", node.max_restarts);
  }
  if (nodes_.size() >= static_cast<size_t>(kNodesMax)) {
    return absl::StrCat("there are ", kNodesMax, " nodes (node_group_nodes_max)");
  }
  // Nodes in readiness count too: they may all take part once. One whose link broke may come back
  // unasked, so it counts; the one that has this rank goes when its successor comes.
  int64_t members = node.processes;
  const Node* holder = nullptr;
  for (const auto& [id, other] : nodes_) {
    if (node.rank && other.is.rank == node.rank) {
      holder = &other;
    } else {
      members += other.is.processes;
    }
  }
  if (members > kMembersMax) {
    return absl::StrCat("with this node the run would have ", members, " processes, and a job may ",
                        "have ", kMembersMax, " members (members_max)");
  }
  // A node whose link broke has most likely died, and gives way to its successor.
  if (holder != nullptr && !holder->broke_at) {
    return absl::StrCat(holder->Name(), " has node rank ", *node.rank,
                        " already; each launcher needs one of its own (--node-rank)");
  }
  return "";
}

void NodeGroup::On(Time now, const Poll& event, Effects& out) {
  const auto found = nodes_.find(event.node.id);
  if (found == nodes_.end()) return Come(now, event, out);
  Node& node = found->second;
  // A poll proves that the launcher lives, whichever link it came over.
  node.broke_at.reset();
  node.is.addresses = event.node.addresses;  // another link may come from another address
  // The older call is answered, too; its link may be gone, which is no matter.
  if (node.call) Answer(node, {}, out);
  node.call = event.call;
  node.called_at = now;
  // What the launcher has seen is dropped; the rest is sent again.
  std::erase_if(node.to_see, [&](const Unseen& each) { return each.number <= event.seen; });
}

void NodeGroup::Come(Time now, const Poll& event, Effects& out) {
  LOCKSTEP_DCHECK(!nodes_.contains(event.node.id));
  // Who has not fetched the end of the run before learns it from what it says of itself, below.
  if (ended_) *this = NodeGroup(options_);
  // Before anything is entered: a refused node changes nothing.
  if (std::string refusal = Refusal(event); !refusal.empty()) {
    out.replies.push_back({.call = event.call, .instruction = {}, .refusal = std::move(refusal)});
    return;
  }
  if (event.over && nodes_.empty()) {
    // The run ended, and the answer that said so was lost.
    return out.replies.push_back(
        {.call = event.call,
         .instruction = {.kind = Instruction::Kind::kEnded,
                         .number = event.seen + 1,
                         .attempt = event.attempt,
                         .exit_code = *event.over,
                         .why = "the server knows of no such run any more"},
         .refusal = ""});
  }
  // Whoever had this rank has a successor.
  for (auto it = nodes_.begin(); it != nodes_.end(); ++it) {
    Node& holder = it->second;
    if (!event.node.rank || holder.is.rank != event.node.rank) continue;
    const bool may_run = holder.state == State::kTakesPart || holder.state == State::kStale;
    if (may_run && holder.broke_at && holder.grace > options_.node_grace) {
      // Its host may still run processes, of which nobody may be the second one.
      holder.is.rank.reset();
    } else {
      Lose(now, it->first, "was replaced", out);
    }
    break;
  }
  // Only now: a node that was refused sets no terms.
  if (!agreed_) {
    agreed_ = event.node;
    agreed_->addresses.clear();  // of this node alone
    attempt_.before = event.job_attempt;
  }
  // During an attempt no node is waited for.
  if (!waits_since_ && !attempt_.on) waits_since_ = now;
  last_came_ = now;
  Node& node = nodes_[event.node.id];
  node.is = event.node;
  node.order = ++coming_;
  node.call = event.call;
  node.called_at = now;
  // Numbers go on where the launcher's own count stands, so that none seems seen.
  node.told = event.seen;
  if (event.attempt > 0) return Return(now, event, node, out);
  Welcome(now, node, out);
}

void NodeGroup::Return(Time now, const Poll& event, Node& node, Effects& out) {
  node.before = event.rank;
  // A server that was started again learns of the attempt from the first node that returns.
  if (attempt_.number == 0) {
    // Attempts of this run are among those that the job has counted.
    attempt_ = {.number = event.attempt,
                .before = std::max<int64_t>(0, event.job_attempt - event.attempt),
                .on = true};
    waits_since_.reset();
    returning_ = {event.nodes, now + options_.return_grace};
  }
  out.sentences.push_back(
      absl::StrCat(node.Name(), " has come back, in attempt ", event.attempt, " of the run"));
  const bool its_own = attempt_.on && event.attempt == attempt_.number && returning_;
  const bool others_wait = event.over && !its_own;
  if (others_wait) return Welcome(now, node, out);  // ready for the next one: nothing of it runs
  if (its_own && !attempt_.called_off) {
    // Before NodeOver below, which counts only nodes that take part.
    node.state = State::kTakesPart;
    if (--returning_->nodes == 0) returning_.reset();
    // It may have ended while no server could be told.
    if (!event.over) return;
    return On(now,
              NodeOver{.node = node.is.id, .attempt = attempt_.number, .exit_code = *event.over},
              out);
  }
  // What it still runs has to stop before it may be ready.
  node.state = State::kStale;
  Tell(node, std::make_shared<Instruction>(Instruction{
                 .kind = Instruction::Kind::kCalledOff,
                 .attempt = event.attempt,
                 .another = true,
                 .why = "the others went on without this node, which could not be reached"}));
}

void NodeGroup::Welcome(Time now, Node& node, Effects& out) {
  out.sentences.push_back(absl::StrCat(node.Name(), " has come, with ", node.is.processes,
                                       node.is.processes == 1 ? " process" : " processes"));
  // A running attempt gives way only if the newcomer has a place in it.
  if (attempt_.on && !attempt_.called_off &&
      Count(State::kTakesPart) + Count(State::kOver) < agreed_->most) {
    CallOff(now, absl::StrCat(node.Name(), " has come"), 0, /*failure=*/false, out);
  }
}

void NodeGroup::On(Time, const CallLeft& event, Effects&) {
  for (auto& [id, node] : nodes_) {
    if (node.call == event.call) node.call.reset();
  }
}

void NodeGroup::On(Time now, const NodeBroke& event, Effects&) {
  if (const auto found = nodes_.find(event.node); found != nodes_.end()) {
    Node& node = found->second;
    // Not lost yet: a launcher dials again at once. One whose host is given up stays so.
    if (!node.broke_at) {
      node.broke_at = now;
      node.grace = event.grace.value_or(options_.node_grace);
    }
    // No answer can reach it; it asks again over the next link.
    node.call.reset();
  }
}

void NodeGroup::On(Time now, const HostLost& event, Effects& out) {
  const auto found = nodes_.find(event.node);
  if (found == nodes_.end()) return;
  Node& node = found->second;
  const bool takes_part = attempt_.on && node.state == State::kTakesPart;
  // Nothing of it runs, whatever has become of its host.
  if (!takes_part && node.state != State::kStale) {
    return Lose(now, event.node, absl::StrCat("is lost: ", event.text), out);
  }
  node.broke_at = now;
  node.grace = options_.lost_host_grace;
  if (!takes_part || attempt_.called_off) return;
  // The others may stop at once; the next attempt waits until this node has stopped as well.
  CallOff(now, absl::StrCat(node.Name(), " is lost: ", event.text), 1, /*failure=*/true, out);
}

void NodeGroup::On(Time now, const HostStopped& event, Effects& out) {
  const auto found = nodes_.find(event.node);
  // A launcher that was heard since tells by itself when its processes have ended.
  if (found == nodes_.end() || !found->second.broke_at) return;
  Lose(now, event.node, "has stopped, since it was cut off", out);
}

NodeGroup::Node* NodeGroup::TakingPart(NodeId id, int64_t attempt) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || attempt != attempt_.number || !attempt_.on) return nullptr;
  // A word about another attempt, or of a node that is over with it, is late.
  return found->second.state == State::kTakesPart ? &found->second : nullptr;
}

void NodeGroup::On(Time now, const NodeFailed& event, Effects& out) {
  Node* const node = TakingPart(event.node, event.attempt);
  // The first failure is the cause; what follows from it is not counted again.
  if (node == nullptr || attempt_.called_off) return;
  // Whose link broke before is the cause: the others fail by the connections that ended with it,
  // and do so sooner than it is given up.
  for (const auto& [id, other] : nodes_) {
    if (!other.broke_at || other.state != State::kTakesPart || id == event.node) continue;
    return CallOff(now,
                   absl::StrCat(other.Name(), " is gone: its connection broke; then ", node->Name(),
                                ": ", event.text),
                   event.exit_code, /*failure=*/true, out);
  }
  CallOff(now, absl::StrCat(node->Name(), ": ", event.text), event.exit_code, /*failure=*/true, out,
          event.failure.empty() ? event.text : event.failure);
}

void NodeGroup::On(Time now, const NodeOver& event, Effects& out) {
  if (const auto found = nodes_.find(event.node);
      found != nodes_.end() && found->second.state == State::kStale) {
    // Whatever it said of its old attempt, nothing of it runs any more.
    found->second.state = State::kReady;
    return Welcome(now, found->second, out);
  }
  Node* const node = TakingPart(event.node, event.attempt);
  if (node == nullptr) return;
  // Whatever follows, nothing of it runs any more.
  node->state = State::kOver;
  // It has seen that the attempt began, and all before that, whether its poll said so or not: what
  // waits for a node that never polls again does not grow with each attempt.
  const auto begun =
      std::find_if(node->to_see.begin(), node->to_see.end(), [&](const Unseen& each) {
        return each.as_all->kind == Instruction::Kind::kBegin &&
               each.as_all->attempt == event.attempt;
      });
  if (begun != node->to_see.end()) node->to_see.erase(node->to_see.begin(), begun + 1);
  // It was told to end, so how it ended says nothing.
  if (attempt_.called_off) return;
  if (event.again) {
    CallOff(now, absl::StrCat(node->Name(), " was preempted"), 0, /*failure=*/false, out);
  } else if (event.exit_code != 0 && attempt_.exit_code == 0) {
    attempt_.exit_code = event.exit_code;
    attempt_.why = !event.text.empty()
                       ? event.text
                       : absl::StrCat(node->Name(), " ended with exit code ", event.exit_code);
  }
}

void NodeGroup::On(Time now, const NodeLeaves& event, Effects& out) {
  if (nodes_.contains(event.node)) Lose(now, event.node, "was told to end", out);
}

void NodeGroup::On(Time now, const DeadlineReached&, Effects& out) {
  std::vector<NodeId> lost;
  // The same for all who wait: made once, since there may be thousands of them.
  std::string awaited;
  for (auto& [id, node] : nodes_) {
    // The rest stays due.
    if (out.replies.size() + lost.size() >= options_.answers_slice_max) break;
    if (node.broke_at && now >= *node.broke_at + node.grace) lost.push_back(id);
    if (node.call && node.to_see.empty() && now >= node.called_at + options_.tell_every) {
      const bool waits = node.state == State::kReady && !attempt_.on;
      if (waits && awaited.empty()) awaited = WhatIsAwaited();
      Answer(node, {.why = waits ? awaited : ""}, out);
    }
  }
  // After the loop: `Lose` erases nodes.
  for (const NodeId id : lost) Lose(now, id, "is gone: it died, or its host", out);
  if (back_off_ && now >= back_off_->until) back_off_.reset();
  if (returning_ && now >= returning_->until) {
    const int32_t missing = std::exchange(returning_, std::nullopt)->nodes;
    // A failure that ended the attempt before has its own reason.
    if (attempt_.on && !attempt_.called_off) {
      CallOff(now, absl::StrCat(Plural(missing, "node"), " did not come back to the server"), 1,
              /*failure=*/true, out);
    }
  }
  // Last: a loss or a call-off above may have moved it.
  if (now < JoinDeadline()) return;
  End(1,
      absl::StrCat("not enough nodes came within ", absl::FormatDuration(agreed_->join_timeout),
                   ": ", WhoIsAwaited()),
      out);
}

void NodeGroup::Lose(Time now, NodeId id, const std::string& how, Effects& out) {
  // Out of the table first, so that nothing below counts on it.
  const Node node = std::move(nodes_.at(id));
  nodes_.erase(id);
  if (ended_) return;  // it has been told that, or cannot be
  const std::string sentence = absl::StrCat(node.Name(), " ", how);
  out.sentences.push_back(sentence);
  if (node.call)
    out.replies.push_back({.call = *node.call, .instruction = {}, .refusal = sentence});
  if (attempt_.on && node.state == State::kTakesPart && !attempt_.called_off) {
    CallOff(now, sentence, 1, /*failure=*/true, out);
  }
  // The others wait for a successor from now on.
  if (!attempt_.on && !nodes_.empty() && !waits_since_) waits_since_ = now;
}

void NodeGroup::CallOff(Time now, std::string why, int32_t exit_code, bool failure, Effects& out,
                        const std::string& text) {
  LOCKSTEP_DCHECK(attempt_.on && !attempt_.called_off && agreed_.has_value());
  attempt_.called_off = true;
  // Only failures use up restarts; nodes that come or are preempted do not.
  attempt_.another = !failure || failures_ < agreed_->max_restarts;
  if (failure) {
    streak_.Count(attempt_.began && now - *attempt_.began < options_.quick_failure, text);
    if (attempt_.another && streak_.alike() >= options_.same_failures_max) {
      attempt_.another = false;
      why = absl::StrCat("giving up: the same failure ", streak_.alike(), " times, each within ",
                         absl::FormatDuration(options_.quick_failure), " of the start; ", why);
    }
    // After `another`, which counts the failures before this one.
    ++failures_;
    attempt_.exit_code = exit_code;
  }
  attempt_.why = why;
  out.sentences.push_back(absl::StrCat("attempt ", attempt_.number, " of the run is called off: ",
                                       why, attempt_.another ? "; another one follows" : ""));
  const auto told = std::make_shared<Instruction>(Instruction{.kind = Instruction::Kind::kCalledOff,
                                                              .attempt = attempt_.number,
                                                              .another = attempt_.another,
                                                              .exit_code = attempt_.exit_code,
                                                              .why = std::move(why)});
  for (auto& [id, node] : nodes_) {
    // Nodes in readiness have nothing to stop.
    if (node.state == State::kTakesPart || node.state == State::kOver) Tell(node, told);
  }
}

void NodeGroup::Settle(Time now, Effects& out) {
  // An attempt that ends may let the next begin in the same event.
  if (attempt_.on) SettleOver(now, out);
  if (MayBegin(now)) {
    const int64_t next = attempt_.before + attempt_.number + 1;
    if (next <= kAttemptMax) {
      Begin(now, out);
    } else {
      End(1,
          absl::StrCat("the job has had ", kAttemptMax,
                       " attempts, which is all it may have (attempt_max); use another job"),
          out);
    }
  }
  // Instructions last: what was told above goes out with this event.
  size_t bytes = 0;
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    // The rest goes out with the next event, which is due at once.
    if (out.replies.size() >= options_.answers_slice_max) break;
    if (bytes >= options_.answer_bytes_slice_max) break;
    Node& node = it->second;
    bool gone = false;
    if (node.call && !node.to_see.empty()) {
      // Once it has fetched the end, nothing more is to be said to it.
      const Unseen& next = node.to_see.front();
      gone = next.as_all->kind == Instruction::Kind::kEnded;
      bytes += next.as_all->why.size() + BytesOf(next.as_all->addresses);
      Answer(node, next.ToInstruction(), out);
    }
    it = gone ? nodes_.erase(it) : std::next(it);
  }
  // The next who comes begins another run.
  if (nodes_.empty()) *this = NodeGroup(options_);
}

void NodeGroup::SettleOver(Time now, Effects& out) {
  LOCKSTEP_DCHECK(attempt_.on && !ended_);
  // While processes run, or nodes that may still run some have not come back.
  const bool runs = std::any_of(nodes_.begin(), nodes_.end(),
                                [](const auto& n) { return n.second.state == State::kTakesPart; });
  if (runs || (returning_ && !attempt_.called_off)) return;
  attempt_.on = false;
  if (attempt_.called_off && attempt_.another) {
    for (auto& [id, node] : nodes_) {
      if (node.state == State::kOver) node.state = State::kReady;
    }
    // Nodes that were lost may be replaced until the join time is up.
    waits_since_ = now;
    // Without a failure there is nothing to be cautious about.
    if (attempt_.exit_code == 0) return;
    const absl::Duration wait =
        streak_.BackOff(agreed_->restart_backoff, agreed_->restart_backoff_max);
    if (wait <= absl::ZeroDuration()) return;
    back_off_ = {now + wait, wait};
    waits_since_ = back_off_->until;  // nobody is late before
    out.sentences.push_back(WhatIsAwaited());
    return;
  }
  if (!attempt_.called_off && attempt_.exit_code == 0) {
    attempt_.why = absl::StrCat("all ", Plural(Count(State::kOver), "node"), " succeeded");
  }
  End(attempt_.exit_code, attempt_.why, out);
}

bool NodeGroup::MayBegin(Time now) const {
  if (attempt_.on || ended_ || nodes_.empty()) return false;
  LOCKSTEP_DCHECK(agreed_.has_value());
  // At once, since each of thousands that come asks.
  if (nodes_.size() < static_cast<size_t>(agreed_->least)) return false;
  // Also with all nodes ready: the wait is for what made them fail.
  if (back_off_ && now < back_off_->until) return false;
  const bool broken = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& n) {
    return n.second.broke_at.has_value() || n.second.state == State::kStale;
  });
  if (broken) return false;  // lost, or back, or ready in a moment
  const int32_t ready = Count(State::kReady);
  // With all places taken there is no one left to wait for.
  if (ready >= agreed_->most) return true;
  if (ready < agreed_->least) return false;
  // Later attempts do not wait: nodes that are missing have died, or join the running one.
  return attempt_.number > 0 || now >= LastCallDeadline();
}

std::vector<NodeGroup::Node*> NodeGroup::Chosen() {
  std::vector<Node*> nodes;
  for (auto& [id, node] : nodes_) {
    if (node.state == State::kReady) nodes.push_back(&node);
  }
  const auto place = [](const Node* node) {
    // Who asked, then who was there, then who came.
    const int32_t rank = node->is.rank.value_or(node->before.value_or(0));
    const int kind = node->is.rank ? 0 : node->before ? 1 : 2;
    return std::make_tuple(kind, rank, node->order);
  };
  std::sort(nodes.begin(), nodes.end(),
            [&](const Node* a, const Node* b) { return place(a) < place(b); });
  // The rest waits in readiness.
  nodes.resize(std::min(nodes.size(), static_cast<size_t>(agreed_->most)));
  return nodes;
}

void NodeGroup::Begin(Time now, Effects& out) {
  const std::vector<Node*> nodes = Chosen();
  LOCKSTEP_DCHECK(!attempt_.on && nodes.size() >= static_cast<size_t>(agreed_->least));
  // All anew: outcome and reason were those of the last attempt.
  attempt_ = {.number = attempt_.number + 1, .before = attempt_.before, .began = now, .on = true};
  back_off_.reset();
  waits_since_.reset();
  // The size first: each instruction says how many members there are in all.
  int32_t size = 0;
  std::vector<const LauncherInfo*> launchers;
  for (const Node* node : nodes) {
    size += node->is.processes;
    launchers.push_back(&node->is);
  }
  const auto told =
      std::make_shared<Instruction>(Instruction{.kind = Instruction::Kind::kBegin,
                                                .attempt = attempt_.number,
                                                .nodes = static_cast<int32_t>(nodes.size()),
                                                .size = size,
                                                .failures = failures_,
                                                .addresses = AddressesOf(launchers, size)});
  attempt_.address_bytes = BytesOf(told->addresses);
  int32_t first = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = *nodes[i];
    node.state = State::kTakesPart;
    // So that the node gets this rank again, if it does not ask for another.
    node.before = static_cast<int32_t>(i);
    Tell(node, told, static_cast<int32_t>(i), first);
    first += node.is.processes;
  }
  LOCKSTEP_DCHECK(first == size);  // ranks leave no gap
  out.begins = size;
  out.sentences.push_back(
      absl::StrCat("attempt ", attempt_.number, " of the run begins with ",
                   Plural(nodes.size(), "node"), " and ", size, " members",
                   nodes.size() < nodes_.size()
                       ? absl::StrCat("; ", nodes_.size() - nodes.size(), " in readiness")
                       : ""));
}

void NodeGroup::End(int32_t exit_code, const std::string& why, Effects& out) {
  LOCKSTEP_DCHECK(!ended_);
  ended_ = true;
  // Before nodes are told: no later event may call it off.
  attempt_.on = false;
  waits_since_.reset();
  attempt_.why = why;
  out.sentences.push_back(absl::StrCat("the run has ended, exit code ", exit_code, ": ", why));
  const auto told = std::make_shared<Instruction>(Instruction{.kind = Instruction::Kind::kEnded,
                                                              .attempt = attempt_.number,
                                                              .exit_code = exit_code,
                                                              .why = why});
  for (auto& [id, node] : nodes_) Tell(node, told);
}

void NodeGroup::Tell(Node& node, std::shared_ptr<const Instruction> as_all, int32_t rank,
                     int32_t first) {
  LOCKSTEP_DCHECK(node.to_see.empty() || node.to_see.back().number == node.told);
  node.to_see.push_back({std::move(as_all), ++node.told, rank, first});
  LOCKSTEP_DCHECK(node.to_see.size() <= kUnseenMax);
}

void NodeGroup::Answer(Node& node, Instruction instruction, Effects& out) {
  LOCKSTEP_DCHECK(node.call.has_value());
  out.replies.push_back({.call = *node.call, .instruction = std::move(instruction), .refusal = ""});
  // A call is answered once.
  node.call.reset();
}

Time NodeGroup::JoinDeadline() const {
  LOCKSTEP_DCHECK(!waits_since_ || agreed_.has_value());
  return waits_since_ && !ended_ ? *waits_since_ + agreed_->join_timeout : Time::Infinite();
}

Time NodeGroup::LastCallDeadline() const {
  const bool counts = !attempt_.on && !ended_ && attempt_.number == 0 && agreed_ &&
                      nodes_.size() >= static_cast<size_t>(agreed_->least) &&
                      Count(State::kReady) >= agreed_->least;
  return counts ? last_came_ + agreed_->last_call : Time::Infinite();
}

std::string NodeGroup::WhatIsAwaited() const {
  // During a back-off no node is missing.
  if (!back_off_) return WhoIsAwaited();
  return absl::StrCat(streak_.quick(), " failures in a row, each within ",
                      absl::FormatDuration(options_.quick_failure),
                      " of the start: the next attempt waits for ",
                      absl::FormatDuration(back_off_->wait));
}

std::string NodeGroup::WhoIsAwaited() const {
  LOCKSTEP_DCHECK(agreed_.has_value());
  std::vector<std::string> there;
  // Only where each launcher has a rank can the missing ones be named.
  bool ranked = !nodes_.empty();
  std::vector<bool> here(static_cast<size_t>(agreed_->most));
  for (const auto& [id, node] : nodes_) {
    if (there.size() < kNamedMax) there.push_back(node.Name());
    ranked = ranked && node.is.rank;
    if (ranked) here[static_cast<size_t>(*node.is.rank)] = true;
  }
  std::vector<std::string> missing;
  size_t missing_count = 0;
  for (size_t rank = 0; ranked && rank < here.size(); ++rank) {
    if (here[rank] || ++missing_count > kNamedMax) continue;
    missing.push_back(absl::StrCat("node ", rank));
  }
  const std::string awaited =
      missing.empty()
          ? Plural(std::max<int64_t>(0, agreed_->least - static_cast<int64_t>(nodes_.size())),
                   "more node")
          : Listed(missing, missing_count);
  return absl::StrCat(awaited, " of ", agreed_->most,
                      " have not come; there: ", Listed(there, nodes_.size()));
}

}  // namespace lockstep::node_group

#include "lockstep/launch/node_group/crew.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/limits.h"

namespace lockstep::coord {
namespace {

// Named before the rest is counted.
constexpr size_t kNamedMax = 8;

std::string Plural(int64_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string Listed(const std::vector<std::string>& names) {
  if (names.size() <= kNamedMax) return absl::StrJoin(names, ", ");
  const std::vector<std::string> some(names.begin(), names.begin() + kNamedMax);
  return absl::StrCat(absl::StrJoin(some, ", "), " +", names.size() - kNamedMax, " more");
}

// Two failures that differ in pids, durations and ranks alone are the same.
std::string WithoutNumbers(const std::string& text) {
  std::string without;
  for (const char c : text) {
    if (c < '0' || c > '9') without.push_back(c);
  }
  return without;
}

}  // namespace

std::string Crew::Name(const Node& node) {
  return absl::StrCat(node.before    ? absl::StrCat("node ", *node.before, " on ")
                      : node.is.rank ? absl::StrCat("node ", *node.is.rank, " on ")
                                     : std::string("the node on "),
                      node.is.host, " (lockstep run, pid ", node.is.pid, ")");
}

CrewEffects Crew::Handle(Time now, const CrewEvent& event) {
  CrewEffects out;
  std::visit([&](const auto& e) { On(now, e, out); }, event);
  Settle(now, out);
  return out;
}

Time Crew::NextDeadline() const {
  Time next = std::min(JoinDeadline(), LastCallDeadline());
  if (return_until_) next = std::min(next, *return_until_);
  if (begins_at_) next = std::min(next, *begins_at_);
  for (const auto& [id, node] : nodes_) {
    if (node.broke_at) next = std::min(next, *node.broke_at + options_.node_grace);
    if (node.call) next = std::min(next, node.called_at + options_.tell_every);
  }
  return next;
}

int32_t Crew::Count(State state) const {
  return static_cast<int32_t>(std::count_if(
      nodes_.begin(), nodes_.end(), [state](const auto& n) { return n.second.state == state; }));
}

std::string Crew::Refusal(const CrewNode& node) const {
  if (node.least < 1 || node.most < node.least || node.most > kCrewNodesMax || node.processes < 1) {
    return absl::StrCat("a crew of ", node.least, " to ", node.most, " nodes with ", node.processes,
                        " processes each cannot be");
  }
  if (node.processes > kMembersMax) {
    return absl::StrCat("a node of ", node.processes, " processes is more than the ", kMembersMax,
                        " members that a job may have (members_max)");
  }
  if (node.rank && (*node.rank < 0 || *node.rank >= node.most)) {
    return absl::StrCat("node rank ", *node.rank, " is not among ", Plural(node.most, "node"));
  }
  if (!agreed_) return "";
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
  if (nodes_.size() >= static_cast<size_t>(kCrewNodesMax)) {
    return absl::StrCat("there are ", kCrewNodesMax, " nodes (crew_nodes_max)");
  }
  // Nodes in readiness count too: they may all take part once.
  int64_t members = node.processes;
  for (const auto& [id, other] : nodes_) {
    const bool replaced = node.rank && other.is.rank == node.rank;
    if (!replaced && !other.broke_at) members += other.is.processes;
  }
  if (members > kMembersMax) {
    return absl::StrCat("with this node the run would have ", members, " processes, and a job may ",
                        "have ", kMembersMax, " members (members_max)");
  }
  for (const auto& [id, other] : nodes_) {
    if (node.rank && other.is.rank == node.rank && !other.broke_at) {
      return absl::StrCat(Name(other), " has node rank ", *node.rank,
                          " already; each launcher needs one of its own (--node-rank)");
    }
  }
  return "";
}

void Crew::On(Time now, const CrewPoll& event, CrewEffects& out) {
  const auto found = nodes_.find(event.node.id);
  if (found == nodes_.end()) return Come(now, event, out);
  Node& node = found->second;
  node.broke_at.reset();
  node.is.addresses = event.node.addresses;  // another link may come from another address
  if (node.call) Answer(node, {}, out);
  node.call = event.call;
  node.called_at = now;
  while (!node.to_see.empty() && node.to_see.front().number <= event.seen) {
    node.to_see.pop_front();
  }
}

void Crew::Come(Time now, const CrewPoll& event, CrewEffects& out) {
  // Who has not fetched the end of the run before learns it from what it says of itself, below.
  if (ended_) *this = Crew(options_);
  if (std::string refusal = Refusal(event.node); !refusal.empty()) {
    out.replies.push_back({.call = event.call, .instruction = {}, .refusal = std::move(refusal)});
    return;
  }
  if (event.over && nodes_.empty()) {
    // The run ended, and the answer that said so was lost.
    return out.replies.push_back(
        {.call = event.call,
         .instruction = {.kind = CrewInstruction::Kind::kEnded,
                         .number = event.seen + 1,
                         .attempt = event.attempt,
                         .exit_code = *event.over,
                         .why = "the server knows of no such run any more"},
         .refusal = ""});
  }
  // Whoever had this rank has a successor.
  for (auto it = nodes_.begin(); it != nodes_.end(); ++it) {
    if (!event.node.rank || it->second.is.rank != event.node.rank) continue;
    Lose(now, it->first, "was replaced", out);
    break;
  }
  if (!agreed_) agreed_ = event.node;
  if (!waits_since_ && !on_) waits_since_ = now;
  last_came_ = now;
  Node& node = nodes_[event.node.id];
  node.is = event.node;
  node.order = ++coming_;
  node.call = event.call;
  node.called_at = now;
  node.told = event.seen;
  if (event.attempt > 0) return Return(now, event, node, out);
  Welcome(now, node, out);
}

void Crew::Return(Time now, const CrewPoll& event, Node& node, CrewEffects& out) {
  node.before = event.rank;
  if (attempt_ == 0) {
    attempt_ = event.attempt;
    on_ = true;
    waits_since_.reset();
    to_return_ = event.nodes;
    return_until_ = now + options_.return_grace;
  }
  out.sentences.push_back(
      absl::StrCat(Name(node), " has come back, in attempt ", event.attempt, " of the run"));
  const bool others_wait = event.over && (!on_ || event.attempt != attempt_ || !return_until_);
  if (others_wait) return Welcome(now, node, out);  // ready for the next one: nothing of it runs
  if (on_ && !called_off_ && event.attempt == attempt_ && return_until_) {
    node.state = State::kTakesPart;
    if (--to_return_ == 0) return_until_.reset();
    if (!event.over) return;
    return On(now, CrewNodeOver{.node = node.is.id, .attempt = attempt_, .exit_code = *event.over},
              out);
  }
  node.state = State::kStale;
  Tell(node, {.kind = CrewInstruction::Kind::kCalledOff,
              .attempt = event.attempt,
              .another = true,
              .why = "the others went on without this node, which could not be reached"});
}

void Crew::Welcome(Time now, Node& node, CrewEffects& out) {
  out.sentences.push_back(absl::StrCat(Name(node), " has come, with ", node.is.processes,
                                       node.is.processes == 1 ? " process" : " processes"));
  if (on_ && !called_off_ && Count(State::kTakesPart) + Count(State::kOver) < agreed_->most) {
    CallOff(now, absl::StrCat(Name(node), " has come"), 0, /*failure=*/false, out);
  }
}

void Crew::On(Time, const CrewCallLeft& event, CrewEffects&) {
  for (auto& [id, node] : nodes_) {
    if (node.call == event.call) node.call.reset();
  }
}

void Crew::On(Time now, const CrewNodeBroke& event, CrewEffects&) {
  if (const auto found = nodes_.find(event.node); found != nodes_.end()) {
    found->second.broke_at = now;
    found->second.call.reset();
  }
}

Crew::Node* Crew::TakingPart(NodeId id, int64_t attempt) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || attempt != attempt_ || !on_) return nullptr;
  return found->second.state == State::kTakesPart ? &found->second : nullptr;
}

void Crew::On(Time now, const CrewNodeFailed& event, CrewEffects& out) {
  Node* const node = TakingPart(event.node, event.attempt);
  if (node == nullptr || called_off_) return;
  // Whose link broke before is the cause: the others fail by the connections that ended with it,
  // and do so sooner than it is given up.
  for (const auto& [id, other] : nodes_) {
    if (!other.broke_at || other.state != State::kTakesPart || id == event.node) continue;
    return CallOff(now,
                   absl::StrCat(Name(other), " is gone: its connection broke; then ", Name(*node),
                                ": ", event.text),
                   event.exit_code, /*failure=*/true, out);
  }
  CallOff(now, absl::StrCat(Name(*node), ": ", event.text), event.exit_code, /*failure=*/true, out,
          event.failure.empty() ? event.text : event.failure);
}

void Crew::On(Time now, const CrewNodeOver& event, CrewEffects& out) {
  if (const auto found = nodes_.find(event.node);
      found != nodes_.end() && found->second.state == State::kStale) {
    found->second.state = State::kReady;
    return Welcome(now, found->second, out);
  }
  Node* const node = TakingPart(event.node, event.attempt);
  if (node == nullptr) return;
  node->state = State::kOver;
  if (called_off_) return;
  if (event.again) {
    CallOff(now, absl::StrCat(Name(*node), " was preempted"), 0, /*failure=*/false, out);
  } else if (event.exit_code != 0 && exit_code_ == 0) {
    exit_code_ = event.exit_code;
    why_ = !event.text.empty()
               ? event.text
               : absl::StrCat(Name(*node), " ended with exit code ", event.exit_code);
  }
}

void Crew::On(Time now, const CrewNodeLeaves& event, CrewEffects& out) {
  if (nodes_.contains(event.node)) Lose(now, event.node, "was told to end", out);
}

void Crew::On(Time now, const CrewDeadline&, CrewEffects& out) {
  std::vector<NodeId> lost;
  for (auto& [id, node] : nodes_) {
    if (node.broke_at && now >= *node.broke_at + options_.node_grace) lost.push_back(id);
    if (node.call && now >= node.called_at + options_.tell_every) {
      const bool waits = node.state == State::kReady && !on_;
      Answer(node, {.why = waits ? WhatIsAwaited() : ""}, out);
    }
  }
  for (const NodeId id : lost) Lose(now, id, "is gone: it died, or its host", out);
  if (begins_at_ && now >= *begins_at_) begins_at_.reset();
  if (return_until_ && now >= *return_until_) {
    return_until_.reset();
    if (on_ && !called_off_) {
      CallOff(now, absl::StrCat(Plural(to_return_, "node"), " did not come back to the server"), 1,
              /*failure=*/true, out);
    }
  }
  if (now < JoinDeadline()) return;
  End(1,
      absl::StrCat("not enough nodes came within ", absl::FormatDuration(agreed_->join_timeout),
                   ": ", WhoIsAwaited()),
      out);
}

void Crew::Lose(Time now, NodeId id, const std::string& how, CrewEffects& out) {
  const Node node = std::move(nodes_.at(id));
  nodes_.erase(id);
  if (ended_) return;  // it has been told that, or cannot be
  const std::string sentence = absl::StrCat(Name(node), " ", how);
  out.sentences.push_back(sentence);
  if (node.call)
    out.replies.push_back({.call = *node.call, .instruction = {}, .refusal = sentence});
  if (on_ && node.state == State::kTakesPart && !called_off_) {
    CallOff(now, sentence, 1, /*failure=*/true, out);
  }
  if (!on_ && !nodes_.empty() && !waits_since_) waits_since_ = now;
}

std::string Crew::TooManyAlike(Time now, const std::string& text) {
  const bool quick = attempt_began_ && now - *attempt_began_ < options_.quick_failure;
  quick_failures_ = quick ? quick_failures_ + 1 : 0;
  const std::string without = WithoutNumbers(text);
  const bool alike = quick && !text.empty() && without == failure_text_;
  same_failures_ = alike ? same_failures_ + 1 : quick && !text.empty() ? 1 : 0;
  failure_text_ = without;
  if (same_failures_ < options_.same_failures_max) return "";
  return absl::StrCat("giving up: the same failure ", same_failures_, " times, each within ",
                      absl::FormatDuration(options_.quick_failure), " of the start");
}

void Crew::CallOff(Time now, std::string why, int32_t exit_code, bool failure, CrewEffects& out,
                   const std::string& text) {
  called_off_ = true;
  another_ = !failure || failures_ < agreed_->max_restarts;
  if (failure) {
    const std::string too_many = TooManyAlike(now, text);
    if (another_ && !too_many.empty()) {
      another_ = false;
      why = absl::StrCat(too_many, "; ", why);
    }
    ++failures_;
    exit_code_ = exit_code;
  }
  why_ = why;
  out.sentences.push_back(absl::StrCat("attempt ", attempt_, " of the run is called off: ", why,
                                       another_ ? "; another one follows" : ""));
  for (auto& [id, node] : nodes_) {
    if (node.state != State::kTakesPart && node.state != State::kOver) continue;
    Tell(node, {.kind = CrewInstruction::Kind::kCalledOff,
                .attempt = attempt_,
                .another = another_,
                .exit_code = exit_code_,
                .why = why});
  }
}

void Crew::Settle(Time now, CrewEffects& out) {
  if (on_) SettleOver(now, out);
  if (MayBegin(now)) Begin(now, out);
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    Node& node = it->second;
    bool gone = false;
    if (node.call && !node.to_see.empty()) {
      gone = node.to_see.front().kind == CrewInstruction::Kind::kEnded;
      Answer(node, node.to_see.front(), out);
    }
    it = gone ? nodes_.erase(it) : std::next(it);
  }
  // The next who comes begins another run.
  if (nodes_.empty()) *this = Crew(options_);
}

void Crew::SettleOver(Time now, CrewEffects& out) {
  if (Count(State::kTakesPart) > 0 || (return_until_ && !called_off_)) return;
  on_ = false;
  if (called_off_ && another_) {
    for (auto& [id, node] : nodes_) {
      if (node.state == State::kOver) node.state = State::kReady;
    }
    waits_since_ = now;
    if (exit_code_ != 0) BackOff(now, out);
    return;
  }
  if (!called_off_ && exit_code_ == 0) {
    why_ = absl::StrCat("all ", Plural(Count(State::kOver), "node"), " succeeded");
  }
  End(exit_code_, why_, out);
}

void Crew::BackOff(Time now, CrewEffects& out) {
  if (quick_failures_ < 2 || agreed_->restart_backoff <= absl::ZeroDuration()) return;
  waits_for_ = agreed_->restart_backoff;
  for (int32_t i = 2; i < quick_failures_ && waits_for_ < agreed_->restart_backoff_max; ++i) {
    waits_for_ *= 2;
  }
  waits_for_ = std::min(waits_for_, agreed_->restart_backoff_max);
  begins_at_ = now + waits_for_;
  waits_since_ = begins_at_;  // nobody is late before
  out.sentences.push_back(WhatIsAwaited());
}

bool Crew::MayBegin(Time now) const {
  if (on_ || ended_ || nodes_.empty()) return false;
  if (begins_at_ && now < *begins_at_) return false;
  const bool broken = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& n) {
    return n.second.broke_at.has_value() || n.second.state == State::kStale;
  });
  if (broken) return false;  // lost, or back, or ready in a moment
  const int32_t ready = Count(State::kReady);
  if (ready >= agreed_->most) return true;
  if (ready < agreed_->least) return false;
  return attempt_ > 0 || now >= LastCallDeadline();
}

std::vector<std::string> Crew::AddressesOf(const std::vector<Node*>& nodes, int32_t size) {
  std::vector<std::string> all;
  if (size > kCrewAddressesMax) return all;
  size_t loopback = 0;
  for (const Node* node : nodes) {
    const std::vector<std::string>& its = node->is.addresses;
    if (its.size() != static_cast<size_t>(node->is.processes)) return {};
    all.insert(all.end(), its.begin(), its.end());
    if (its.front().starts_with("127.") || its.front().starts_with("[::1]")) ++loopback;
  }
  // A node on the server's own host may know itself by an address that the others cannot reach.
  if (loopback > 0 && loopback < nodes.size()) return {};
  return all;
}

void Crew::Begin(Time now, CrewEffects& out) {
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
  nodes.resize(std::min(nodes.size(), static_cast<size_t>(agreed_->most)));

  ++attempt_;
  attempt_began_ = now;
  begins_at_.reset();
  on_ = true;
  called_off_ = another_ = false;
  exit_code_ = 0;
  why_.clear();
  waits_since_.reset();
  int32_t size = 0;
  for (const Node* node : nodes) size += node->is.processes;
  const std::vector<std::string> addresses = AddressesOf(nodes, size);
  int32_t first = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Node& node = *nodes[i];
    node.state = State::kTakesPart;
    node.before = static_cast<int32_t>(i);
    Tell(node, {.kind = CrewInstruction::Kind::kBegin,
                .attempt = attempt_,
                .rank = static_cast<int32_t>(i),
                .nodes = static_cast<int32_t>(nodes.size()),
                .first = first,
                .size = size,
                .failures = failures_,
                .addresses = addresses});
    first += node.is.processes;
  }
  out.begins = size;
  out.sentences.push_back(
      absl::StrCat("attempt ", attempt_, " of the run begins with ", Plural(nodes.size(), "node"),
                   " and ", size, " members",
                   nodes.size() < nodes_.size()
                       ? absl::StrCat("; ", nodes_.size() - nodes.size(), " in readiness")
                       : ""));
}

void Crew::End(int32_t exit_code, const std::string& why, CrewEffects& out) {
  ended_ = true;
  on_ = false;
  waits_since_.reset();
  why_ = why;
  out.sentences.push_back(absl::StrCat("the run has ended, exit code ", exit_code, ": ", why));
  for (auto& [id, node] : nodes_) {
    Tell(node, {.kind = CrewInstruction::Kind::kEnded,
                .attempt = attempt_,
                .exit_code = exit_code,
                .why = why});
  }
}

void Crew::Tell(Node& node, CrewInstruction instruction) {
  instruction.number = ++node.told;
  node.to_see.push_back(std::move(instruction));
}

void Crew::Answer(Node& node, CrewInstruction instruction, CrewEffects& out) {
  out.replies.push_back({.call = *node.call, .instruction = std::move(instruction), .refusal = ""});
  node.call.reset();
}

Time Crew::JoinDeadline() const {
  return waits_since_ && !ended_ ? *waits_since_ + agreed_->join_timeout : Time::Infinite();
}

Time Crew::LastCallDeadline() const {
  const bool counts =
      !on_ && !ended_ && attempt_ == 0 && agreed_ && Count(State::kReady) >= agreed_->least;
  return counts ? last_came_ + agreed_->last_call : Time::Infinite();
}

std::string Crew::WhatIsAwaited() const {
  if (!begins_at_) return WhoIsAwaited();
  return absl::StrCat(quick_failures_, " failures in a row, each within ",
                      absl::FormatDuration(options_.quick_failure),
                      " of the start: the next attempt waits for ",
                      absl::FormatDuration(waits_for_));
}

std::string Crew::WhoIsAwaited() const {
  std::vector<std::string> there;
  std::vector<std::string> missing;
  for (const auto& [id, node] : nodes_) there.push_back(Name(node));
  bool ranked = !nodes_.empty();
  for (const auto& [id, node] : nodes_) ranked = ranked && node.is.rank;
  for (int32_t rank = 0; ranked && rank < agreed_->most; ++rank) {
    const bool here = std::any_of(nodes_.begin(), nodes_.end(),
                                  [rank](const auto& n) { return n.second.is.rank == rank; });
    if (!here) missing.push_back(absl::StrCat("node ", rank));
  }
  const std::string awaited =
      missing.empty()
          ? Plural(std::max<int64_t>(0, agreed_->least - static_cast<int64_t>(nodes_.size())),
                   "more node")
          : Listed(missing);
  return absl::StrCat(awaited, " of ", agreed_->most, " have not come; there: ", Listed(there));
}

}  // namespace lockstep::coord

#include "lockstep/server/node_group_host.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/node_group_messages.h"
#include "lockstep/wire/native/unknown_request.h"

namespace lockstep::server {
namespace {

using wire::native::KindOf;
using wire::native::NodeGroupStep;
using wire::native::NodeGroupWord;
using wire::native::PollNodeGroup;
using wire::native::WithReason;

// That one launcher may have been told: `instructions_max`.
constexpr int64_t kInstructionsMax = int64_t{1} << 53;

// The longest that a launcher may wait for the others.
constexpr absl::Duration kJoinTimeoutMax = absl::Hours(24 * 365);

// What a node group costs beside its nodes, and a node beside its texts.
constexpr size_t kGroupBytes = 2048;
constexpr size_t kNodeBytes = 1024;
constexpr size_t kTextBytes = 32;
// What a group keeps of the longest failure: why its last two attempts were called off, why the run
// has ended, what the attempt keeps of it, and what the next failure is compared with.
constexpr size_t kTextsOfGroup = 5;

absl::Duration Bounded(int64_t microseconds) {
  return std::clamp(absl::Microseconds(microseconds), absl::ZeroDuration(), kJoinTimeoutMax);
}

node_group::Poll ToPoll(const PollNodeGroup& message, CallId call, int64_t job_attempt) {
  return {.call = call,
          .node = {.id = node_group::NodeId(message.node),
                   .host = message.host,
                   .pid = message.pid,
                   .processes = message.processes,
                   .rank = message.node_rank,
                   .addresses = message.addresses,
                   .run = message.run,
                   .least = message.nodes_least,
                   .most = message.nodes_most,
                   .max_restarts = message.max_restarts,
                   .join_timeout = Bounded(message.join_timeout_us),
                   .last_call = Bounded(message.last_call_us),
                   .restart_backoff = Bounded(message.restart_backoff_us),
                   .restart_backoff_max = Bounded(message.restart_backoff_max_us)},
          .seen = message.seen,
          .attempt = message.attempt,
          .rank = message.attempt_rank,
          .nodes = message.attempt_nodes,
          .over = message.over,
          .job_attempt = job_attempt};
}

NodeGroupStep ToStep(node_group::Instruction::Kind kind) {
  using Kind = node_group::Instruction::Kind;
  switch (kind) {
    case Kind::kWait:
      return NodeGroupStep::kWait;
    case Kind::kBegin:
      return NodeGroupStep::kBegin;
    case Kind::kCalledOff:
      return NodeGroupStep::kCalledOff;
    case Kind::kEnded:
      break;
  }
  return NodeGroupStep::kEnded;
}

wire::native::PollNodeGroupReply ToReply(node_group::Instruction told, int64_t before) {
  return {.step = ToStep(told.kind),
          .number = told.number,
          .attempt = told.attempt,
          .node_rank = told.rank,
          .nodes = told.nodes,
          .first_member = told.first,
          .size = told.size,
          .failures = told.failures,
          .another = told.another,
          .exit_code = told.exit_code,
          .why = std::move(told.why),
          .job_attempt = before + told.attempt,
          .addresses = std::move(told.addresses)};
}

}  // namespace

void NodeGroupHost::Take(const link::Request& request, link::Responder responder) {
  if (stopped_) return responder.Fail(absl::UnavailableError("the server is shutting down"));
  switch (request.kind) {
    case KindOf<PollNodeGroup>::kKind:
      return Poll(request, std::move(responder));
    case KindOf<wire::native::TellNodeGroup>::kKind:
      return TellGroup(request, std::move(responder));
    default:
      return responder.Fail(wire::native::UnknownRequest(request.kind));
  }
}

NodeGroupHost::One* NodeGroupHost::Find(const std::string& job) {
  const auto found = node_groups_.find(job);
  return found != node_groups_.end() ? found->second.get() : nullptr;
}

void NodeGroupHost::Poll(const link::Request& request, link::Responder responder) {
  const auto message = wire::native::Decode<PollNodeGroup>(request.payload);
  if (!message.ok()) return responder.Fail(WithReason(message.status(), "invalid_argument"));
  if (message->attempt < 0 || message->attempt > kAttemptMax || message->seen < 0 ||
      message->seen > kInstructionsMax) {
    return responder.Fail(WithReason(
        absl::InvalidArgumentError(absl::StrFormat(
            "attempt %d of the run, of %d at most (attempt_max), and %d instructions seen",
            message->attempt, kAttemptMax, message->seen)),
        "invalid_argument"));
  }
  One* one = Find(message->job);
  if (absl::Status status = CheckRoom(one, *message); !status.ok()) return responder.Fail(status);
  const auto job_attempt = JobAttempt(one, *message);
  if (!job_attempt.ok()) return responder.Fail(job_attempt.status());
  if (one == nullptr && node_groups_.size() >= kNodeGroupsMax) FreeEmpty();
  if (one == nullptr && node_groups_.size() >= kNodeGroupsMax) {
    return responder.Fail(
        WithReason(absl::ResourceExhaustedError(absl::StrCat("there are ", kNodeGroupsMax,
                                                             " node groups (node_groups_max)")),
                   "limit_exceeded"));
  }
  if (one == nullptr) {
    auto made = std::make_unique<One>(loop_, memory_, message->job);
    one = made.get();
    node_groups_.emplace(message->job, std::move(made));
  }
  Speaker& speaker = speakers_[request.link];
  const node_group::NodeId node(message->node);
  const bool another = speaker.one != nullptr && (speaker.one != one || speaker.node != node);
  if (another) {
    FreeIfEmpty(*one);
    return responder.Fail(
        WithReason(absl::InvalidArgumentError("this link already belongs to another launcher"),
                   "invalid_argument"));
  }
  if (speaker.one == nullptr) ++one->speakers[node];
  speaker.one = one;
  speaker.node = node;
  SetCost(*one, node, CostOf(*message));
  const CallId call(++last_call_);
  speaker.calls[request.id] = call;
  calls_.emplace(call, Call{one, std::move(responder)});
  Handle(*one, ToPoll(*message, call, *job_attempt));
}

absl::StatusOr<int64_t> NodeGroupHost::JobAttempt(const One* one,
                                                  const PollNodeGroup& message) const {
  const bool begins = one == nullptr || one->group.progress().over;
  const int64_t known = one != nullptr ? one->group.progress().attempt : 0;
  if (!begins && message.attempt <= known) return 0;
  const auto last = callbacks_.last_attempt(message.job);
  if (!last.ok()) return last;
  // Who has not fetched the end of the run before tells of that run's attempts.
  const int64_t current = begins ? *last : std::max(*last, known);
  if (message.attempt <= known || IsAttemptWithin(message.attempt, current)) return last;
  return WithReason(absl::InvalidArgumentError(absl::StrFormat(
                        "attempt %d of the run of job '%s' is more than %d ahead of the job's own, "
                        "%d (attempts_ahead_max)",
                        message.attempt, message.job, kAttemptsAheadMax, current)),
                    "invalid_argument");
}

size_t NodeGroupHost::CostOf(const PollNodeGroup& message) {
  size_t cost = kNodeBytes + message.host.size() + message.run.size();
  for (const std::string& each : message.addresses) cost += kTextBytes + each.size();
  return cost;
}

absl::Status NodeGroupHost::CheckRoom(const One* one, const PollNodeGroup& message) const {
  size_t known = 0;
  if (one != nullptr) {
    const auto node = one->costs.find(node_group::NodeId(message.node));
    if (node != one->costs.end()) known = node->second;
  }
  const size_t bytes = CostOf(message);
  if (bytes <= known || memory_.HasRoom(bytes - known)) return absl::OkStatus();
  // Who takes part in an attempt and comes back is no new work.
  if (message.attempt > 0 && memory_.HasReserve()) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(memory_.Refusal(bytes - known)), "memory_max");
}

void NodeGroupHost::SetCost(One& one, node_group::NodeId node, size_t cost) {
  size_t& is = one.costs[node];
  one.sum += cost - is;
  is = cost;
}

void NodeGroupHost::CountMemory(One& one) {
  // What all nodes are told is kept once, until each has seen it.
  one.share.Set(kGroupBytes + one.sum + one.group.progress().address_bytes +
                kTextsOfGroup * one.text_bytes);
}

void NodeGroupHost::TellGroup(const link::Request& request, link::Responder responder) {
  const auto message = wire::native::Decode<wire::native::TellNodeGroup>(request.payload);
  if (!message.ok()) return responder.Fail(WithReason(message.status(), "invalid_argument"));
  const node_group::NodeId node(message->node);
  // Of a group that is not known nothing can be changed: its launchers come back by themselves.
  if (One* const one = Find(message->job); one != nullptr) {
    one->text_bytes = std::max({one->text_bytes, message->text.size(), message->failure.size()});
    if (message->word == NodeGroupWord::kFailed) {
      Handle(*one, node_group::NodeFailed{.node = node,
                                          .attempt = message->attempt,
                                          .text = message->text,
                                          .exit_code = message->exit_code,
                                          .failure = message->failure});
    } else if (message->word == NodeGroupWord::kOver) {
      Handle(*one, node_group::NodeOver{.node = node,
                                        .attempt = message->attempt,
                                        .exit_code = message->exit_code,
                                        .again = message->again,
                                        .text = message->text});
    } else if (message->word == NodeGroupWord::kLeaves) {
      Handle(*one, node_group::NodeLeaves{node});
    }
  }
  responder.Answer(wire::native::Encode(wire::native::TellNodeGroupReply{}));
}

void NodeGroupHost::Handle(One& one, const node_group::Event& event) {
  node_group::Effects effects = one.group.Handle(runtime::MonotonicNow(), event);
  one.timer.Arm(one.group.NextDeadline(),
                [this, &one] { Handle(one, node_group::DeadlineReached{}); });
  CountMemory(one);
  if (effects.begins) callbacks_.began(one.job, {.size = *effects.begins});
  for (node_group::Reply& reply : effects.replies) Answer(std::move(reply));
  for (const std::string& sentence : effects.sentences) callbacks_.tell(one.job, sentence);
  FreeIfEmpty(one);
}

void NodeGroupHost::Answer(node_group::Reply reply) {
  auto node = calls_.extract(reply.call);
  if (node.empty()) return;
  link::Responder& responder = node.mapped().responder;
  if (const auto speaker = speakers_.find(responder.link()); speaker != speakers_.end()) {
    speaker->second.calls.erase(responder.id());
  }
  if (!reply.refusal.empty()) {
    return responder.Fail(
        WithReason(absl::FailedPreconditionError(reply.refusal), "not_of_the_crew"));
  }
  responder.Answer(wire::native::Encode(
      ToReply(std::move(reply.instruction), node.mapped().one->group.progress().attempts_before)));
}

void NodeGroupHost::Cancelled(link::LinkId link, uint64_t id) {
  const auto speaker = speakers_.find(link);
  if (speaker == speakers_.end()) return;
  const auto found = speaker->second.calls.find(id);
  if (found == speaker->second.calls.end()) return;
  const CallId call = found->second;
  speaker->second.calls.erase(found);
  auto node = calls_.extract(call);
  if (node.empty()) return;
  node.mapped().responder.Fail(
      WithReason(absl::CancelledError("cancelled by the caller"), "cancelled"));
  Handle(*node.mapped().one, node_group::CallLeft{call});
}

void NodeGroupHost::Ended(link::LinkId link, bool by_peer) {
  auto node = speakers_.extract(link);
  if (node.empty() || node.mapped().one == nullptr) return;
  const Speaker& speaker = node.mapped();
  for (const auto& [id, call] : speaker.calls) {
    calls_.erase(call);
    Handle(*speaker.one, node_group::CallLeft{call});
  }
  One& one = *speaker.one;
  const auto links = one.speakers.find(speaker.node);
  // It may have come back over another link already.
  LOCKSTEP_DCHECK(links != one.speakers.end() && links->second > 0);
  if (--links->second > 0) return;
  one.speakers.erase(links);
  SetCost(one, speaker.node, 0);
  one.costs.erase(speaker.node);
  const auto grace = by_peer ? std::nullopt : callbacks_.grace(one.job, speaker.node);
  Handle(one, node_group::NodeBroke{.node = speaker.node, .grace = grace});
}

void NodeGroupHost::HostLost(const std::string& job, node_group::NodeId node, std::string text) {
  if (One* const one = Find(job)) Handle(*one, node_group::HostLost{node, std::move(text)});
}

void NodeGroupHost::HostStopped(const std::string& job, node_group::NodeId node) {
  if (One* const one = Find(job)) Handle(*one, node_group::HostStopped{node});
}

void NodeGroupHost::FreeIfEmpty(const One& one) {
  if (!one.group.empty() || !one.speakers.empty() || std::exchange(freeing_, true)) return;
  // From the loop: somebody may be in the midst of it.
  loop_.Post([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) FreeEmpty();
  });
}

void NodeGroupHost::FreeEmpty() {
  freeing_ = false;
  std::erase_if(node_groups_, [](const auto& entry) {
    return entry.second->group.empty() && entry.second->speakers.empty();
  });
}

void NodeGroupHost::JobDeleted(const std::string& job, const absl::Status& why) {
  const auto found = node_groups_.find(job);
  if (found == node_groups_.end()) return;
  const std::unique_ptr<One> gone = std::move(found->second);
  node_groups_.erase(found);
  for (auto& [link, speaker] : speakers_) {
    if (speaker.one != gone.get()) continue;
    for (const auto& [id, call] : std::exchange(speaker.calls, {})) {
      if (auto node = calls_.extract(call); !node.empty()) node.mapped().responder.Fail(why);
    }
    speaker.one = nullptr;
  }
}

void NodeGroupHost::Stop() {
  stopped_ = true;
  for (auto& [call, waits] : calls_) {
    waits.responder.Fail(absl::UnavailableError("the server is shutting down"));
  }
  calls_.clear();
  for (auto& [job, one] : node_groups_) one->timer.Cancel();
}

}  // namespace lockstep::server

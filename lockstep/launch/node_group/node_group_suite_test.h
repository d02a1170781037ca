// A node group and its nodes, for tests.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "lockstep/launch/node_group/node_group.h"

namespace lockstep::node_group {

// A node group and its nodes, each of which polls again whenever it was answered.
class NodeGroupTest : public testing::Test {
 protected:
  using Kind = Instruction::Kind;

  struct Seen {
    LauncherInfo is;
    std::vector<Instruction> told;
    std::vector<std::string> waits;
    std::string refusal;
    int64_t seen = 0;
    CallId call;
    int64_t attempt = 0;
    int32_t rank = 0;
    int32_t nodes = 0;
    std::optional<int32_t> over;
    int64_t job_attempt = 0;
    bool polls = true;

    const Instruction& last() const { return told.back(); }
  };

  NodeGroupTest() {
    template_.least = 2;
    template_.most = 2;
    template_.processes = 2;
  }

  void Come(uint64_t id, std::optional<int32_t> rank = std::nullopt) {
    Seen& node = nodes_[id];
    node = Seen();
    node.is = template_;
    node.is.id = NodeId(id);
    node.is.host = absl::StrCat("host-", id);
    node.is.pid = static_cast<int64_t>(100 + id);
    node.is.rank = rank;
    Poll(id);
  }
  void Poll(uint64_t id) {
    Seen& node = nodes_[id];
    node.call = CallId(++calls_);
    Do(node_group::Poll{.call = node.call,
                        .node = node.is,
                        .seen = node.seen,
                        .attempt = node.attempt,
                        .rank = node.rank,
                        .nodes = node.nodes,
                        .over = node.over,
                        .job_attempt = node.job_attempt});
  }
  void Do(const Event& event) {
    const auto before = std::chrono::steady_clock::now();
    const Effects effects = group_.Handle(now_, event);
    longest_ = std::max(longest_, absl::FromChrono(std::chrono::steady_clock::now() - before));
    most_replies_ = std::max(most_replies_, effects.replies.size());
    for (const std::string& sentence : effects.sentences) said_.push_back(sentence);
    for (const Reply& reply : effects.replies) Take(reply);
  }
  void Take(const Reply& reply) {
    for (auto& [id, node] : nodes_) {
      if (node.call != reply.call) continue;
      node.call = CallId();
      node.refusal = reply.refusal;
      if (!reply.refusal.empty()) return;
      const Instruction& told = reply.instruction;
      if (told.kind == Kind::kWait) {
        if (!told.why.empty()) node.waits.push_back(told.why);
      } else {
        EXPECT_GT(told.number, node.seen);
        node.seen = told.number;
        node.told.push_back(told);
      }
      if (told.kind == Kind::kBegin) {
        node.attempt = told.attempt;
        node.rank = told.rank;
        node.nodes = told.nodes;
        node.over.reset();
      }
      if (told.kind != Kind::kEnded && node.polls) Poll(id);
      return;
    }
  }
  void Fail(uint64_t id, const std::string& text = "task/1 was killed by SIGKILL") {
    Do(NodeFailed{NodeId(id), nodes_[id].attempt, text, 137});
  }
  // Both fail as one process did, and have ended.
  void FailAll(const std::string& text) {
    Fail(2, text);
    Over(1, 143);
    Over(2, 137);
  }
  void Over(uint64_t id, int32_t exit_code = 0, bool again = false) {
    nodes_[id].over = exit_code;
    Do(NodeOver{NodeId(id), nodes_[id].attempt, exit_code, again});
  }
  void Die(uint64_t id) {
    nodes_[id].call = CallId();
    Do(NodeBroke{NodeId(id)});
  }
  // Lets the deadlines of so long pass, one by one.
  void Pass(absl::Duration duration) {
    const Time until = now_ + duration;
    while (group_.NextDeadline() <= until) {
      now_ = std::max(now_, group_.NextDeadline());
      Do(DeadlineReached{});
    }
    now_ = until;
  }
  int64_t Begun(uint64_t id) {
    int64_t count = 0;
    for (const Instruction& told : nodes_[id].told) count += told.kind == Kind::kBegin;
    return count;
  }

  LauncherInfo template_;
  NodeGroup group_{Options{}};
  Time now_ = Time::FromNanoseconds(1'000'000'000);
  uint64_t calls_ = 0;
  std::map<uint64_t, Seen> nodes_;
  std::vector<std::string> said_;
  // Of one event.
  absl::Duration longest_;
  size_t most_replies_ = 0;
};

}  // namespace lockstep::node_group

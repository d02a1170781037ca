#include "lockstep/server/node_group_host.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/server/server.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/node_group_messages.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using wire::native::NodeGroupStep;
using wire::native::NodeGroupWord;
using wire::native::PollNodeGroup;
using wire::native::PollNodeGroupReply;
using wire::native::TellNodeGroup;

constexpr absl::Duration kPatience = absl::Seconds(60);

// A launcher by hand: polls over a link of its own.
class Node {
 public:
  Node(const std::string& address, uint64_t id)
      : link_(*link::Client::Connect(address, kPatience, {})) {
    poll_ = {.job = "digits",
             .node = id,
             .host = "host",
             .pid = static_cast<int64_t>(id),
             .processes = 2,
             .nodes_least = 2,
             .nodes_most = 2,
             .max_restarts = 1,
             .join_timeout_us = absl::ToInt64Microseconds(kPatience)};
  }

  // The next that is no kWait.
  absl::StatusOr<PollNodeGroupReply> Next() {
    for (;;) {
      auto reply = link_->Call(poll_, kPatience);
      if (!reply.ok()) return reply;
      if (reply->step == NodeGroupStep::kWait) continue;
      poll_.seen = reply->number;
      if (reply->step == NodeGroupStep::kBegin) poll_.attempt = reply->attempt;
      return reply;
    }
  }
  void Say(NodeGroupWord word, int32_t exit_code = 0) {
    EXPECT_TRUE(link_
                    ->Call(TellNodeGroup{.job = "digits",
                                         .node = poll_.node,
                                         .attempt = poll_.attempt,
                                         .word = word,
                                         .text = "task/1 died",
                                         .exit_code = exit_code},
                           kPatience)
                    .ok());
  }
  PollNodeGroup& poll() { return poll_; }

 private:
  std::unique_ptr<link::Client> link_;
  PollNodeGroup poll_;
};

class NodeGroupHostTest : public ::testing::Test {
 protected:
  NodeGroupHostTest() {
    ServerOptions options;
    options.listen = {.host = "127.0.0.1", .port = 0};
    options.jobs = {{.name = "digits", .size = 4}};
    auto server = Server::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<Node> Come(uint64_t id) {
    return std::make_unique<Node>(server_->listen_address(), id);
  }

  std::unique_ptr<Server> server_;
};

TEST_F(NodeGroupHostTest, TwoLaunchersBeginTogetherAndAFailureReachesTheOther) {
  auto first = Come(1);
  auto second = Come(2);
  absl::StatusOr<PollNodeGroupReply> told;
  std::thread waits([&] { told = first->Next(); });
  const auto begun = second->Next();
  waits.join();
  ASSERT_TRUE(told.ok() && begun.ok()) << told.status() << begun.status();
  EXPECT_EQ(told->step, NodeGroupStep::kBegin);
  EXPECT_EQ(told->size, 4);
  EXPECT_EQ(told->job_attempt, 1);
  EXPECT_EQ(told->first_member + begun->first_member, 2);

  std::thread watches([&] { told = first->Next(); });
  second->Say(NodeGroupWord::kFailed, 137);
  watches.join();
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->step, NodeGroupStep::kCalledOff);
  EXPECT_TRUE(told->another);
  EXPECT_THAT(told->why, HasSubstr("task/1 died"));
  first->Say(NodeGroupWord::kOver);
  second->Say(NodeGroupWord::kOver, 137);
  EXPECT_EQ(second->Next()->step, NodeGroupStep::kCalledOff);
  EXPECT_EQ(second->Next()->job_attempt, 2);
}

// The host alone, and launchers whose links are numbers.
class NodeGroupHostAloneTest : public ::testing::Test {
 protected:
  struct Answers final : link::Responder::Sink {
    void Answer(link::LinkId, link::RequestKind, uint64_t, link::Payload payload) override {
      last = std::move(payload);
    }
    std::optional<link::Payload> last;
  };

  NodeGroupHostAloneTest() {
    poll_ = {.job = "digits",
             .host = std::string(200, 'h'),
             .pid = 1,
             .processes = 2,
             .nodes_least = 2,
             .nodes_most = 2,
             .join_timeout_us = absl::ToInt64Microseconds(kPatience),
             .addresses = {std::string(100, 'a'), std::string(100, 'b')}};
  }
  template <typename Message>
  void Send(uint64_t node, Message message) {
    message.job = "digits";
    message.node = node;
    constexpr auto kKind = wire::native::KindOf<Message>::kKind;
    answers_->last.reset();
    ++last_;
    groups_.Take({.link = link::LinkId(node),
                  .id = last_,
                  .kind = kKind,
                  .payload = wire::native::Encode(message)},
                 link::Responder(answers_, link::LinkId(node), kKind, last_));
  }
  void Poll(uint64_t node) { Send(node, poll_); }
  absl::Status Refusal() const {
    if (!answers_->last || !answers_->last->failed) return absl::OkStatus();
    const auto error = wire::native::Decode<wire::native::ErrorReply>(answers_->last->bytes);
    return error.ok() ? wire::native::ToStatus(*error) : error.status();
  }

  runtime::Loop loop_;
  runtime::MemoryAccount memory_{uint64_t{8} << 20};
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  int64_t last_attempt_ = 0;
  NodeGroupHost groups_{
      loop_,
      memory_,
      {.last_attempt = [this](const std::string&) { return last_attempt_; },
       .began = [](const std::string&, const coord::RunBegan&) {},
       .tell = [](const std::string&, const std::string&) {},
       .grace = [](const std::string&, node_group::NodeId) { return std::nullopt; }}};
  uint64_t last_ = 0;
  PollNodeGroup poll_;
};

TEST_F(NodeGroupHostAloneTest, Finding08_NodeGroupsAreInTheAccountAndRefusedByName) {
  Poll(1);
  EXPECT_TRUE(Refusal().ok()) << Refusal();
  EXPECT_GT(memory_.held(), 400u);
  {
    runtime::MemoryShare others(&memory_, "others", "keys");
    others.Set(memory_.limit() / 100 * 95);
    Poll(2);
    EXPECT_EQ(wire::native::ReasonOf(Refusal()), "memory_max");
    // Who is in it already costs nothing more.
    Poll(1);
    EXPECT_TRUE(Refusal().ok()) << Refusal();
  }
  groups_.JobDeleted("digits", absl::NotFoundError("deleted"));
  EXPECT_EQ(memory_.held(), 0u);
}

TEST_F(NodeGroupHostAloneTest, Finding19_WhatNodesAreToldIsInTheAccountOnce) {
  constexpr size_t kBytes = size_t{100} * 1024;
  poll_.processes = 512;
  poll_.max_restarts = 1000;
  poll_.addresses.assign(512, std::string(100, 'a'));
  Poll(1);
  const uint64_t one = memory_.held();
  EXPECT_GT(one, kBytes / 2);
  Poll(2);
  const uint64_t both = memory_.held();
  EXPECT_GT(both, 2 * kBytes) << "what each says, and the list that both are told";
  EXPECT_LT(both, 2 * one + 2 * kBytes);
  // Nobody asks what became of these attempts.
  for (int64_t attempt = 1; attempt <= 50; ++attempt) {
    const std::string text(static_cast<size_t>(1000 + attempt % 5), 'x');
    TellNodeGroup word = {.attempt = attempt, .word = NodeGroupWord::kFailed, .text = text};
    Send(1, word);
    word.word = NodeGroupWord::kOver;
    Send(1, word);
    Send(2, word);
  }
  EXPECT_GT(memory_.held(), both + 1000);
  EXPECT_LT(memory_.held(), both + 10'000);
}

TEST_F(NodeGroupHostAloneTest, Finding19_NoLauncherIsFarAheadOfTheOthers) {
  last_attempt_ = 3;
  Poll(1);
  poll_.attempt = 5000;
  poll_.attempt_nodes = 1;
  Poll(2);
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Refusal().message()), HasSubstr("attempts_ahead_max"));
  // Nor does one go ahead that is in it.
  Poll(1);
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kInvalidArgument);
  poll_.attempt = 1003;
  Poll(2);
  EXPECT_TRUE(Refusal().ok()) << Refusal();
}

TEST_F(NodeGroupHostTest, ALauncherWhoseLinkEndsIsMissed) {
  auto first = Come(1);
  auto second = Come(2);
  std::thread waits([&] { EXPECT_TRUE(first->Next().ok()); });
  EXPECT_TRUE(second->Next().ok());
  waits.join();
  second.reset();
  const auto told = first->Next();
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->step, NodeGroupStep::kCalledOff);
  EXPECT_THAT(told->why, HasSubstr("(lockstep run, pid 2) is gone"));
}

TEST_F(NodeGroupHostTest, AJobKnowsWhomARunThatShrankLeavesOut) {
  using wire::native::ProcessState;
  auto first = Come(1);
  auto second = Come(2);
  for (auto* node : {first.get(), second.get()}) {
    node->poll().nodes_least = 1;
    node->poll().last_call_us = absl::ToInt64Microseconds(kPatience);
  }
  std::thread waits([&] { EXPECT_TRUE(first->Next().ok()); });
  EXPECT_TRUE(second->Next().ok());
  waits.join();
  const auto process_of = [this](size_t member) {
    return server_->CurrentStatus()->jobs.front().members.at(member).process;
  };
  EXPECT_EQ(process_of(3), ProcessState::kUnspecified);
  second.reset();
  EXPECT_EQ(first->Next()->step, NodeGroupStep::kCalledOff);
  first->Say(NodeGroupWord::kOver, 137);
  EXPECT_EQ(first->Next()->size, 2);
  EXPECT_EQ(process_of(1), ProcessState::kUnspecified);
  EXPECT_EQ(process_of(2), ProcessState::kLeftOut);
  EXPECT_EQ(process_of(3), ProcessState::kLeftOut);

  auto third = Come(3);
  third->poll().nodes_least = 1;
  third->poll().last_call_us = absl::ToInt64Microseconds(kPatience);
  std::thread comes([&] { EXPECT_EQ(third->Next()->size, 4); });
  EXPECT_EQ(first->Next()->step, NodeGroupStep::kCalledOff);
  first->Say(NodeGroupWord::kOver);
  comes.join();
  EXPECT_EQ(process_of(3), ProcessState::kUnspecified);
}

TEST_F(NodeGroupHostTest, WhoDoesNotFitIsRefusedWithAReason) {
  auto first = Come(1);
  auto second = Come(2);
  std::thread waits([&] { EXPECT_TRUE(first->Next().ok()); });
  EXPECT_TRUE(second->Next().ok());
  waits.join();
  auto third = Come(3);
  third->poll().max_restarts = 5;
  const absl::Status refused = third->Next().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(wire::native::ReasonOf(refused), "not_of_the_crew");
}

// A run of one node, from its beginning to its end; how it was refused, if it was.
absl::Status RunAlone(Node& node, const std::string& job) {
  node.poll().job = job;
  node.poll().nodes_least = node.poll().nodes_most = 1;
  const auto begun = node.Next();
  return begun.status();
}

TEST_F(NodeGroupHostTest, Finding05_ThousandsOfJobsMayHaveANodeGroupOneAfterTheOther) {
  auto client = *link::Client::Connect(server_->listen_address(), kPatience, {});
  for (size_t i = 0; i <= kNodeGroupsMax; ++i) {
    const std::string job = absl::StrCat("job-", i);
    ASSERT_TRUE(client->Call(wire::native::CreateJob{.job = job, .size = 2}, kPatience).ok());
    ASSERT_EQ(RunAlone(*Come(i + 1), job), absl::OkStatus()) << "run " << i;
    ASSERT_TRUE(client->Call(wire::native::DeleteJob{.job = job}, kPatience).ok());
  }
}

TEST_F(NodeGroupHostTest, Finding05_ANodeGroupWhoseJobIsDeletedIsToldSo) {
  auto node = Come(1);  // the first of two
  std::thread waits([&] {
    // Whether its poll comes before the deletion or behind it.
    const std::string why = wire::native::ReasonOf(node->Next().status());
    EXPECT_TRUE(why == "job_deleted" || why == "unknown_job") << why;
  });
  auto client = *link::Client::Connect(server_->listen_address(), kPatience, {});
  EXPECT_TRUE(client->Call(wire::native::DeleteJob{.job = "digits"}, kPatience).ok());
  waits.join();
}

TEST_F(NodeGroupHostTest, Finding14_AnAttemptThatIsFarAheadIsRefused) {
  for (const int64_t attempt : {int64_t{5000}, int64_t{1} << 31, INT64_MAX}) {
    auto node = Come(1);
    node->poll().attempt = attempt;
    const absl::Status refused = node->Next().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << attempt;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("_max)"));
  }
  auto node = Come(1);
  node->poll().seen = INT64_MAX;
  EXPECT_EQ(node->Next().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(NodeGroupHostTest, OnlyJobsOfTheServerHaveNodeGroups) {
  auto node = Come(1);
  node->poll().job = "none";
  EXPECT_EQ(wire::native::ReasonOf(node->Next().status()), "unknown_job");
}

}  // namespace
}  // namespace lockstep::server

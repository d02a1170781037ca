#include "lockstep/launch/node_group_link.h"

#include <atomic>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/testing.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/node_group_messages.h"

namespace lockstep::launch {
namespace {

using link::Request;
using link::Responder;
using link::testing::LoopThread;
using link::testing::Seen;
using link::testing::TestServer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using wire::native::NodeGroupStep;
using wire::native::NodeGroupWord;
using wire::native::PollNodeGroup;
using wire::native::PollNodeGroupReply;
using wire::native::TellNodeGroup;

// A server that answers polls from a list, one for each that the launcher has seen, and parks the
// poll after that.
class Script {
 public:
  explicit Script(std::vector<PollNodeGroupReply> replies) : replies_(std::move(replies)) {}

  void Take(const Request& request, Responder responder) {
    if (request.kind == link::KindOf<TellNodeGroup>::kKind) {
      words.Add(*wire::native::Decode<TellNodeGroup>(request.payload));
      return responder.Answer(wire::native::Encode(wire::native::TellNodeGroupReply{}));
    }
    const PollNodeGroup poll = *wire::native::Decode<PollNodeGroup>(request.payload);
    polls.Add(poll);
    const auto next = static_cast<size_t>(poll.seen);
    if (!refusal.ok()) return responder.Fail(refusal);
    if (next < replies_.size()) return responder.Answer(wire::native::Encode(replies_[next]));
    parked_.push_back(std::move(responder));
  }

  Seen<PollNodeGroup> polls;
  Seen<TellNodeGroup> words;
  absl::Status refusal;

 private:
  const std::vector<PollNodeGroupReply> replies_;
  std::vector<Responder> parked_;
};

const PollNodeGroupReply kBegin = {
    .step = NodeGroupStep::kBegin, .number = 1, .attempt = 1, .node_rank = 1, .nodes = 2};
const PollNodeGroupReply kCalledOff = {.step = NodeGroupStep::kCalledOff,
                                       .number = 2,
                                       .attempt = 1,
                                       .another = true,
                                       .why = "node 0 is gone"};

class NodeGroupLinkTest : public testing::Test {
 protected:
  void Start(const std::string& address, std::vector<uint16_t> ports = {}) {
    link_ = loop_.Do([&] {
      auto link = std::make_unique<NodeGroupLink>(
          loop_.loop(), address, PollNodeGroup{.job = "digits", .node = 7, .processes = 2},
          NodeGroupLink::Callbacks{
              .told = [this](const PollNodeGroupReply& told) { told_.Add(told); },
              .refused = [this](const absl::Status& why) { refused_.Add(why); },
              .lost = [this](const std::string& why) { lost_.Add(why); },
              .say = [this](std::string text) { said_.Add(std::move(text)); }});
      link->OfferPorts(std::move(ports));
      link->Start();
      return link;
    });
  }
  void TearDown() override {
    loop_.Stop();
    link_.reset();
  }

  Seen<PollNodeGroupReply> told_;
  Seen<absl::Status> refused_;
  Seen<std::string> lost_;
  Seen<std::string> said_;
  LoopThread loop_;
  std::unique_ptr<NodeGroupLink> link_;
};

TEST_F(NodeGroupLinkTest, TellsEachStepOnceAndSaysWhereItIs) {
  Script script({kBegin, kCalledOff});
  TestServer server([&](const Request& r, Responder to) { script.Take(r, std::move(to)); });
  Start(server.address());
  EXPECT_THAT(told_.WaitForCount(2), ElementsAre(kBegin, kCalledOff));
  const auto polls = script.polls.WaitForCount(3);
  ASSERT_EQ(polls.size(), 3U);
  EXPECT_EQ(polls[0].attempt, 0);
  EXPECT_EQ(polls[2].seen, 2);
  EXPECT_EQ(polls[2].attempt, 1);
  EXPECT_EQ(polls[2].attempt_rank, 1);
  EXPECT_EQ(polls[2].attempt_nodes, 2);
}

TEST_F(NodeGroupLinkTest, GoesOnWithTheServerThatComesToLead) {
  Script script({kBegin});
  Script after({kBegin, kCalledOff});
  std::atomic<bool> second_leads = false;
  auto first = std::make_unique<TestServer>(
      [&](const Request& r, Responder to) { script.Take(r, std::move(to)); });
  TestServer second(link::ServerEvents{
      .request = [&](const Request& r, Responder to) { after.Take(r, std::move(to)); },
      .leadership = [&] { return link::Leadership{.leads = second_leads, .epoch = 1}; }});
  Start(second.address() + "," + first->address());
  EXPECT_THAT(told_.WaitForCount(1), ElementsAre(kBegin));
  first.reset();
  second_leads = true;
  EXPECT_THAT(told_.WaitForCount(2), ElementsAre(kBegin, kCalledOff));
  EXPECT_EQ(after.polls.WaitForCount(1).front().seen, 1);
}

TEST_F(NodeGroupLinkTest, OffersItsPortsAtTheAddressThatTheServerReaches) {
  Script script({});  // the one poll stays parked
  TestServer server([&](const Request& r, Responder to) { script.Take(r, std::move(to)); });
  Start(server.address(), {7001, 7002});
  const auto polls = script.polls.WaitForCount(1);
  ASSERT_EQ(polls.size(), 1U);
  EXPECT_THAT(polls[0].addresses, ElementsAre("127.0.0.1:7001", "127.0.0.1:7002"));
}

TEST_F(NodeGroupLinkTest, WordsAreSentInOrderWhileAPollIsParked) {
  Script script({kBegin});
  TestServer server([&](const Request& r, Responder to) { script.Take(r, std::move(to)); });
  Start(server.address());
  told_.WaitForCount(1);
  loop_.Do([this] {
    link_->TellFailed("task/3 died", 137);
    link_->TellOver(137, /*again=*/false);
    return true;
  });
  const auto words = script.words.WaitForCount(2);
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[0].word, NodeGroupWord::kFailed);
  EXPECT_EQ(words[0].text, "task/3 died");
  EXPECT_EQ(words[0].attempt, 1);
  EXPECT_EQ(words[1].word, NodeGroupWord::kOver);
  EXPECT_EQ(words[1].exit_code, 137);
}

TEST_F(NodeGroupLinkTest, AServerThatIsStartedAgainIsToldWhereWeAreAndWhatItMissed) {
  Script script({kBegin});
  auto first = std::make_unique<TestServer>(
      [&](const Request& r, Responder to) { script.Take(r, std::move(to)); });
  const std::string address = first->address();
  Start(address);
  told_.WaitForCount(1);
  script.polls.WaitForCount(2);
  first.reset();
  EXPECT_THAT(said_.WaitForCount(1), ElementsAre(HasSubstr("the other nodes are not heard of")));
  loop_.Do([this] {
    link_->TellOver(0, /*again=*/false);
    return true;
  });
  Script after({kBegin});
  TestServer second([&](const Request& r, Responder to) { after.Take(r, std::move(to)); },
                    {.listen = address});
  const auto polls = after.polls.WaitForCount(1);
  ASSERT_EQ(polls.size(), 1U);
  EXPECT_EQ(polls[0].seen, 1);
  EXPECT_EQ(polls[0].attempt, 1);
  EXPECT_EQ(polls[0].over, 0);
  EXPECT_EQ(after.words.WaitForCount(1).size(), 1U);
  EXPECT_EQ(said_.WaitForCount(2).back(), "the server answers again");
  EXPECT_THAT(lost_.WaitForCount(2), ElementsAre(Not(IsEmpty()), ""));
}

TEST_F(NodeGroupLinkTest, ARefusalIsTheEnd) {
  Script script({});
  script.refusal = wire::native::WithReason(absl::FailedPreconditionError("node 1 is another"),
                                            "not_of_the_crew");
  TestServer server([&](const Request& r, Responder to) { script.Take(r, std::move(to)); });
  Start(server.address());
  const auto refused = refused_.WaitForCount(1);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(script.polls.WaitForCount(1).size(), 1U);
}

TEST_F(NodeGroupLinkTest, LeavingIsToldAndWaitsForNobodyForLong) {
  Script script({kBegin});
  auto server = std::make_unique<TestServer>(
      [&](const Request& r, Responder to) { script.Take(r, std::move(to)); });
  Start(server->address());
  told_.WaitForCount(1);
  Seen<bool> left;
  loop_.Do([&] {
    link_->Leave([&left] { left.Add(true); });
    return true;
  });
  EXPECT_EQ(left.WaitForCount(1).size(), 1U);
  EXPECT_EQ(script.words.WaitForCount(1).back().word, NodeGroupWord::kLeaves);
}

TEST_F(NodeGroupLinkTest, LeavingDoesNotNeedTheServer) {
  Script script({kBegin});
  auto server = std::make_unique<TestServer>(
      [&](const Request& r, Responder to) { script.Take(r, std::move(to)); });
  Start(server->address());
  told_.WaitForCount(1);
  server.reset();
  said_.WaitForCount(1);
  Seen<bool> left;
  loop_.Do([&] {
    link_->Leave([&left] { left.Add(true); });
    return true;
  });
  EXPECT_EQ(left.WaitForCount(1).size(), 1U);
}

}  // namespace
}  // namespace lockstep::launch

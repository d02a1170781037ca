#include "lockstep/server/fan_out.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/server/fan_out_book.h"
#include "lockstep/server/fan_out_plan.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::server {
namespace {

using link::LinkId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::native::StockCallReply;
using Host = FanOutPlan::Host;

constexpr size_t kServer = FanOutPlan::kServer;

// Through how many hands an answer goes at most.
size_t DepthOf(const FanOutPlan& plan) {
  size_t deepest = 0;
  for (size_t host : plan.order()) {
    size_t depth = 0;
    for (; plan.ParentOf(host) != kServer; host = plan.ParentOf(host)) ++depth;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

TEST(FanOutPlan, TheFirstHaveItFromTheServerAndTheOthersFromThoseBeforeThem) {
  const FanOutPlan plan(std::vector<Host>(7), {.roots = 2, .children = 2});
  EXPECT_THAT(plan.order(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(plan.roots(), 2u);
  std::vector<size_t> parents;
  for (size_t i = 0; i < 7; ++i) parents.push_back(plan.ParentOf(i));
  EXPECT_THAT(parents, ElementsAre(kServer, kServer, 0, 0, 1, 1, 2));
}

TEST(FanOutPlan, TwelveThousandHostsAreFourHandsDeep) {
  const FanOutPlan plan(std::vector<Host>(12'500), {});
  EXPECT_EQ(plan.roots(), 16u);
  EXPECT_EQ(DepthOf(plan), 4u);
}

TEST(FanOutPlan, WhoMayNotServeComesLastAndWhoMustHaveItDirectlyDoes) {
  std::vector<Host> hosts(6);
  hosts[0].serves = false;
  hosts[3].direct = true;
  hosts[5] = {.direct = true, .serves = false};
  const FanOutPlan plan(hosts, {.roots = 1, .children = 2});
  EXPECT_THAT(plan.order(), ElementsAre(3, 1, 2, 4, 0, 5));
  EXPECT_EQ(plan.ParentOf(3), kServer);
  EXPECT_EQ(plan.ParentOf(5), kServer);
  EXPECT_EQ(plan.ParentOf(1), 3u);
  EXPECT_EQ(plan.ParentOf(0), 1u);
  EXPECT_EQ(plan.roots(), 2u);
}

TEST(FanOutPlan, WhereNobodyServesTheServerDoes) {
  const FanOutPlan plan(std::vector<Host>(50, Host{.direct = false, .serves = false}), {});
  EXPECT_EQ(plan.roots(), 50u);
}

// Its invariants are checked by the constructor in debug builds, and here in every build.
TEST(FanOutPlan, HoldsItsInvariantsWhateverTheHostsAre) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Host> hosts(random() % 200);
    const uint64_t bad = 1 + random() % 20;
    for (Host& host : hosts) {
      host = {.direct = random() % bad == 0, .serves = random() % 20 >= bad};
    }
    const FanOutPlan::Shape shape = {.roots = 1 + random() % 20, .children = 1 + random() % 9};
    const FanOutPlan plan(hosts, shape);
    std::vector<size_t> children(hosts.size(), 0);
    std::vector<bool> told(hosts.size(), false);
    size_t roots = 0;
    for (const size_t host : plan.order()) {
      ASSERT_FALSE(told[host]);
      told[host] = true;
      const size_t parent = plan.ParentOf(host);
      roots += parent == kServer ? 1 : 0;
      if (parent == kServer) continue;
      ASSERT_TRUE(told[parent] && hosts[parent].serves && !hosts[host].direct);
      ASSERT_LE(++children[parent], shape.children);
    }
    ASSERT_EQ(plan.order().size(), hosts.size());
    ASSERT_EQ(plan.roots(), roots);
  }
}

class FanOutBookTest : public ::testing::Test {
 protected:
  FanOutBookTest() {
    for (uint64_t i = 1; i <= 8; ++i) Join(i);
  }

  void Join(uint64_t link, const void* job = &job_) {
    book_.Joined(LinkId(link), job, absl::StrCat("10.0.0.", link, ":7"));
  }
  std::shared_ptr<const FanOutTree> Begin(std::string ticket, size_t bytes = 100,
                                          std::vector<uint64_t> numbers = {1, 2, 3, 4, 5, 6}) {
    std::vector<LinkId> links;
    for (const uint64_t number : numbers) links.emplace_back(number);
    return book_.Begin(now_, {.ticket = std::move(ticket), .key = std::string(32, 'k')},
                       std::make_shared<const std::string>(bytes, 'a'), links);
  }
  static wire::native::FanOut Told(const FanOutTree::Bytes& message) {
    const auto reply = wire::native::Decode<StockCallReply>(*message);
    EXPECT_TRUE(reply.ok() && reply->fan_out.has_value());
    return reply->fan_out.value_or(wire::native::FanOut());
  }
  // By the place of each: the last number of its parent's address; 0: it gets the answer itself.
  static std::vector<int> Parents(const FanOutTree& tree, size_t hosts = 6) {
    std::vector<int> parents;
    for (size_t i = 0; i < hosts; ++i) {
      const wire::native::FanOut told = Told(tree.MessageFor(i));
      EXPECT_EQ(told.from.empty(), told.answer.data != nullptr);
      parents.push_back(told.from.empty() ? 0 : told.from.at(7) - '0');
    }
    return parents;
  }

  static inline int job_ = 0;
  static inline int other_job_ = 0;
  Time now_ = Time() + absl::Seconds(1000);
  FanOutBook book_{{.bytes_min = 100,
                    .bytes_max = 5'000,
                    .hosts_min = 4,
                    .shape = {.roots = 2, .children = 2},
                    .kept_max = 3,
                    .kept_bytes_max = 10'000}};
};

TEST_F(FanOutBookTest, TellsEachAgentWhereTheAnswerIs) {
  const auto tree = Begin("t1");
  EXPECT_THAT(Parents(*tree), ElementsAre(0, 0, 1, 1, 2, 2));
  const wire::native::FanOut root = Told(tree->MessageFor(0));
  EXPECT_EQ(root.ticket.data, "t1");
  EXPECT_EQ(root.size, 100);
  EXPECT_EQ(*root.answer.data, std::string(100, 'a'));
  EXPECT_EQ(Told(tree->MessageFor(2)).key.data, root.key.data);
  EXPECT_EQ(book_.counts().answers, 4u);
  EXPECT_EQ(book_.counts().bytes, 400u);
}

TEST_F(FanOutBookTest, IsWorthItFromABoundOn) {
  EXPECT_TRUE(book_.IsWorth(100, 4));
  EXPECT_FALSE(book_.IsWorth(99, 4));
  EXPECT_FALSE(book_.IsWorth(100, 3));
  EXPECT_TRUE(book_.IsWorth(5'000, 4));
  EXPECT_FALSE(book_.IsWorth(5'001, 4)) << "it would take too long";
}

TEST_F(FanOutBookTest, WhoAsksAgainGetsTheAnswerAndIsSparedAndSoAreTheChildrenOfWhoFailed) {
  Begin("t1");
  const auto again = book_.Fetch(now_, LinkId(3), "t1");
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(*Told(again).answer.data, std::string(100, 'a'));
  EXPECT_EQ(book_.counts().fallbacks, 1u);
  // The third has it from the server, and the first, which did not serve it, serves nobody.
  EXPECT_THAT(Parents(*Begin("t2")), ElementsAre(2, 0, 0, 3, 3, 2));
  // Until the distrust is over.
  now_ = now_ + absl::Seconds(60);
  EXPECT_THAT(Parents(*Begin("t3")), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST_F(FanOutBookTest, DistrustOutlivesALink) {
  Begin("t1");
  book_.Fetch(now_, LinkId(3), "t1");
  for (const uint64_t link : {1, 3}) book_.Left(LinkId(link));
  book_.Joined(LinkId(11), &job_, "10.0.0.1:7");
  book_.Joined(LinkId(13), &job_, "10.0.0.3:7");
  EXPECT_THAT(Parents(*Begin("t2", 100, {11, 2, 13, 4, 5, 6})), ElementsAre(2, 0, 0, 3, 3, 2));
}

TEST_F(FanOutBookTest, WhoAsksForWhatIsGoneIsSparedAsWell) {
  EXPECT_EQ(book_.Fetch(now_, LinkId(3), "never"), nullptr);
  EXPECT_THAT(Parents(*Begin("t1")), ElementsAre(0, 3, 0, 3, 1, 1));
}

TEST_F(FanOutBookTest, NobodyElseGetsAnAnswer) {
  Begin("t1");
  Join(20, &other_job_);
  EXPECT_EQ(book_.Fetch(now_, LinkId(20), "t1"), nullptr) << "an agent of another job";
  EXPECT_EQ(book_.Fetch(now_, LinkId(99), "t1"), nullptr) << "no agent";
  EXPECT_EQ(book_.counts().fallbacks, 1u);
}

TEST_F(FanOutBookTest, KeepsAnswersForAWhileAndSoManyBytesOfThem) {
  Begin("t1");
  now_ = now_ + absl::Seconds(10);
  Begin("t2");
  EXPECT_EQ(book_.NextDeadline(), now_ + absl::Seconds(20));
  now_ = now_ + absl::Seconds(20);
  book_.Expire(now_);
  EXPECT_EQ(book_.Fetch(now_, LinkId(3), "t1"), nullptr);
  EXPECT_NE(book_.Fetch(now_, LinkId(3), "t2"), nullptr);
  // Then the oldest make room: by their number, and by their bytes.
  for (const char* ticket : {"t3", "t4", "t5"}) Begin(ticket);
  EXPECT_EQ(book_.Fetch(now_, LinkId(3), "t2"), nullptr);
  EXPECT_NE(book_.Fetch(now_, LinkId(3), "t3"), nullptr);
  Begin("long", 5'000);
  Begin("longer", 5'000);
  EXPECT_LE(book_.bytes(), 10'000u);
  EXPECT_EQ(book_.Fetch(now_, LinkId(3), "long"), nullptr);
  EXPECT_NE(book_.Fetch(now_, LinkId(3), "longer"), nullptr);
}

TEST_F(FanOutBookTest, ForgetsAJobThatIsDeletedAndALinkThatEnds) {
  const auto tree = Begin("t1");
  book_.Left(LinkId(1));
  EXPECT_FALSE(book_.TakesPart(LinkId(1)));
  // Its parent has gone: nobody is to blame.
  EXPECT_NE(book_.Fetch(now_, LinkId(3), "t1"), nullptr);
  // A link that ended between the event and the plan gets what nobody reads.
  EXPECT_EQ(Parents(*Begin("t2"))[0], 0);
  book_.JobDeleted(&job_);
  EXPECT_EQ(book_.bytes(), 0u);
  EXPECT_FALSE(book_.TakesPart(LinkId(2)));
}

TEST(FanOut, HoldsNothingWhereMemoryHasNoRoom) {
  runtime::Loop loop;
  runtime::MemoryAccount memory(1'000);
  FanOut fan_out(loop, &memory, {.bytes_min = 1, .hosts_min = 2});
  int job = 0;
  const std::vector<LinkId> links = {LinkId(1), LinkId(2), LinkId(3)};
  for (const LinkId link : links) fan_out.Joined(link, &job, "10.0.0.1:7");
  const auto answer = std::make_shared<const std::string>(100, 'a');
  EXPECT_NE(fan_out.Begin(answer, links), nullptr);
  EXPECT_GE(memory.held(), 100u) << "for agents that ask again";
  const auto long_answer = std::make_shared<const std::string>(900, 'a');
  EXPECT_EQ(fan_out.Begin(long_answer, links), nullptr);
  fan_out.JobDeleted(&job);
  EXPECT_EQ(memory.held(), 0u);
}

}  // namespace
}  // namespace lockstep::server

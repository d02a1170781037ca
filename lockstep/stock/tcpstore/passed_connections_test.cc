#include "lockstep/stock/tcpstore/passed_connections.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"

namespace lockstep::tcpstore {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Course = PassedConnections::Course;

constexpr SessionId kAgent = {.high = 1, .low = 2};
constexpr SessionId kOther = {.high = 1, .low = 3};

ValuePtr Value(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

PassedConnection Name(uint64_t number, SessionId agent = kAgent) {
  return {.agent = agent, .number = number};
}

class PassedConnectionsTest : public ::testing::Test {
 protected:
  ConnectionId Add(uint64_t number, SessionId agent = kAgent) {
    const auto id = connections_.Add(Name(number, agent));
    EXPECT_TRUE(id.ok()) << id.status();
    return *id;
  }
  // A change of one key, or of several.
  void Do(ConnectionId id, uint64_t number, const Command& command, ValuePtr answer,
          size_t keys = 1) {
    effects_.Clear();
    for (size_t i = 0; i < keys; ++i) effects_.records.push_back(record::KeySet{"/a", Value("1")});
    connections_.Done(id, number, command, std::move(answer), effects_);
  }
  // The same as a server that starts makes it.
  PassedConnections Again() const {
    PassedConnections again(/*keeps=*/true);
    for (const Record& record : connections_.Snapshot()) again.Apply(record);
    return again;
  }

  PassedConnections connections_{/*keeps=*/true};
  Effects effects_;
};

TEST_F(PassedConnectionsTest, HaveIdsOfTheirOwn) {
  const ConnectionId one = Add(1);
  EXPECT_TRUE(PassedConnections::Owns(one));
  EXPECT_FALSE(PassedConnections::Owns(ConnectionId(1)));
  EXPECT_EQ(connections_.Find(Name(1)), one);
  EXPECT_EQ(connections_.Find(Name(2)), std::nullopt);
  EXPECT_NE(Add(1, kOther), one);
  EXPECT_EQ(connections_.FirstOf(kAgent), one);
  EXPECT_EQ(connections_.FirstOf({.high = 9, .low = 9}), std::nullopt);
}

TEST_F(PassedConnectionsTest, AChangeTakesEffectOnce) {
  const ConnectionId one = Add(1);
  EXPECT_EQ(connections_.CourseOf(one, 1, 0, tcpstore::Add{"/n", 1}), Course::kCarryOut);
  Do(one, 1, tcpstore::Add{"/n", 1}, Value("the sum"));
  EXPECT_EQ(connections_.CourseOf(one, 1, 0, tcpstore::Add{"/n", 1}), Course::kAnswerAgain);
  EXPECT_EQ(*connections_.AnswerOf(one, 1), "the sum");
  EXPECT_EQ(connections_.CourseOf(one, 2, 0, tcpstore::Add{"/n", 1}), Course::kCarryOut);
  // Those without an answer are not waited for.
  Do(one, 4, Set{"/a", "1"}, nullptr);
  EXPECT_EQ(connections_.CourseOf(one, 3, 0, Set{"/a", "0"}), Course::kAnswerAgain);
  EXPECT_EQ(connections_.AnswerOf(one, 3), nullptr);
}

TEST_F(PassedConnectionsTest, WhatChangesNothingIsDoneAgain) {
  const ConnectionId one = Add(1);
  Do(one, 5, Set{"/a", "1"}, nullptr);
  EXPECT_EQ(connections_.CourseOf(one, 4, 0, Get{"/a"}), Course::kCarryOut);
  EXPECT_EQ(connections_.CourseOf(one, 4, 0, Wait{{"/a"}}), Course::kCarryOut);
}

TEST_F(PassedConnectionsTest, WhoWasCountedAtABarrierOnlyWaitsOn) {
  const ConnectionId one = Add(1);
  const Command barrier = Barrier{"/b", 2};
  EXPECT_EQ(connections_.CourseOf(one, 1, 0, barrier), Course::kCarryOut);
  Do(one, 1, barrier, nullptr);
  EXPECT_EQ(connections_.CourseOf(one, 1, 0, barrier), Course::kWaitOn);
  effects_.Clear();
  connections_.Released(one, 1, Value("open"), effects_);
  EXPECT_THAT(effects_.records, SizeIs(1));
  EXPECT_EQ(connections_.CourseOf(one, 1, 0, barrier), Course::kAnswerAgain);
}

TEST_F(PassedConnectionsTest, TheRecordIsBesideTheChange) {
  const ConnectionId one = Add(1);
  Do(one, 1, tcpstore::Add{"/n", 1}, Value("1"), /*keys=*/2);  // after keys were forgotten, say
  ASSERT_THAT(effects_.records, SizeIs(3));
  EXPECT_TRUE(std::holds_alternative<record::CommandDone>(effects_.records[1]));
  Do(one, 2, MultiSet{}, nullptr, /*keys=*/2);
  ASSERT_THAT(effects_.records, SizeIs(3));
  EXPECT_TRUE(std::holds_alternative<record::CommandDone>(effects_.records[2]));
}

TEST_F(PassedConnectionsTest, AnAnswerThatTellsOfNoChangeIsNotKept) {
  const ConnectionId one = Add(1);
  Do(one, 1, DeleteKey{"/none"}, Value("0"), /*keys=*/0);
  EXPECT_THAT(effects_.records, IsEmpty());
  EXPECT_EQ(connections_.CourseOf(one, 1, 0, DeleteKey{"/none"}), Course::kCarryOut);
  // Those behind it have to know of this one.
  Do(one, 2, Set{"/same", "1"}, nullptr, /*keys=*/0);
  EXPECT_THAT(effects_.records, SizeIs(1));
  EXPECT_EQ(connections_.CourseOf(one, 3, 2, Get{"/same"}), Course::kCarryOut);
}

TEST_F(PassedConnectionsTest, AStoreThatIsNotDurableKeepsEachAnswer) {
  PassedConnections connections(/*keeps=*/false);
  const auto id = connections.Add(Name(1));
  ASSERT_TRUE(id.ok());
  connections.Done(*id, 1, tcpstore::Add{"/n", 1}, Value("1"), effects_);
  EXPECT_THAT(effects_.records, IsEmpty());
  EXPECT_EQ(connections.CourseOf(*id, 1, 0, tcpstore::Add{"/n", 1}), Course::kAnswerAgain);
}

TEST_F(PassedConnectionsTest, ACommandThatOvertookAnotherIsRefused) {
  const ConnectionId one = Add(1);
  EXPECT_EQ(connections_.CourseOf(one, 2, 1, Set{"/b", "1"}), Course::kRefuse);
  EXPECT_EQ(connections_.CourseOf(one, 2, 1, Get{"/b"}), Course::kRefuse);
  Do(one, 1, Set{"/a", "1"}, nullptr);
  EXPECT_EQ(connections_.CourseOf(one, 2, 1, Set{"/b", "1"}), Course::kCarryOut);
}

TEST_F(PassedConnectionsTest, NumbersThatCannotBeAreRefused) {
  const ConnectionId one = Add(1);
  EXPECT_EQ(connections_.CourseOf(one, 0, 0, Get{"/a"}), Course::kRefuse);
  Do(one, 5, tcpstore::Add{"/n", 1}, Value("1"));
  EXPECT_EQ(connections_.CourseOf(one, 4, 0, tcpstore::Add{"/n", 1}), Course::kRefuse);
}

TEST_F(PassedConnectionsTest, OutliveTheServerWithTheirLastAnswer) {
  const ConnectionId one = Add(1);
  const ConnectionId two = Add(2);
  Add(3);  // nothing of it took effect
  Do(one, 7, QueuePop{"/q"}, Value("popped"));
  Do(two, 1, Barrier{"/b", 2}, nullptr);
  const PassedConnections again = Again();
  const auto found = again.Find(Name(1));
  ASSERT_TRUE(found && again.Find(Name(2)));
  EXPECT_EQ(again.Find(Name(3)), std::nullopt);
  EXPECT_EQ(again.CourseOf(*found, 7, 0, QueuePop{"/q"}), Course::kAnswerAgain);
  EXPECT_EQ(*again.AnswerOf(*found, 7), "popped");
  EXPECT_EQ(again.CourseOf(*again.Find(Name(2)), 1, 0, Barrier{"/b", 2}), Course::kWaitOn);
}

TEST_F(PassedConnectionsTest, AreForgottenWhenTheyGo) {
  const size_t empty = connections_.memory();
  const ConnectionId one = Add(1);
  Do(one, 1, tcpstore::Add{"/n", 1}, Value(std::string(1000, 'x')));
  EXPECT_GT(connections_.memory(), empty + 1000);
  PassedConnections again = Again();
  effects_.Clear();
  connections_.Remove(one, effects_);
  EXPECT_EQ(connections_.memory(), empty);
  ASSERT_THAT(effects_.records, SizeIs(1));
  again.Apply(effects_.records[0]);
  EXPECT_EQ(again.Find(Name(1)), std::nullopt);
  again.Apply(effects_.records[0]);  // of one that is not there: nothing
  // Nothing of this one is in the journal.
  const ConnectionId two = Add(2);
  effects_.Clear();
  connections_.Remove(two, effects_);
  EXPECT_THAT(effects_.records, IsEmpty());
}

TEST_F(PassedConnectionsTest, OfOneAgentAreBounded) {
  for (uint64_t i = 1; i <= PassedConnections::kPerAgentMax; ++i) Add(i);
  EXPECT_EQ(connections_.Add(Name(PassedConnections::kPerAgentMax + 1)).status().code(),
            absl::StatusCode::kResourceExhausted);
  Add(1, kOther);
}

}  // namespace
}  // namespace lockstep::tcpstore

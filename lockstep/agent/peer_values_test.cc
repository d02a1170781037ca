#include "lockstep/agent/peer_values.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using End = PeerValues::End;

class PeerValuesTest : public ::testing::Test {
 protected:
  using Effects = PeerValues::Effects;

  static PeerValues::Source Source(size_t size = 3) {
    return {.key = "key", .size = size, .from = "h:1"};
  }
  static PeerValues::Value Value(const std::string& text = "abc") {
    return std::make_shared<const std::string>(text);
  }
  Effects Tell(const std::string& ticket, uint64_t call, Time deadline = Time::Infinite(),
               size_t size = 3) {
    Effects out;
    values_.Told(now_, ticket, Source(size), call, deadline, out);
    return out;
  }
  Effects Give(const std::string& ticket, const std::string& text = "abc") {
    Effects out;
    values_.Given(now_, ticket, Source(), Value(text), out);
    return out;
  }
  Effects Fetch(const std::string& ticket) {
    Effects out;
    values_.Fetched(now_, ticket, Value(), out);
    return out;
  }
  Effects FailFetch(const std::string& ticket) {
    Effects out;
    values_.FetchFailed(now_, ticket, out);
    return out;
  }
  Effects AskAs(uint64_t peer, const std::string& ticket) {
    EXPECT_TRUE(values_.PeerCame(now_, peer));
    Effects out;
    values_.PeerAsked(now_, peer, ticket, out);
    return out;
  }
  Effects Pass(absl::Duration time) {
    now_ = now_ + time;
    Effects out;
    values_.ReachDeadline(now_, out);
    return out;
  }
  static std::vector<std::string> Ended(const Effects& out) {
    std::vector<std::string> ended;
    for (const auto& each : out.ended) {
      const char* const how = each.end == End::kAgain ? " again" : " late";
      ended.push_back(std::to_string(each.call) +
                      (each.end == End::kValue ? " " + *each.value : how));
    }
    return ended;
  }
  static std::vector<uint64_t> Served(const Effects& out) {
    std::vector<uint64_t> served;
    for (const auto& each : out.serve) served.push_back(each.peer);
    return served;
  }

  Time now_ = Time() + absl::Seconds(100);
  PeerValues values_{{.peers_max = 4, .held_bytes_max = 10}};
};

TEST_F(PeerValuesTest, OneFetchAnswersAllCallsAndServesThoseWhoAskedBeforeIt) {
  EXPECT_EQ(Tell("t", 1).fetch.size(), 1u);
  EXPECT_THAT(Tell("t", 2).fetch, IsEmpty());
  EXPECT_THAT(AskAs(7, "t").hint, ElementsAre(7));
  const Effects out = Fetch("t");
  EXPECT_THAT(Ended(out), ElementsAre("1 abc", "2 abc"));
  EXPECT_THAT(Served(out), ElementsAre(7));
  EXPECT_EQ(out.serve[0].key, "key");
  // Then it is there for whoever comes.
  EXPECT_THAT(Ended(Tell("t", 3)), ElementsAre("3 abc"));
  EXPECT_THAT(Served(AskAs(8, "t")), ElementsAre(8));
}

TEST_F(PeerValuesTest, AnAgentWithTheAnswerServesEvenThoseWhoCameBeforeTheServersWord) {
  EXPECT_THAT(AskAs(7, "t").hint, IsEmpty()) << "nobody knows whether it will come";
  EXPECT_THAT(Served(Give("t")), ElementsAre(7));
}

TEST_F(PeerValuesTest, WhoAsksForWhatNobodyToldUsIsRefusedSoon) {
  AskAs(7, "guess");
  EXPECT_THAT(Pass(absl::Milliseconds(999)).close, IsEmpty());
  EXPECT_THAT(Pass(absl::Milliseconds(1)).close, ElementsAre(7));
  EXPECT_EQ(values_.sizes().peers, 0u);
}

TEST_F(PeerValuesTest, AFailedFetchIsAskedOfTheServerOnce) {
  Tell("t", 1);
  EXPECT_THAT(FailFetch("t").ask_server, ElementsAre("t"));
  EXPECT_THAT(FailFetch("t").ask_server, IsEmpty());
  EXPECT_THAT(Tell("t", 2).ask_server, IsEmpty());
  EXPECT_THAT(Ended(Give("t")), ElementsAre("1 abc", "2 abc"));
}

TEST_F(PeerValuesTest, PatienceEndsWithoutProgressAndInAllHoweverItComesAlong) {
  Tell("t", 1);
  for (int i = 0; i < 29; ++i) {
    EXPECT_THAT(Pass(absl::Milliseconds(500)).stop, IsEmpty()) << i;
    values_.Progressed(now_, "t");
  }
  const Effects out = Pass(absl::Milliseconds(500));
  EXPECT_THAT(out.stop, ElementsAre("t"));
  EXPECT_THAT(out.ask_server, ElementsAre("t"));
  Tell("u", 2);
  EXPECT_THAT(Pass(absl::Seconds(1)).stop, ElementsAre("u"));
}

TEST_F(PeerValuesTest, CallsAreMadeAgainWhenTheServerDoesNotHaveItEither) {
  Tell("t", 1);
  AskAs(7, "t");
  FailFetch("t");
  Effects out;
  values_.ServerFailed(now_, "t", out);
  EXPECT_THAT(Ended(out), ElementsAre("1 again"));
  EXPECT_THAT(out.close, ElementsAre(7));
  EXPECT_EQ(values_.sizes().answers, 0u);
}

TEST_F(PeerValuesTest, ACallsDeadlineHoldsWhileItsAnswerIsFetched) {
  Tell("t", 1, now_ + absl::Milliseconds(300));
  Tell("t", 2);
  EXPECT_EQ(values_.NextDeadline(), now_ + absl::Milliseconds(300));
  EXPECT_THAT(Ended(Pass(absl::Milliseconds(300))), ElementsAre("1 late"));
  EXPECT_THAT(Ended(Fetch("t")), ElementsAre("2 abc"));
}

TEST_F(PeerValuesTest, ACallThatLeavesIsNotEnded) {
  Tell("t", 1);
  values_.CallLeft(1);
  values_.CallLeft(1);
  EXPECT_THAT(Ended(Fetch("t")), IsEmpty());
  // Nobody waits: the server is not asked for it.
  Tell("u", 2);
  values_.CallLeft(2);
  EXPECT_THAT(FailFetch("u").ask_server, IsEmpty());
}

TEST_F(PeerValuesTest, WhoWaitsIsToldSoAndNotForEver) {
  Tell("t", 1);
  AskAs(7, "t");
  int hints = 0;
  for (int i = 0; i < 80; ++i) {
    values_.Progressed(now_, "t");
    const Effects out = Pass(absl::Milliseconds(250));
    hints += static_cast<int>(out.hint.size());
    EXPECT_EQ(out.close.size(), i == 79 ? 1u : 0u);
  }
  EXPECT_EQ(hints, 79);
}

TEST_F(PeerValuesTest, WhoTakesNothingIsClosed) {
  Give("t");
  AskAs(7, "t");
  Pass(absl::Milliseconds(900));
  values_.PeerTook(now_, 7);
  EXPECT_THAT(Pass(absl::Milliseconds(900)).close, IsEmpty());
  EXPECT_THAT(Pass(absl::Milliseconds(100)).close, ElementsAre(7));
  // So is who says nothing.
  EXPECT_TRUE(values_.PeerCame(now_, 8));
  EXPECT_THAT(Pass(absl::Seconds(1)).close, ElementsAre(8));
}

TEST_F(PeerValuesTest, OneMoreAgentThanMayConnectIsRefused) {
  for (uint64_t peer = 1; peer <= 4; ++peer) EXPECT_TRUE(values_.PeerCame(now_, peer));
  EXPECT_FALSE(values_.PeerCame(now_, 5));
  values_.PeerLeft(now_, 1);
  EXPECT_TRUE(values_.PeerCame(now_, 5));
}

TEST_F(PeerValuesTest, AnswersAreKeptForAWhileAndLongerWhileTheyAreServed) {
  Give("t");
  AskAs(7, "t");
  for (int i = 0; i < 19; ++i) {
    Pass(absl::Seconds(1) - absl::Milliseconds(1));
    values_.PeerTook(now_, 7);
  }
  Pass(absl::Milliseconds(999));
  EXPECT_EQ(values_.sizes().answers, 1u);
  values_.PeerLeft(now_, 7);
  Pass(absl::Seconds(1));
  EXPECT_EQ(values_.sizes().answers, 0u);
  EXPECT_EQ(values_.NextDeadline(), Time::Infinite());
}

TEST_F(PeerValuesTest, TheOldestAnswerMakesRoomUnlessItIsServed) {
  Give("a", "aaaa");
  Pass(absl::Milliseconds(1));
  Give("b", "bbbb");
  AskAs(7, "a");
  // Four bytes more than may be held: `b` goes.
  Give("c", "cccc");
  EXPECT_THAT(Served(AskAs(8, "b")), IsEmpty());
  // And what finds no room is given to its callers, and not kept.
  Tell("d", 1);
  Effects out;
  values_.Fetched(now_, "d", Value("dddddddd"), out);
  EXPECT_THAT(Ended(out), ElementsAre("1 dddddddd"));
  EXPECT_THAT(Served(AskAs(9, "d")), IsEmpty());
}

TEST_F(PeerValuesTest, WhatWouldBeTooMuchToFetchAtATimeIsAskedOfTheServer) {
  EXPECT_EQ(Tell("t", 1, Time::Infinite(), 8).fetch.size(), 1u);
  const Effects out = Tell("u", 2, Time::Infinite(), 8);
  EXPECT_THAT(out.fetch, IsEmpty());
  EXPECT_THAT(out.ask_server, ElementsAre("u"));
}

}  // namespace
}  // namespace lockstep::agent

#include "lockstep/platform/link/leader_search.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/link/refusals.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using wire::native::ReasonOf;
using wire::native::WithReason;

const Time kStart = Time() + absl::Hours(1);
const Time kLater = kStart + kServerStagger;

LeaderSearch SearchOf(int servers) {
  std::vector<runtime::Address> addresses;
  for (int i = 0; i < servers; ++i) {
    addresses.push_back({.host = std::string(1, static_cast<char>('a' + i)), .port = 7070});
  }
  return LeaderSearch(std::move(addresses));
}

absl::Status NotReached() { return absl::UnavailableError("cannot connect to a:7070: refused"); }
absl::Status NotLeader() {
  return WithReason(absl::UnavailableError("it does not lead"), "not_leader");
}
absl::Status BadToken() {
  return WithReason(absl::FailedPreconditionError("no such key"), "token_unknown_key");
}

TEST(LeaderSearch, CallsTheNextServerWhenOneFails) {
  LeaderSearch search = SearchOf(2);
  EXPECT_EQ(search.Next(kStart), 0u);
  EXPECT_EQ(search.Next(kStart), std::nullopt);
  search.Failed(kStart, 0, NotReached());
  EXPECT_EQ(search.Next(kStart), 1u);
  EXPECT_EQ(search.NextDeadline(), kStart + kServerRecall);
  EXPECT_TRUE(search.Welcomed(kStart, 1, 0, 0));
  EXPECT_FALSE(search.exhausted());
}

TEST(LeaderSearch, ASilentServerKeepsTheNextOneWaitingForAStaggerOnly) {
  LeaderSearch search = SearchOf(3);
  EXPECT_EQ(search.Next(kStart), 0u);
  EXPECT_EQ(search.NextDeadline(), kLater);
  EXPECT_EQ(search.Next(kLater - absl::Nanoseconds(1)), std::nullopt);
  EXPECT_EQ(search.Next(kLater), 1u);
  EXPECT_EQ(search.NextDeadline(), kLater + kServerStagger);
  // The first is listened to still.
  EXPECT_TRUE(search.Welcomed(kStart, 0, 1, 0));
  EXPECT_EQ(search.Next(kLater + absl::Hours(1)), std::nullopt) << "it is over";
  EXPECT_TRUE(search.NextDeadline().is_infinite());
}

TEST(LeaderSearch, WhileAServerIsSilentTheOthersAreCalledAgain) {
  LeaderSearch search = SearchOf(4);
  EXPECT_EQ(search.Next(kStart), 0u);  // says nothing
  EXPECT_EQ(search.Next(kLater), 1u);
  search.Failed(kLater, 1, NotLeader(), "a:7070");
  EXPECT_EQ(search.Next(kLater), 2u);
  search.Failed(kLater, 2, BadToken());
  EXPECT_EQ(search.Next(kLater), 3u);
  search.Failed(kLater, 3, NotReached());
  const Time again = kLater + kServerRecall;
  EXPECT_EQ(search.NextDeadline(), again);
  EXPECT_EQ(search.Next(again - absl::Nanoseconds(1)), std::nullopt);
  EXPECT_EQ(search.Next(again), 1u);
  EXPECT_EQ(search.Next(again), 3u) << "the token is as bad as it was";
  EXPECT_EQ(search.Next(again), std::nullopt);
  EXPECT_TRUE(search.NextDeadline().is_infinite());
  search.Failed(again, 3, NotReached());
  EXPECT_THAT(std::string(search.why().message()), HasSubstr("b:7070: it does not lead"))
      << "as it said the last time";
  EXPECT_TRUE(search.Welcomed(again, 1, 2, 1)) << "it has come to lead";
}

TEST(LeaderSearch, CallsNoServerAgainAfterItsTime) {
  LeaderSearch search({{.host = "a", .port = 1}, {.host = "b", .port = 1}}, kLater);
  EXPECT_EQ(search.Next(kStart), 0u);
  EXPECT_EQ(search.Next(kLater), 1u);
  search.Failed(kLater, 1, NotLeader());
  EXPECT_TRUE(search.NextDeadline().is_infinite());
  EXPECT_EQ(search.Next(kLater + absl::Hours(1)), std::nullopt);
}

TEST(LeaderSearch, EndsWhenTheSilentServerHasFailedAsWell) {
  LeaderSearch search = SearchOf(2);
  EXPECT_EQ(search.Next(kStart), 0u);
  EXPECT_EQ(search.Next(kLater), 1u);
  search.Failed(kLater, 1, NotLeader());
  EXPECT_FALSE(search.exhausted());
  search.Failed(kLater, 0, absl::DeadlineExceededError("no answer"));
  EXPECT_TRUE(search.exhausted());
  EXPECT_EQ(search.Next(kLater + absl::Hours(1)), std::nullopt);
  EXPECT_TRUE(search.NextDeadline().is_infinite());
}

TEST(LeaderSearch, FollowsAHintToAServerOfTheList) {
  LeaderSearch search = SearchOf(4);
  EXPECT_EQ(search.Next(kStart), 0u);
  search.Failed(kStart, 0, NotLeader(), "C:7070");
  EXPECT_EQ(search.Next(kStart), 2u) << "names of hosts have no case";
  search.Failed(kStart, 2, NotLeader(), "a:7070");
  EXPECT_EQ(search.Next(kStart), 1u) << "a was called already";
}

TEST(LeaderSearch, NeverCallsWhatAHintNamesBesidesTheList) {
  for (const char* hint : {"evil:7070", "b:7071", "lockstep://evil:1#", "", ","}) {
    LeaderSearch search = SearchOf(3);
    EXPECT_EQ(search.Next(kStart), 0u);
    search.Failed(kStart, 0, NotLeader(), hint);
    EXPECT_EQ(search.Next(kStart), 1u) << hint;
    EXPECT_EQ(search.server(1), (runtime::Address{.host = "b", .port = 7070}));
    search.Failed(kStart, 1, NotLeader(), hint);
    EXPECT_EQ(search.Next(kStart), 2u) << hint;
    search.Failed(kStart, 2, NotLeader(), hint);
    EXPECT_TRUE(search.exhausted());
  }
}

TEST(LeaderSearch, ALeaderOfAnEarlierEpochIsNotBelieved) {
  LeaderSearch search = SearchOf(2);
  EXPECT_EQ(search.Next(kStart), 0u);
  EXPECT_FALSE(search.Welcomed(kStart, 0, 4, 5));
  EXPECT_EQ(search.Next(kStart), 1u);
  EXPECT_TRUE(search.Welcomed(kStart, 1, 5, 5));

  LeaderSearch alone = SearchOf(1);
  EXPECT_EQ(alone.Next(kStart), 0u);
  EXPECT_FALSE(alone.Welcomed(kStart, 0, 0, 5)) << "nor one that stands alone now";
  EXPECT_TRUE(alone.exhausted());
  EXPECT_EQ(ReasonOf(alone.why()), "stale_leader");
  EXPECT_TRUE(LeadsNot(alone.why()));
  EXPECT_FALSE(IsHopeless(alone.why()));
}

TEST(LeaderSearch, AnErrorOfOneServerIsItsOwn) {
  LeaderSearch search = SearchOf(1);
  EXPECT_EQ(search.Next(kStart), 0u);
  search.Failed(kStart, 0, BadToken());
  EXPECT_EQ(search.why(), BadToken());
}

TEST(LeaderSearch, TheErrorNamesEveryServerAndWhatIsWrongThere) {
  LeaderSearch search = SearchOf(3);
  EXPECT_EQ(search.Next(kStart), 0u);
  EXPECT_EQ(search.why().message(),
            "none of the servers at a:7070, b:7070, c:7070 was found to lead: a:7070 has not "
            "answered; b:7070 was not called; c:7070 was not called");
  search.Failed(kStart, 0, NotReached());
  EXPECT_EQ(search.Next(kStart), 1u);
  search.Failed(kStart, 1, BadToken());
  EXPECT_EQ(search.Next(kStart), 2u);
  search.Failed(kStart, 2, absl::UnavailableError(std::string(5000, 'x')));
  EXPECT_TRUE(search.exhausted());
  const std::string text(search.why().message());
  EXPECT_THAT(text, AllOf(HasSubstr("cannot connect to a:7070: refused; b:7070: no such key; c:"),
                          HasSubstr("c:7070: xxx")));
  EXPECT_LT(text.size(), 1000u);
  EXPECT_EQ(ReasonOf(search.why()), "token_unknown_key");
  EXPECT_TRUE(IsHopeless(search.why()));
}

TEST(LeaderSearch, TheFailureThatMayPassSpeaksForAll) {
  LeaderSearch search = SearchOf(4);
  for (const absl::Status& why :
       {absl::DeadlineExceededError("no answer in 5s"), NotReached(), BadToken()}) {
    const auto server = search.Next(kStart);
    ASSERT_TRUE(server.has_value());
    search.Failed(kStart, *server, why);
    EXPECT_EQ(search.why().code(), why.code());
  }
  EXPECT_EQ(search.Next(kStart), 3u);
  search.Failed(kStart, 3, NotLeader());
  EXPECT_EQ(ReasonOf(search.why()), "not_leader");
  EXPECT_EQ(search.why().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::link

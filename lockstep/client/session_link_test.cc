#include "lockstep/client/session_link.h"

#include <array>
#include <string>

#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

constexpr Time kStart = Time::FromNanoseconds(1'000'000'000);

SessionLink MakeLink() {
  return SessionLink({.server = "h:1",
                      .grace = absl::Minutes(1),
                      .backoff_first = absl::Milliseconds(10),
                      .backoff_last = absl::Seconds(1),
                      .seed = 7});
}

// Dialled and opened.
SessionLink OpenLink() {
  SessionLink link = MakeLink();
  link.Start(kStart);
  link.Ready(1);
  link.Opened(kStart, "reply");
  return link;
}

TEST(SessionLink, KeepsItsIdOverLinksAndDrawsAnotherToBeginAnew) {
  SessionLink link = MakeLink();
  link.Start(kStart);
  const auto first = link.Ready(1);
  EXPECT_FALSE(first.resume);
  EXPECT_TRUE(link.opens_with(1));
  link.Opened(kStart, "reply");
  ASSERT_TRUE(link.Lost(kStart + absl::Seconds(5), absl::UnavailableError("broken")));
  const auto second = link.Ready(2);
  EXPECT_TRUE(second.resume);
  EXPECT_EQ(second.session.data, first.session.data);
  link.Renew();
  EXPECT_FALSE(link.Lost(kStart + absl::Seconds(5), absl::UnavailableError("unknown")));
  ASSERT_TRUE(link.RedialDue(link.NextDeadline()));
  const auto third = link.Ready(3);
  EXPECT_FALSE(third.resume);
  EXPECT_NE(third.session.data, first.session.data);
}

// An id is what a session is resumed by: nobody may work it out.
TEST(SessionLink, ItsIdsSayNothingOfEachOtherAndTheJitterNothingOfThem) {
  const auto id = [](uint64_t seed, std::array<uint64_t, 2> id_seeds) {
    SessionLink link({.server = "h:1", .seed = seed, .id_seeds = id_seeds});
    link.Start(kStart);
    return link.Ready(1).session.data;
  };
  const std::string first = id(7, {1, 2});
  ASSERT_EQ(first.size(), 16);
  EXPECT_EQ(id(8, {1, 2}), first) << "the jitter has a seed of its own";
  const std::string other_end = id(7, {1, 3});
  EXPECT_EQ(other_end.substr(0, 8), first.substr(0, 8));
  EXPECT_NE(other_end.substr(8), first.substr(8)) << "half an id does not give the other half";
  EXPECT_NE(id(7, {3, 2}).substr(0, 8), first.substr(0, 8));
}

TEST(SessionLink, DialsAtOnceOnlyAfterALinkThatLasted) {
  SessionLink lasted = OpenLink();
  EXPECT_TRUE(lasted.Lost(kStart + absl::Seconds(1), absl::UnavailableError("x")));
  SessionLink broke = OpenLink();
  EXPECT_FALSE(broke.Lost(kStart + absl::Milliseconds(999), absl::UnavailableError("x")));
  EXPECT_FALSE(broke.RedialDue(kStart + absl::Milliseconds(999)));
  EXPECT_TRUE(broke.RedialDue(broke.NextDeadline()));
}

TEST(SessionLink, TheGraceBeginsWithTheLossOfAServerThatWasReached) {
  SessionLink never = MakeLink();
  never.Start(kStart);
  EXPECT_TRUE(never.GraceOver(kStart + absl::Hours(1)).ok());
  SessionLink link = OpenLink();
  EXPECT_TRUE(link.GraceOver(kStart + absl::Hours(1)).ok());
  link.Lost(kStart + absl::Seconds(5), absl::UnavailableError("broken"));
  EXPECT_TRUE(link.GraceOver(kStart + absl::Seconds(64)).ok());
  const absl::Status lost = link.GraceOver(kStart + absl::Seconds(65));
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(wire::native::ReasonOf(lost), "server_lost");
}

TEST(SessionLink, NamesEveryServerThatItMayLeadTo) {
  SessionLink link({.server = "h:1, i:2", .grace = absl::Minutes(1)});
  link.Start(kStart);
  EXPECT_EQ(link.Describe(kStart + absl::Seconds(5)),
            "the servers at h:1, i:2 have not been reached for 5s");
  link.Ready(1);
  link.Opened(kStart, "");
  EXPECT_EQ(link.Describe(kStart), "connected to one of the servers at h:1, i:2");
  link.Lost(kStart, absl::UnavailableError("broken"));
  EXPECT_EQ(link.Describe(kStart + absl::Seconds(5)),
            "the servers at h:1, i:2 have been away for 5s (broken)");
}

TEST(SessionLink, OnlyAServerThatWasNeverReachedIsHopeless) {
  const absl::Status why = wire::native::WithReason(absl::FailedPreconditionError("x"), "version");
  EXPECT_TRUE(MakeLink().IsHopeless(why));
  EXPECT_FALSE(MakeLink().IsHopeless(absl::UnavailableError("x")));
  EXPECT_FALSE(OpenLink().IsHopeless(why));
}

}  // namespace
}  // namespace lockstep::client

#include "lockstep/client/session_calls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr Time kStart = Time::FromNanoseconds(1'000'000'000);

class SessionCallsTest : public ::testing::Test {
 protected:
  // Under a number that is the ticket and 100.
  void Add(Ticket ticket, CallType type, absl::Duration timeout = absl::InfiniteDuration()) {
    calls_.Add(kStart, 100 + ticket,
               {.ticket = ticket, .type = type, .payload = "p", .deadline = kStart + timeout});
  }
  std::vector<RequestNumber> TakeAllUnsent() {
    std::vector<RequestNumber> numbers;
    for (auto next = calls_.TakeUnsent(); next.call != nullptr; next = calls_.TakeUnsent()) {
      numbers.push_back(next.number);
    }
    return numbers;
  }

  SessionCalls calls_{{.job = "digits",
                       .server = "h:1",
                       .calls_max = 3,
                       .bytes_max = 100,
                       .message_bytes_max = 1000}};
};

TEST_F(SessionCallsTest, SendsEachOncePerLinkInOrderButForTheOpening) {
  Add(1, CallType::kEffect);
  Add(2, CallType::kOpen);
  Add(3, CallType::kWait);
  EXPECT_THAT(TakeAllUnsent(), ElementsAre(101, 103));
  EXPECT_TRUE(calls_.Sent(101));
  EXPECT_FALSE(calls_.Sent(102));
  calls_.LinkLost();
  EXPECT_FALSE(calls_.Sent(101));
  calls_.Complete(kStart, 101, "answer");
  EXPECT_THAT(TakeAllUnsent(), ElementsAre(103));
  EXPECT_FALSE(calls_.Sent(101));
}

TEST_F(SessionCallsTest, FindsACallByItsTicketUntilItIsComplete) {
  for (const Ticket ticket : {5, 7}) Add(ticket, CallType::kRead);
  EXPECT_THAT(calls_.NumberOf(5), Optional(105u));
  EXPECT_THAT(calls_.NumberOf(7), Optional(107u));
  EXPECT_EQ(calls_.NumberOf(6), std::nullopt);
  calls_.Complete(kStart, 107, "answer");
  EXPECT_EQ(calls_.NumberOf(7), std::nullopt);
  EXPECT_THAT(calls_.NumberOf(5), Optional(105u));
}

TEST_F(SessionCallsTest, AnErrorSaysWhoWaitedForHowLong) {
  Add(1, CallType::kRead);
  const CompletedCall done =
      calls_.Complete(kStart + absl::Seconds(2), 101, absl::InternalError("x"));
  EXPECT_EQ(done.ticket, 1u);
  const auto details = wire::native::DetailsOf(done.answer.status());
  EXPECT_EQ(details.at("job"), "digits");
  EXPECT_EQ(details.at("server"), "h:1");
  EXPECT_EQ(details.at("waited_ms"), "2000");
  EXPECT_EQ(calls_.NumberOf(1), std::nullopt);
  EXPECT_TRUE(calls_.empty());
}

TEST_F(SessionCallsTest, NamesTheLimitThatIsReached) {
  const auto text = [this](const Call& call) {
    return std::string(calls_.CheckRoom(call, RequestWindow()).message());
  };
  EXPECT_EQ(text({.payload = "p"}), "");
  EXPECT_THAT(text({.payload = std::string(101, 'p')}), HasSubstr("client_call_bytes_max"));
  EXPECT_THAT(text({.payload = std::string(985, 'p')}), HasSubstr("message_bytes_max"));
  for (const Ticket ticket : {1, 2, 3}) Add(ticket, CallType::kRead);
  EXPECT_THAT(text({.payload = "p"}), HasSubstr("client_calls_max"));
}

TEST_F(SessionCallsTest, TimesOutInTheOrderOfTheDeadlines) {
  Add(1, CallType::kWait, absl::Seconds(5));
  Add(2, CallType::kWait, absl::Seconds(3));
  EXPECT_EQ(calls_.NextDeadline(), kStart + absl::Seconds(3));
  EXPECT_EQ(calls_.TimedOut(kStart + absl::Seconds(2)), std::nullopt);
  EXPECT_THAT(calls_.TimedOut(kStart + absl::Seconds(9)), Optional(102u));
  calls_.Complete(kStart, 102, "answer");
  EXPECT_THAT(calls_.TimedOut(kStart + absl::Seconds(9)), Optional(101u));
}

}  // namespace
}  // namespace lockstep::client

#include "lockstep/rendezvous/transport/conversation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using rendezvous::Reason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ConversationId kOurs = {1};
constexpr ConversationId kTheirs = {2};

// A conversation with a clock, and what it wanted done by the last call.
class ConversationTest : public ::testing::Test {
 protected:
  static Conversation::Options Smaller() {
    return {.self = MemberIndex(0),
            .peer = MemberIndex(1),
            .incarnation = Incarnation(10),
            .peer_incarnation = Incarnation(11),
            .conversation = kOurs,
            .peer_name = "task/1 at h:1",
            .unacknowledged_messages_max = 100};
  }
  static Conversation::Options Greater() {
    Conversation::Options options = Smaller();
    std::swap(options.self, options.peer);
    return options;
  }

  explicit ConversationTest(Conversation::Options options = Smaller()) : machine_(options) {}

  Conversation::Effects& Clear() { return out_ = {}; }
  static Greeting From(uint64_t turn, uint64_t received = 0) {
    return {.conversation = kTheirs,
            .incarnation = Incarnation(11),
            .received_through = received,
            .turn = turn};
  }
  LinkId Start() {
    machine_.Start(now_, Clear());
    EXPECT_TRUE(out_.dial.has_value());
    return link_ = out_.dial->link;
  }
  void Up(uint64_t turn = 1) {
    Start();
    machine_.LinkUp(now_, link_, From(turn), Clear());
    ASSERT_TRUE(machine_.up());
  }
  LinkId TakeDial(const Greeting& hello) {
    const LinkId link = machine_.NewLink();
    machine_.TakeDial(now_, link, hello, Clear());
    return link;
  }
  void Down(LinkId link) {
    machine_.LinkDown(now_, link, absl::UnavailableError("refused"), Clear());
  }
  void Send() { machine_.Send(std::make_shared<const std::string>("m"), Clear()); }
  void Take(uint64_t number, uint64_t acknowledged = 0, std::string payload = "x") {
    machine_.Take(now_, link_, number, acknowledged, std::move(payload), Clear());
  }
  void Advance(absl::Duration by) {
    now_ = now_ + by;
    machine_.ReachDeadline(now_, Clear());
  }
  std::vector<uint64_t> Numbers() const {
    std::vector<uint64_t> numbers;
    for (const auto& message : out_.send) numbers.push_back(message.number);
    return numbers;
  }

  Conversation machine_;
  Time now_ = Time::FromNanoseconds(1'000'000'000'000);
  Conversation::Effects out_;
  LinkId link_;
};

class GreaterConversationTest : public ConversationTest {
 protected:
  GreaterConversationTest() : ConversationTest(Greater()) {}
};

TEST_F(ConversationTest, KeepsWhatIsNotAcknowledgedAndSendsItOnTheNextLink) {
  Start();
  Send();
  EXPECT_TRUE(out_.send.empty());
  machine_.LinkUp(now_, link_, From(1), Clear());
  EXPECT_THAT(Numbers(), ElementsAre(1));
  Send();
  Send();
  EXPECT_THAT(Numbers(), ElementsAre(3));
  now_ = now_ + absl::Seconds(2);
  Down(link_);
  ASSERT_TRUE(out_.dial.has_value());
  link_ = out_.dial->link;
  machine_.LinkUp(now_, link_, From(2, /*received=*/1), Clear());
  EXPECT_THAT(Numbers(), ElementsAre(2, 3));
}

TEST_F(ConversationTest, SaysInItsHelloWhatItHasReceived) {
  Up();
  Take(1);
  Take(2);
  now_ = now_ + absl::Seconds(2);
  Down(link_);
  EXPECT_EQ(out_.dial->hello.received_through, 2u);
  EXPECT_EQ(out_.dial->hello.yours, kTheirs);
}

TEST_F(ConversationTest, DropsWhatComesTwice) {
  Up();
  Take(1);
  EXPECT_EQ(out_.deliver.size(), 1u);
  Take(1);
  EXPECT_TRUE(out_.deliver.empty());
  EXPECT_EQ(out_.lost, nullptr);
}

TEST_F(ConversationTest, EndsWithAGap) {
  Up();
  Take(2);
  ASSERT_NE(out_.lost, nullptr);
  EXPECT_EQ(out_.lost->reason, Reason::kProtocol);
  EXPECT_THAT(out_.close, ElementsAre(link_));
}

TEST_F(ConversationTest, EndsWhenWhatWasNeverSentIsAcknowledged) {
  Up();
  Take(0, /*acknowledged=*/1);
  ASSERT_NE(out_.lost, nullptr);
  EXPECT_EQ(out_.lost->reason, Reason::kProtocol);
}

TEST_F(ConversationTest, AcknowledgesWithTheNextMessageOrAfterAWhile) {
  Up();
  Take(1);
  Send();
  EXPECT_EQ(out_.send.at(0).acknowledged, 1u);
  EXPECT_TRUE(machine_.NextDeadline().is_infinite());
  Take(2);
  EXPECT_EQ(machine_.NextDeadline(), now_ + absl::Milliseconds(1));
  Advance(absl::Milliseconds(1));
  EXPECT_THAT(Numbers(), ElementsAre(0));
  EXPECT_EQ(out_.send[0].acknowledged, 2u);
}

TEST_F(ConversationTest, AcknowledgesAtOnceWhatIsMuch) {
  Up();
  for (uint64_t number = 1; number < 64; ++number) {
    Take(number);
    ASSERT_TRUE(out_.send.empty());
  }
  Take(64);
  EXPECT_THAT(Numbers(), ElementsAre(0));
  Take(65, 0, std::string(size_t{1} << 20, 'x'));
  EXPECT_THAT(Numbers(), ElementsAre(0));
}

TEST_F(ConversationTest, IsFullUntilEnoughIsAcknowledgedAndDropsNothing) {
  Up();
  for (int i = 0; i < 99; ++i) Send();
  EXPECT_FALSE(machine_.full());
  Send();
  EXPECT_TRUE(machine_.full());
  Send();
  EXPECT_THAT(Numbers(), ElementsAre(101));
  Take(0, /*acknowledged=*/2);
  EXPECT_FALSE(machine_.full());
}

TEST_F(ConversationTest, RedialsMoreSlowlyUntilTheGraceIsOver) {
  Start();
  const Time began = now_;
  int dials = 1;
  while (out_.lost == nullptr) {
    Down(link_);
    const absl::Duration wait = machine_.NextDeadline() - now_;
    EXPECT_LE(wait, absl::Seconds(1));
    EXPECT_LE(wait, absl::Milliseconds(10) * (int64_t{1} << std::min(dials - 1, 7)));
    Advance(wait);
    if (!out_.dial.has_value()) continue;
    ++dials;
    link_ = out_.dial->link;
  }
  EXPECT_EQ(now_ - began, absl::Seconds(30));
  EXPECT_EQ(out_.lost->reason, Reason::kUnreachable);
  EXPECT_THAT(out_.lost->message, HasSubstr("30s"));
  EXPECT_THAT(out_.lost->message, HasSubstr("task/1 at h:1"));
  EXPECT_THAT(out_.lost->message, HasSubstr("refused"));
  EXPECT_THAT(out_.lost->message, HasSubstr(std::to_string(dials) + " attempts"));
}

TEST_F(ConversationTest, HoldsTheDialOfTheGreaterUntilItsOwnIsAnswered) {
  Start();
  const LinkId theirs = TakeDial(From(1));
  EXPECT_FALSE(out_.welcome.has_value());
  EXPECT_TRUE(out_.close.empty());
  machine_.LinkUp(now_, link_, From(2), Clear());
  EXPECT_THAT(out_.close, ElementsAre(theirs));
  EXPECT_TRUE(machine_.up());
}

TEST_F(ConversationTest, TakesTheDialThatItHoldsWhenItsOwnFails) {
  Start();
  const LinkId theirs = TakeDial(From(1));
  Down(link_);
  ASSERT_TRUE(out_.welcome.has_value());
  EXPECT_EQ(out_.welcome->link, theirs);
  EXPECT_TRUE(machine_.up());
}

TEST_F(ConversationTest, TakesTheDialThatCameAfterTheWelcomeOfItsOwn) {
  Start();
  const LinkId theirs = TakeDial(From(3));
  machine_.LinkUp(now_, link_, From(2), Clear());
  EXPECT_THAT(out_.close, ElementsAre(link_));
  ASSERT_TRUE(out_.welcome.has_value());
  EXPECT_EQ(out_.welcome->link, theirs);
}

TEST_F(GreaterConversationTest, DropsItsOwnDialForThatOfTheSmaller) {
  Start();
  const LinkId theirs = TakeDial(From(1));
  EXPECT_THAT(out_.close, ElementsAre(link_));
  ASSERT_TRUE(out_.welcome.has_value());
  EXPECT_EQ(out_.welcome->link, theirs);
  EXPECT_TRUE(machine_.up());
}

TEST_F(ConversationTest, ClosesTheLinkOfAHelloThatWasOvertaken) {
  Up(/*turn=*/2);
  const LinkId stale = TakeDial(From(1));
  EXPECT_THAT(out_.close, ElementsAre(stale));
  EXPECT_TRUE(machine_.up());
  TakeDial(From(3));
  EXPECT_THAT(out_.close, ElementsAre(link_));
  EXPECT_TRUE(out_.welcome.has_value());
}

TEST_F(ConversationTest, IsLostToAPeerThatBeganAnew) {
  Up();
  Greeting other = From(5);
  other.conversation = {9};
  TakeDial(other);
  ASSERT_NE(out_.lost, nullptr);
  EXPECT_EQ(out_.lost->reason, Reason::kPeerRestarted);
}

TEST_F(ConversationTest, IsLostToAnotherIncarnation) {
  Start();
  Greeting other = From(1);
  other.incarnation = Incarnation(12);
  machine_.LinkUp(now_, link_, other, Clear());
  ASSERT_NE(out_.lost, nullptr);
  EXPECT_EQ(out_.lost->reason, Reason::kPeerRestarted);
}

TEST_F(ConversationTest, TellsWhoWantsAFormerLifeOfItThatItIsAnother) {
  Up();
  Greeting late = From(5, /*received=*/7);
  late.yours = ConversationId{8};
  const LinkId link = TakeDial(late);
  ASSERT_TRUE(out_.welcome.has_value());
  EXPECT_EQ(out_.welcome->link, link);
  EXPECT_TRUE(out_.welcome->last);
  EXPECT_EQ(out_.lost, nullptr);
  EXPECT_TRUE(machine_.up());
}

TEST_F(ConversationTest, RendezvousRow70_WhoIsForAFormerLifeIsTakenByNobody) {
  Start();
  Greeting for_another = From(1);
  for_another.yours = ConversationId{8};
  const LinkId link = TakeDial(for_another);
  ASSERT_TRUE(out_.welcome.has_value());
  EXPECT_TRUE(out_.welcome->last) << "it learns that we are another";
  machine_.Take(now_, link, 1, 0, "for a former life", Clear());
  EXPECT_TRUE(out_.deliver.empty());
}

TEST_F(ConversationTest, RendezvousRow80_APeerThatWasStartedAgainIsNotTakenForTheFormer) {
  Up();
  now_ = now_ + absl::Seconds(2);
  Down(link_);
  Greeting other = From(1);
  other.conversation = {9};
  other.incarnation = Incarnation(12);
  const LinkId link = TakeDial(other);
  ASSERT_NE(out_.lost, nullptr);
  EXPECT_EQ(out_.lost->code, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(out_.lost->reason, Reason::kPeerRestarted);
  EXPECT_THAT(out_.lost->message, HasSubstr("task/1 at h:1 was started again"));
  machine_.Take(now_, link, 1, 0, "of another life", Clear());
  EXPECT_TRUE(out_.deliver.empty());
}

TEST_F(ConversationTest, GivesUpADialThatIsNotAnswered) {
  Start();
  Advance(absl::Seconds(5));
  EXPECT_THAT(out_.close, ElementsAre(link_));
  EXPECT_LE(machine_.NextDeadline(), now_ + absl::Milliseconds(10));
}

TEST_F(ConversationTest, DoesNothingAfterItsEnd) {
  Up();
  machine_.Close(Clear());
  EXPECT_THAT(out_.close, ElementsAre(link_));
  EXPECT_EQ(out_.lost, nullptr);
  Send();
  Take(1);
  Down(link_);
  EXPECT_TRUE(out_.send.empty() && out_.deliver.empty() && !out_.dial.has_value());
  EXPECT_TRUE(machine_.NextDeadline().is_infinite());
}

}  // namespace
}  // namespace lockstep::transport

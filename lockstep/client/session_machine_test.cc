#include "lockstep/client/session_machine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using link::FrameType;
using link::KindOf;
using link::Message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace native = wire::native;

absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view text = "x") {
  return native::WithReason(absl::Status(code, absl::string_view(text.data(), text.size())),
                            reason);
}

// A machine with a clock, and what it wanted done.
class SessionMachineTest : public ::testing::Test {
 protected:
  using Effects = SessionMachine::Effects;

  explicit SessionMachineTest(SessionMachine::Options options = {.job = "digits",
                                                                 .server = "h:1",
                                                                 .fan_out_port = 7,
                                                                 .seed = 7})
      : fan_out_port_(options.fan_out_port), machine_(std::move(options)) {}

  void Start() { machine_.Start(now_, Clear()); }

  // Dialed, welcomed, opened.
  void Open(bool resumed = false) {
    ASSERT_TRUE(out_.dial);
    machine_.LinkReady(now_, 1024, 0, Clear());
    ASSERT_EQ(out_.send.size(), 1u);
    ASSERT_EQ(out_.send[0].kind, KindOf<native::OpenSession>::kKind);
    const auto open = native::Decode<native::OpenSession>(out_.send[0].payload);
    ASSERT_TRUE(open.ok());
    EXPECT_EQ(open->resume, resumed);
    EXPECT_TRUE(open->shares_answers);
    EXPECT_EQ(open->fan_out_port, fan_out_port_);
    sessions_.push_back(open->session.data);
    Answer(out_.send[0].id, native::Encode(native::OpenSessionReply{.attempt = 1, .size = 2}));
  }

  Effects& Clear() {
    out_ = {};
    return out_;
  }
  Effects& Submit(Ticket ticket, CallType type, link::RequestKind kind = 99,
                  absl::Duration timeout = absl::InfiniteDuration()) {
    machine_.Submit(now_,
                    {.ticket = ticket,
                     .kind = kind,
                     .type = type,
                     .payload = "p",
                     .deadline = now_ + timeout,
                     .what = "barrier 'loaded'"},
                    Clear());
    return out_;
  }
  void Answer(uint64_t id, std::string payload = "") {
    machine_.Take(now_, {.type = FrameType::kAnswer, .id = id, .payload = std::move(payload)},
                  Clear());
  }
  void Fail(uint64_t id, const absl::Status& status) {
    machine_.Take(now_,
                  {.type = FrameType::kError,
                   .id = id,
                   .payload = native::Encode(native::ToErrorReply(status))},
                  Clear());
  }
  void Lose() { machine_.LinkLost(now_, absl::UnavailableError("broken"), Clear()); }
  void Advance(absl::Duration by) {
    now_ = now_ + by;
    machine_.ReachDeadline(now_, Clear());
  }
  // Runs the clock to the next deadline.
  void Wait() {
    ASSERT_FALSE(machine_.NextDeadline().is_infinite());
    now_ = std::max(now_, machine_.NextDeadline());
    machine_.ReachDeadline(now_, Clear());
  }
  void Join() {
    Submit(1, CallType::kWait, KindOf<native::JoinJob>::kKind);
    Answer(out_.send.at(0).id);
    ASSERT_EQ(out_.send.at(0).kind, KindOf<native::PollForError>::kKind);
    poll_ = out_.send[0].id;
  }
  std::vector<uint64_t> SentIds() const {
    std::vector<uint64_t> ids;
    for (const Message& message : out_.send) ids.push_back(message.id);
    return ids;
  }
  std::vector<Ticket> Completed() const {
    std::vector<Ticket> tickets;
    for (const auto& completed : out_.completed) tickets.push_back(completed.ticket);
    return tickets;
  }
  // The reason why the only call that was completed failed.
  std::string ReasonOfOne() const {
    if (out_.completed.size() != 1) return "not one";
    return native::ReasonOf(out_.completed[0].answer.status());
  }
  std::string TextOfOne() const {
    return std::string(out_.completed.at(0).answer.status().message());
  }

  const uint16_t fan_out_port_;
  SessionMachine machine_;
  Time now_ = Time::FromNanoseconds(1'000'000'000'000);
  Effects out_;
  std::vector<std::string> sessions_;
  uint64_t poll_ = 0;
};

TEST_F(SessionMachineTest, SendsNothingBeforeTheSessionIsOpen) {
  Start();
  Submit(1, CallType::kRead);
  EXPECT_THAT(out_.send, IsEmpty());
  out_.dial = true;
  Open();
  ASSERT_EQ(out_.send.size(), 1u);
  EXPECT_EQ(out_.send[0].kind, 99u);
  EXPECT_TRUE(out_.send[0].must_understand);
}

TEST_F(SessionMachineTest, SaysOnceThatTheServerIsOutOfReachAndThatItIsBack) {
  Start();
  Open();
  EXPECT_EQ(out_.server_news, "");
  Lose();
  EXPECT_EQ(out_.server_news,
            "the server at h:1 is unreachable (broken); calls wait for it, at most 1m");
  Lose();
  EXPECT_EQ(out_.server_news, "") << "it still is";
  Wait();
  Open(/*resumed=*/true);
  EXPECT_THAT(out_.server_news, HasSubstr("the server at h:1 is back after "));
}

TEST_F(SessionMachineTest, CompletesEachCallWithItsOwnAnswerInAnyOrder) {
  Start();
  Open();
  const uint64_t first = Submit(1, CallType::kRead).send.at(0).id;
  const uint64_t second = Submit(2, CallType::kRead).send.at(0).id;
  EXPECT_LT(first, second);
  Answer(second, "two");
  EXPECT_THAT(Completed(), ElementsAre(2));
  EXPECT_EQ(*out_.completed[0].answer, "two");
  Answer(second, "again");
  EXPECT_THAT(Completed(), IsEmpty());
  Answer(first, "one");
  EXPECT_THAT(Completed(), ElementsAre(1));
}

TEST_F(SessionMachineTest, SendsWhatHasNoAnswerAgainInOrderUnderTheOldNumbers) {
  Start();
  Open();
  const uint64_t first = Submit(1, CallType::kEffect).send.at(0).id;
  const uint64_t second = Submit(2, CallType::kWait).send.at(0).id;
  const uint64_t third = Submit(3, CallType::kEffect).send.at(0).id;
  Answer(first);
  Advance(absl::Seconds(2));
  Lose();
  EXPECT_TRUE(out_.dial);
  Open(/*resumed=*/true);
  EXPECT_THAT(SentIds(), ElementsAre(second, third));
  EXPECT_EQ(sessions_[0], sessions_[1]);
  EXPECT_EQ(sessions_[0].size(), 16u);
}

TEST_F(SessionMachineTest, DialsAgainAtOnceThenLaterAndLater) {
  Start();
  Open();
  Advance(absl::Seconds(2));
  Lose();
  EXPECT_TRUE(out_.dial);
  std::vector<absl::Duration> pauses;
  for (int i = 0; i < 12; ++i) {
    Lose();
    EXPECT_FALSE(out_.dial);
    const Time before = now_;
    Wait();
    ASSERT_TRUE(out_.dial);
    pauses.push_back(now_ - before);
  }
  EXPECT_GE(pauses[0], absl::Milliseconds(5));
  EXPECT_LE(pauses[0], absl::Milliseconds(10));
  EXPECT_GE(pauses.back(), absl::Milliseconds(500));
  EXPECT_LE(pauses.back(), absl::Seconds(1));
}

TEST_F(SessionMachineTest, DoesNotDialInACircleWhenEachLinkBreaksAtOnce) {
  Start();
  Open();
  Lose();
  EXPECT_FALSE(out_.dial) << "a link that lasted no time is a failed attempt";
}

TEST_F(SessionMachineTest, TwoSeedsDoNotComeBackTogether) {
  const auto pause = [](uint64_t seed) {
    SessionMachine machine({.job = "j", .server = "s", .seed = seed});
    SessionMachine::Effects out;
    const Time now = Time::FromNanoseconds(1);
    machine.Start(now, out);
    machine.LinkLost(now, absl::UnavailableError("x"), out);
    return machine.NextDeadline() - now;
  };
  EXPECT_NE(pause(1), pause(2));
  EXPECT_EQ(pause(1), pause(1));
}

TEST_F(SessionMachineTest, GivesTheServerUpWhenTheGraceIsOver) {
  Start();
  Open();
  Submit(1, CallType::kWait);
  Submit(2, CallType::kRead);
  Advance(absl::Seconds(2));
  Lose();
  for (int i = 0; i < 200 && out_.completed.empty(); ++i) {
    if (out_.dial) Lose();
    Wait();
  }
  EXPECT_THAT(Completed(), ElementsAre(1, 2));
  EXPECT_EQ(native::ReasonOf(out_.completed[0].answer.status()), "server_lost");
  EXPECT_THAT(std::string(out_.completed[0].answer.status().message()),
              HasSubstr("h:1 has been away for 1m (broken)"));
  ASSERT_TRUE(out_.failed.has_value());
  EXPECT_EQ(native::ReasonOf(*out_.failed), "server_lost");
  Submit(3, CallType::kRead);
  EXPECT_EQ(ReasonOfOne(), "server_lost");
  EXPECT_TRUE(machine_.NextDeadline().is_infinite());
}

TEST_F(SessionMachineTest, AServerThatWasNeverReachedIsLookedForAsLongAsSomebodyWaits) {
  Start();
  Submit(1, CallType::kOpen, 0, absl::Minutes(5));
  Lose();
  for (int i = 0; i < 1000 && out_.completed.empty(); ++i) {
    if (out_.dial) Lose();
    Wait();
  }
  EXPECT_EQ(ReasonOfOne(), "deadline_exceeded");
  EXPECT_THAT(TextOfOne(), HasSubstr("has not been reached for 5m (broken)"));
}

TEST_F(SessionMachineTest, AServerOfAnotherVersionIsNotAskedTwice) {
  Start();
  Submit(1, CallType::kOpen, 0);
  machine_.LinkLost(now_, Error(absl::StatusCode::kFailedPrecondition, "version"), Clear());
  EXPECT_EQ(ReasonOfOne(), "version");
  EXPECT_TRUE(machine_.ended());
}

TEST_F(SessionMachineTest, AServerOfAnotherUserIsNotAskedTwice) {
  Start();
  Submit(1, CallType::kOpen, 0);
  machine_.LinkLost(now_, Error(absl::StatusCode::kFailedPrecondition, "not_allowed"), Clear());
  EXPECT_EQ(ReasonOfOne(), "not_allowed");
  EXPECT_TRUE(machine_.ended());
}

TEST_F(SessionMachineTest, TellsTheCancelledCallAtOnceAndTheServerToo) {
  Start();
  Open();
  const uint64_t id = Submit(1, CallType::kWait).send.at(0).id;
  machine_.Cancel(now_, 1, Clear());
  EXPECT_EQ(ReasonOfOne(), "cancelled");
  ASSERT_EQ(out_.send.size(), 1u);
  EXPECT_EQ(out_.send[0].type, FrameType::kCancel);
  EXPECT_EQ(out_.send[0].id, id);
  Answer(id, "too late");
  EXPECT_THAT(Completed(), IsEmpty());
  machine_.Cancel(now_, 1, Clear());
  EXPECT_THAT(Completed(), IsEmpty());
  Advance(absl::Seconds(2));
  Lose();
  Open(/*resumed=*/true);
  EXPECT_THAT(SentIds(), IsEmpty()) << "what was given up is not asked for again";
}

TEST_F(SessionMachineTest, EndsAWaitAtItsDeadlineAndSaysForWhatItWaited) {
  Start();
  Open();
  Submit(1, CallType::kWait, 99, absl::Seconds(5));
  EXPECT_EQ(machine_.NextDeadline(), now_ + absl::Seconds(5));
  Wait();
  EXPECT_EQ(ReasonOfOne(), "deadline_exceeded");
  EXPECT_THAT(TextOfOne(), HasSubstr("waited 5s for barrier 'loaded'; connected to the server"));
  const auto details = native::DetailsOf(out_.completed[0].answer.status());
  EXPECT_EQ(details.at("job"), "digits");
  EXPECT_EQ(details.at("waited_ms"), "5000");
  EXPECT_EQ(out_.send.at(0).type, FrameType::kCancel);
}

TEST_F(SessionMachineTest, NoTimeAtAllIsNotWorthARequest) {
  Start();
  Open();
  Submit(1, CallType::kWait, 99, absl::ZeroDuration());
  EXPECT_EQ(ReasonOfOne(), "deadline_exceeded");
  EXPECT_THAT(out_.send, IsEmpty());
}

TEST_F(SessionMachineTest, GivesTheServerLessTimeThanTheCallerAndAfterABreakWhatIsLeft) {
  Start();
  Open();
  Advance(absl::Seconds(2));
  native::Barrier barrier = {.id = "b"};
  machine_.Submit(now_,
                  {.ticket = 1,
                   .kind = KindOf<native::Barrier>::kKind,
                   .type = CallType::kWait,
                   .payload = native::Encode(barrier),
                   .timeout_field = 3,
                   .deadline = now_ + absl::Seconds(60)},
                  Clear());
  EXPECT_EQ(native::Decode<native::Barrier>(out_.send.at(0).payload)->timeout_us, 59'800'000);
  now_ = now_ + absl::Seconds(59);
  Lose();
  Open(/*resumed=*/true);
  EXPECT_EQ(native::Decode<native::Barrier>(out_.send.at(0).payload)->timeout_us, 900'000);
}

TEST_F(SessionMachineTest, SaysWhichAnswersHaveComeOnceInAWhile) {
  Start();
  Open();
  const uint64_t first = Submit(1, CallType::kEffect).send.at(0).id;
  const uint64_t second = Submit(2, CallType::kEffect).send.at(0).id;
  Submit(3, CallType::kWait);
  Answer(second);
  Wait();
  ASSERT_EQ(out_.send.size(), 1u);
  EXPECT_LT(native::Decode<native::Answered>(out_.send[0].payload)->through, first)
      << "the first has no answer yet";
  Answer(first);
  Wait();
  ASSERT_EQ(out_.send.size(), 1u);
  EXPECT_EQ(out_.send[0].type, FrameType::kAnswered);
  EXPECT_EQ(native::Decode<native::Answered>(out_.send[0].payload)->through, second)
      << "what is parked does not hold it back";
}

TEST_F(SessionMachineTest, SaysItAfterABatchWithoutWaiting) {
  Start();
  Open();
  size_t told = 0;
  for (Ticket ticket = 1; ticket <= 640; ++ticket) {
    Answer(Submit(ticket, CallType::kEffect).send.at(0).id);
    for (const Message& message : out_.send) told += message.type == FrameType::kAnswered;
  }
  EXPECT_EQ(told, 10u);
}

TEST_F(SessionMachineTest, KeepsPollingOnceItHasJoinedAndSaysWhereItIs) {
  Start();
  Open();
  Join();
  machine_.Progress(now_, 5, "training", Clear());
  EXPECT_THAT(out_.send, IsEmpty()) << "joining was a sign of life a moment ago";
  EXPECT_EQ(machine_.NextDeadline(), now_ + absl::Milliseconds(100));
  machine_.Progress(now_, 6, "", Clear());
  Wait();
  ASSERT_EQ(out_.send.size(), 1u);
  const auto report = native::Decode<native::ReportProgress>(out_.send[0].payload);
  EXPECT_EQ(report->step, 6);
  EXPECT_EQ(report->phase, "training");
  Answer(out_.send[0].id);
  EXPECT_EQ(machine_.NextDeadline(), now_ + absl::Seconds(1));
  Wait();
  EXPECT_EQ(out_.send.at(0).kind, KindOf<native::ReportProgress>::kKind);
  EXPECT_EQ(out_.send[0].payload, "") << "nothing new";
  Lose();
  if (!out_.dial) Wait();
  Open(/*resumed=*/true);
  ASSERT_EQ(out_.send.size(), 2u);
  EXPECT_EQ(out_.send[0].kind, KindOf<native::PollForError>::kKind);
  EXPECT_EQ(out_.send[1].kind, KindOf<native::ReportProgress>::kKind);
}

TEST_F(SessionMachineTest, TheFirstErrorEndsAllWaitsAndIsToldOnce) {
  Start();
  Open();
  Join();
  const uint64_t wait = Submit(2, CallType::kWait).send.at(0).id;
  Submit(3, CallType::kRead);
  Submit(4, CallType::kWatch);
  Fail(poll_, Error(absl::StatusCode::kUnavailable, "process_ended", "trainer/3#1 has ended"));
  EXPECT_THAT(Completed(), ElementsAre(2));
  EXPECT_EQ(ReasonOfOne(), "process_ended");
  EXPECT_EQ(TextOfOne(), "trainer/3#1 has ended");
  EXPECT_EQ(out_.send.at(0).type, FrameType::kCancel);
  EXPECT_EQ(out_.send.at(0).id, wait);
  ASSERT_TRUE(out_.failed.has_value());
  Submit(5, CallType::kWait);
  EXPECT_EQ(ReasonOfOne(), "process_ended") << "a wait would never end";
  EXPECT_EQ(Submit(6, CallType::kRead).send.size(), 1u) << "reading goes on";
}

TEST_F(SessionMachineTest, WhoHasLeftWatchesNothingAnyMore) {
  Start();
  Open();
  Join();
  Submit(2, CallType::kWatch);
  const uint64_t write = Submit(3, CallType::kEffect).send.at(0).id;
  Answer(Submit(4, CallType::kWatch, KindOf<native::LeaveJob>::kKind).send.at(0).id);
  EXPECT_THAT(Completed(), ElementsAre(4, 2));
  EXPECT_EQ(out_.completed.at(1).answer.status().code(), absl::StatusCode::kCancelled);
  Answer(write);
  EXPECT_THAT(Completed(), ElementsAre(3)) << "it was there before";
  for (const CallType type : {CallType::kWatch, CallType::kRead, CallType::kEffect}) {
    EXPECT_THAT(Submit(5, type).send, IsEmpty());
    EXPECT_EQ(ReasonOfOne(), "member_left");
    EXPECT_EQ(out_.completed.at(0).answer.status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(SessionMachineTest, APhaseIsCutToWhatTheServerTakes) {
  Start();
  Open();
  Join();
  const auto phase_told = [&](const std::string& phase) {
    machine_.Progress(now_, 1, phase, Clear());
    Wait();
    const auto report = native::Decode<native::ReportProgress>(out_.send.at(0).payload);
    Answer(out_.send.at(0).id);
    return report.ok() ? report->phase : std::string(report.status().message());
  };
  EXPECT_EQ(phase_told(std::string(256, 'p')), std::string(256, 'p'));
  // The last character, of two bytes, would end at the 257th.
  EXPECT_EQ(phase_told(std::string(255, 'p') + "\xC3\xBC and so on"), std::string(255, 'p'));
  EXPECT_EQ(phase_told("a\xFF"), "a\xEF\xBF\xBD");
}

TEST_F(SessionMachineTest, AServerThatStopsIsWaitedForLikeOneThatDied) {
  Start();
  Open();
  Join();
  Submit(2, CallType::kWait);
  Advance(absl::Seconds(2));
  Fail(poll_, Error(absl::StatusCode::kCancelled, "service_stopped"));
  EXPECT_THAT(Completed(), IsEmpty());
  EXPECT_TRUE(out_.drop_link);
  EXPECT_TRUE(out_.dial);
  Open(/*resumed=*/true);
  EXPECT_EQ(out_.send.size(), 3u) << "the poll, the heartbeat and the wait";
}

TEST_F(SessionMachineTest, AServerWithoutMemoryEndsTheMembership) {
  Start();
  Open();
  Join();
  Submit(2, CallType::kWait);
  Advance(absl::Seconds(2));
  Lose();
  machine_.LinkReady(now_, 1024, 0, Clear());
  Fail(out_.send.at(0).id, Error(absl::StatusCode::kFailedPrecondition, "unknown_session"));
  EXPECT_THAT(Completed(), ElementsAre(2));
  EXPECT_EQ(ReasonOfOne(), "unknown_session");
  EXPECT_THAT(TextOfOne(), HasSubstr("join again"));
  EXPECT_TRUE(out_.failed.has_value());
  EXPECT_TRUE(machine_.ended());
}

TEST_F(SessionMachineTest, WhoHasNotJoinedYetBeginsAnewWithAServerWithoutMemory) {
  Start();
  Open();
  Submit(1, CallType::kWait, KindOf<native::JoinJob>::kKind);
  Advance(absl::Seconds(2));
  Lose();
  machine_.LinkReady(now_, 1024, 0, Clear());
  Fail(out_.send.at(0).id, Error(absl::StatusCode::kFailedPrecondition, "unknown_session"));
  EXPECT_THAT(Completed(), IsEmpty());
  if (!out_.dial) Wait();
  Open(/*resumed=*/false);
  EXPECT_NE(sessions_[0], sessions_[1]);
  EXPECT_EQ(out_.send.at(0).kind, KindOf<native::JoinJob>::kKind);
}

TEST_F(SessionMachineTest, SendsNoMoreThanTheServerTakesAndTheRestWhenThereIsRoom) {
  Start();
  ASSERT_TRUE(out_.dial);
  machine_.LinkReady(now_, 32, 0, Clear());
  Answer(out_.send.at(0).id);
  std::vector<uint64_t> sent;
  for (Ticket ticket = 1; ticket <= 100; ++ticket) {
    for (uint64_t id : (Submit(ticket, CallType::kRead), SentIds())) sent.push_back(id);
  }
  EXPECT_EQ(sent.size(), 24u) << "some room is left for heartbeats";
  Answer(sent[0]);
  EXPECT_EQ(out_.send.size(), 1u);
}

TEST_F(SessionMachineTest, RefusesWhatTheServerWouldCloseTheLinkOver) {
  Start();
  const auto submit = [this](Ticket ticket, size_t bytes) {
    machine_.Submit(now_,
                    {.ticket = ticket, .kind = 99, .payload = std::string(bytes, 'x'), .what = "x"},
                    Clear());
  };
  submit(1, 2000);  // before anybody knows what is too large
  EXPECT_THAT(Completed(), IsEmpty());
  machine_.LinkReady(now_, 32, 1000, Clear());
  EXPECT_EQ(ReasonOfOne(), "limit_exceeded");
  Answer(out_.send.at(0).id);
  submit(2, 1000);
  EXPECT_EQ(ReasonOfOne(), "limit_exceeded");
  EXPECT_THAT(out_.send, IsEmpty());
  submit(3, 900);
  EXPECT_EQ(out_.send.size(), 1u);
}

TEST_F(SessionMachineTest, RefusesWaitsThatWouldLeaveNoRoomForWhatEndsThem) {
  Start();
  ASSERT_TRUE(out_.dial);
  machine_.LinkReady(now_, 32, 0, Clear());
  Answer(out_.send.at(0).id);
  for (Ticket ticket = 1; ticket <= 16; ++ticket) Submit(ticket, CallType::kWait);
  EXPECT_THAT(Completed(), IsEmpty());
  Submit(17, CallType::kWait);
  EXPECT_EQ(ReasonOfOne(), "limit_exceeded");
  EXPECT_THAT(TextOfOne(), HasSubstr("requests_in_flight_max"));
  EXPECT_EQ(Submit(18, CallType::kEffect).send.size(), 1u);
}

TEST(SessionMachine, RefusesMoreThanItMayHold) {
  SessionMachine machine({.job = "j", .client_calls_max = 2, .client_call_bytes_max = 10});
  SessionMachine::Effects out;
  const Time now = Time::FromNanoseconds(1);
  machine.Start(now, out);
  machine.Submit(now, {.ticket = 1, .kind = 9, .payload = "12345678901"}, out);
  ASSERT_EQ(out.completed.size(), 1u);
  EXPECT_THAT(std::string(out.completed[0].answer.status().message()),
              HasSubstr("client_call_bytes_max"));
  machine.Submit(now, {.ticket = 2, .kind = 9}, out);
  machine.Submit(now, {.ticket = 3, .kind = 9}, out);
  machine.Submit(now, {.ticket = 4, .kind = 9}, out);
  ASSERT_EQ(out.completed.size(), 2u);
  EXPECT_THAT(std::string(out.completed[1].answer.status().message()),
              HasSubstr("client_calls_max"));
}

TEST_F(SessionMachineTest, ClosingEndsEverythingAndSaysGoodbye) {
  Start();
  Open();
  Submit(1, CallType::kWait);
  Submit(2, CallType::kEffect);
  machine_.Close(now_, Clear());
  EXPECT_THAT(Completed(), ElementsAre(1, 2));
  EXPECT_TRUE(out_.farewell);
  EXPECT_EQ(out_.send.at(0).kind, KindOf<native::CloseSession>::kKind);
  Submit(3, CallType::kRead);
  EXPECT_EQ(ReasonOfOne(), "session_closed");
  Lose();
  EXPECT_FALSE(out_.dial);
}

// --- One answer to several requests ---

class SharedAnswerTest : public SessionMachineTest {
 protected:
  // Three waits, whose requests have these numbers.
  void Park() {
    Start();
    Open();
    for (const Ticket ticket : {1, 2, 3}) {
      Submit(ticket, CallType::kWatch);
      numbers_.push_back(out_.send.at(0).id);
    }
  }
  void AlsoAnswered(uint64_t id, std::vector<uint64_t> others) {
    machine_.Take(now_,
                  {.type = FrameType::kAlsoAnswered,
                   .id = id,
                   .payload = native::Encode(native::AlsoAnswered{.requests = std::move(others)})},
                  Clear());
  }
  std::vector<uint64_t> numbers_;
};

TEST_F(SharedAnswerTest, CompletesThemAll) {
  Park();
  AlsoAnswered(numbers_[1], {numbers_[0], numbers_[2]});
  EXPECT_THAT(Completed(), IsEmpty());
  Answer(numbers_[1], "value");
  EXPECT_THAT(Completed(), ElementsAre(1, 3, 2));
  for (const CompletedCall& completed : out_.completed) {
    ASSERT_TRUE(completed.answer.ok());
    EXPECT_EQ(*completed.answer, "value");
  }
  // And nothing is left of it.
  Answer(numbers_[1], "again");
  EXPECT_THAT(Completed(), IsEmpty());
}

TEST_F(SharedAnswerTest, AnErrorIsAllTheirs) {
  Park();
  AlsoAnswered(numbers_[0], {numbers_[1]});
  Fail(numbers_[0], Error(absl::StatusCode::kResourceExhausted, "limit_exceeded"));
  EXPECT_THAT(Completed(), ElementsAre(2, 1));
  for (const CompletedCall& completed : out_.completed) {
    EXPECT_EQ(native::ReasonOf(completed.answer.status()), "limit_exceeded");
  }
}

TEST_F(SharedAnswerTest, OthersAreAnsweredWhenItsOwnCallerHasGone) {
  Park();
  machine_.Cancel(now_, 1, Clear());
  EXPECT_THAT(Completed(), ElementsAre(1));
  AlsoAnswered(numbers_[0], {numbers_[1], numbers_[2]});
  machine_.Cancel(now_, 3, Clear());
  Answer(numbers_[0], "value");
  EXPECT_THAT(Completed(), ElementsAre(2));
}

TEST_F(SharedAnswerTest, AllAreAskedAgainWhenTheLinkBreaksBeforeTheAnswer) {
  Park();
  AlsoAnswered(numbers_[0], {numbers_[1], numbers_[2]});
  Lose();
  EXPECT_THAT(Completed(), IsEmpty());
  Wait();
  Open(true);
  EXPECT_THAT(SentIds(), ElementsAre(numbers_[0], numbers_[1], numbers_[2]));
  // What the old link had to say of it is over.
  Answer(numbers_[0], "value");
  EXPECT_THAT(Completed(), ElementsAre(1));
}

TEST_F(SharedAnswerTest, StrangeNumbersAreIgnored) {
  Park();
  AlsoAnswered(numbers_[0], {0, numbers_[0], numbers_[1], numbers_[1], 1'000'000});
  Answer(numbers_[0], "value");
  EXPECT_THAT(Completed(), ElementsAre(1, 2));
}

TEST_F(SharedAnswerTest, ListsThatGrowBreakTheLink) {
  Park();
  AlsoAnswered(numbers_[0], std::vector<uint64_t>(1024, numbers_[1]));
  EXPECT_FALSE(out_.drop_link);
  AlsoAnswered(numbers_[1], {numbers_[2]});
  EXPECT_TRUE(out_.drop_link);
  EXPECT_THAT(Completed(), IsEmpty());
}

TEST_F(SharedAnswerTest, AnEmptyListBreaksTheLink) {
  Park();
  AlsoAnswered(numbers_[0], {});
  EXPECT_TRUE(out_.drop_link);
}

TEST_F(SharedAnswerTest, ASecondListForTheSameAnswerBreaksTheLink) {
  Park();
  AlsoAnswered(numbers_[0], {numbers_[1]});
  AlsoAnswered(numbers_[0], {numbers_[2]});
  EXPECT_TRUE(out_.drop_link);
}

}  // namespace
}  // namespace lockstep::client

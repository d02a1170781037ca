// What the operator is told: one line for each transition, with who is missing.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::Native;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Notices : public ::testing::Test {
 protected:
  explicit Notices(CoordinatorOptions options = {.size = 3}) : h(std::move(options)) {
    h.RegisterAll();
    polls = h.PollAll();
  }

  std::vector<std::string> Of(LogKind kind) const {
    std::vector<std::string> texts;
    for (const LogEntry& entry : h.log()) {
      if (entry.about.kind == kind) texts.push_back(entry.text);
    }
    return texts;
  }

  CoordinatorHarness h;
  std::vector<CallId> polls;
};

TEST_F(Notices, TellWhoWasMissingWhenABarrierTimedOut) {
  h.Arrive(0, "b", {.timeout = absl::Seconds(5)});
  h.Arrive(2, "b", {.timeout = absl::Seconds(5)});
  h.Advance(absl::Seconds(5));

  EXPECT_THAT(Of(LogKind::kBarrierFailed),
              ElementsAre(AllOf(HasSubstr("'b::0' after 5s"), HasSubstr("missing task/1#1"))));
}

TEST_F(Notices, TellWhoWasMissingWhenABarrierWasCancelled) {
  h.Arrive(0, "b");
  h.Cancel(2, "b");

  EXPECT_THAT(Of(LogKind::kBarrierFailed),
              ElementsAre(HasSubstr("barrier 'b::0' was cancelled by task/2#1 with 1/3 members; "
                                    "missing task/1#1, task/2#1")));
}

TEST_F(Notices, TellOfABarrierThatFailedByALostMember) {
  h.Arrive(0, "b");
  h.Hangup(polls[1]);
  h.Advance(absl::Seconds(1));

  EXPECT_THAT(Of(LogKind::kBarrierFailed),
              ElementsAre(AllOf(HasSubstr("'b::0' with 1/3 members; missing task/1#1, task/2#1"),
                                HasSubstr("task/1#1 was lost"))));
}

TEST_F(Notices, TellOfABarrierThatItsMembersDisagreeAbout) {
  h.Arrive(0, "b");
  h.Arrive(1, "b", {.members = {0, 1}});

  EXPECT_THAT(Of(LogKind::kBarrierFailed), ElementsAre(HasSubstr("Conflicting tasks")));
}

TEST_F(Notices, NothingOfABarrierThatPassedOrWasGivenUp) {
  for (int i = 0; i < 3; ++i) h.Arrive(i, "passes");
  h.Hangup(h.Arrive(0, "given up"));
  h.Advance(absl::Seconds(30));

  EXPECT_THAT(Of(LogKind::kBarrierFailed), IsEmpty());
}

TEST_F(Notices, CountTheBarriersThatOneLossFailed) {
  for (int i = 0; i < 50; ++i) h.Arrive(0, absl::StrCat("b", i));
  h.Hangup(polls[1]);
  h.Advance(absl::Seconds(1));

  const std::vector<std::string> told = Of(LogKind::kBarrierFailed);
  ASSERT_THAT(told, SizeIs(11));
  EXPECT_THAT(told.back(), HasSubstr("40 more barriers failed with task/1#1"));
}

TEST_F(Notices, TellWhoBecomesSuspectByItsConnectionAndComesBack) {
  h.Hangup(polls[1]);
  EXPECT_THAT(Of(LogKind::kMemberSuspect),
              ElementsAre(HasSubstr("task/1#1 is suspect: its connection broke; it is lost if "
                                    "nothing is heard of it for another 200ms")));
  EXPECT_EQ(h.log().back().member, "task/1#1");
  h.Poll(1);
  h.Advance(absl::Seconds(1));

  EXPECT_THAT(Of(LogKind::kMemberRecovered), ElementsAre(HasSubstr("task/1#1 is heard of again")));
  EXPECT_THAT(Of(LogKind::kMemberSuspect), SizeIs(1));
  EXPECT_THAT(Of(LogKind::kMemberLost), IsEmpty());
}

TEST_F(Notices, TellWhoIsSilentForLong) {
  h.KeepAlive({0, 1});
  h.Advance(absl::Seconds(10));
  h.Heartbeat(2);
  h.Advance(absl::Seconds(59));
  EXPECT_THAT(Of(LogKind::kMemberSuspect), IsEmpty());
  EXPECT_EQ(h.Condition(2), MemberCondition::kConnected);
  h.Advance(absl::Seconds(1));

  EXPECT_THAT(Of(LogKind::kMemberSuspect),
              ElementsAre(AllOf(HasSubstr("task/2#1 is suspect: nothing was heard of it for 1m"),
                                HasSubstr("for another 40s"))));
  EXPECT_EQ(h.Condition(2), MemberCondition::kSuspect);
  h.Heartbeat(2);
  EXPECT_THAT(Of(LogKind::kMemberRecovered), SizeIs(1));
  EXPECT_EQ(h.Condition(2), MemberCondition::kConnected);

  // From then on it counts anew, by 2.5 times the minute that was between its heartbeats.
  h.Advance(absl::Seconds(89));
  EXPECT_THAT(Of(LogKind::kMemberSuspect), SizeIs(1));
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(Of(LogKind::kMemberSuspect), SizeIs(2));
  h.Advance(absl::Seconds(59));
  EXPECT_THAT(Of(LogKind::kMemberLost), IsEmpty());
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(Of(LogKind::kMemberLost), SizeIs(1));
}

TEST_F(Notices, TellOfAHostThatFellSilent) {
  for (int member = 0; member < 3; ++member) {
    h.Handle(ProcessStarted{
        .member = MemberIndex(member), .host = member == 0 ? "h1" : "h2", .pid = 50 + member});
  }
  h.KeepAlive({0, 1});
  h.Advance(absl::Seconds(60));
  EXPECT_THAT(Of(LogKind::kMemberSuspect),
              ElementsAre(AllOf(HasSubstr("task/2#1"), Not(HasSubstr("h2 has not")))))
      << "task/1, of the same host, is heard";
  h.KeepAlive({0});
  h.Heartbeat(2);
  h.Advance(absl::Seconds(90));

  const std::vector<std::string> told = Of(LogKind::kMemberSuspect);
  ASSERT_THAT(told, SizeIs(3));
  EXPECT_THAT(told.back(), HasSubstr("h2 has not been heard for 1m"));
  EXPECT_THAT(h.View().members[2].why, HasSubstr("; h2 has not been heard for 1m"));
}

TEST_F(Notices, TellOnceOfAStoppedOne) {
  h.ProcessStarted(2, 52);
  h.ProcessStopped(2, 52);
  h.KeepAlive({0, 1});
  h.Advance(absl::Seconds(70));
  h.ProcessContinued(2, 52);
  h.Heartbeat(2);

  EXPECT_THAT(Of(LogKind::kMemberSuspect), ElementsAre(HasSubstr("is stopped (SIGSTOP)")));
  EXPECT_THAT(Of(LogKind::kMemberRecovered), ElementsAre(HasSubstr("continues after 1m10s")));
}

TEST_F(Notices, NothingOfThoseWhoGoSinceTheJobFailed) {
  h.Report(0, StatusCode::kInternal, "broken");
  h.Hangup(h.Poll(1));

  EXPECT_THAT(Of(LogKind::kMemberSuspect), IsEmpty());
  EXPECT_THAT(Of(LogKind::kAttemptFailed), SizeIs(1));
}

class NativeNotices : public Notices {
 protected:
  NativeNotices() : Notices({.size = 3, .recoverable = true}) {
    for (int i = 0; i < 3; ++i) h.Leave(i);
    h.JoinAll();
  }
};

TEST_F(NativeNotices, TellWhoseLinkIsSilent) {
  h.BreakLink(Native(2), /*silent=*/true);
  EXPECT_THAT(Of(LogKind::kMemberSuspect),
              ElementsAre(HasSubstr("since nothing came over it; it is lost if nothing is heard of "
                                    "it for another 1m40s")));
  h.Open(Native(2), true);
  EXPECT_THAT(Of(LogKind::kMemberRecovered), SizeIs(1));
}

TEST_F(NativeNotices, TellOfAllAtOnceWhenTheServerWasRestarted) {
  h.Restart(/*from_snapshot=*/false);
  EXPECT_THAT(
      Of(LogKind::kMemberSuspect),
      ElementsAre(HasSubstr(
          "the server was restarted; 3 of its members have 30s to come back: task/0#2, task/1#2, "
          "task/2#2")));

  h.Open(Native(1), true);
  h.Open(Native(3), true);
  EXPECT_THAT(Of(LogKind::kMemberRecovered), IsEmpty());
  h.Open(Native(2), true);

  EXPECT_THAT(Of(LogKind::kMemberRecovered), ElementsAre(HasSubstr("nobody is missing any more")));
}

TEST_F(NativeNotices, TellOfAnAgreementThatTimedOut) {
  h.Ask(Native(1), AgreeOnIndex{.name = "save", .timeout = absl::Seconds(3)});
  h.Advance(absl::Seconds(3));

  EXPECT_THAT(Of(LogKind::kBarrierFailed),
              ElementsAre(AllOf(HasSubstr("Agreement timed out"), HasSubstr("missing task/1#2"))));
}

}  // namespace
}  // namespace lockstep::coord

#include "lockstep/coord/index_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace lockstep::coord {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Time At(double seconds) { return Time() + absl::Seconds(seconds); }

// Four connected members. Each question gets the call id that it returns.
class IndexAgreementTest : public testing::Test {
 protected:
  explicit IndexAgreementTest(CoordinatorOptions options = {.size = 4})
      : job_(options), membership_(job_), agreements_(job_, membership_) {
    for (int32_t i = 0; i < options.size; ++i) {
      membership_.BeginLife(Time(), MemberIndex(i), Incarnation(100 + i), "");
      membership_.Connect(Time(), MemberIndex(i));
    }
  }

  AgreeOnIndex Question(int32_t member, int64_t index, int64_t counter = 0,
                        std::vector<int32_t> members = {}) {
    return {.caller = {.call = CallId(++last_call_), .session = {1, 1}},
            .member = MemberIndex(member),
            .name = "save",
            .counter = counter,
            .index = index,
            .timeout = absl::Seconds(60),
            .members = {members.begin(), members.end()}};
  }
  CallId Ask(const AgreeOnIndex& question, Time now = Time()) {
    agreements_.Ask(now, question, out_);
    return question.caller.call;
  }
  CallId Ask(int32_t member, int64_t index, int64_t counter = 0,
             std::vector<int32_t> members = {}) {
    return Ask(Question(member, index, counter, std::move(members)));
  }
  void Lose(int32_t member) {
    const ErrorPtr lost =
        MakeError(absl::StatusCode::kUnavailable, Reason::kConnectionLost, "lost");
    membership_.Fail(Time(), MemberIndex(member), lost);
    agreements_.MemberGone(MemberIndex(member), lost, out_);
  }
  void Leave(int32_t member) {
    membership_.Disconnect(Time(), MemberIndex(member));
    agreements_.MemberGone(MemberIndex(member),
                           MakeError(absl::StatusCode::kCancelled, Reason::kMemberLeft, "left"),
                           out_);
  }

  // "waits", "8 of 0" (the index and the counter), or the error as clients print it.
  std::string Answer(CallId call) const {
    std::string answer = "waits";
    for (const Reply& reply : out_.replies) {
      if (reply.call != call) continue;
      if (answer != "waits") return "answered twice";
      if (reply.error) {
        answer = ToString(*reply.error);
      } else {
        const auto& agreed = std::get<IndexAgreed>(reply.answer);
        answer = absl::StrCat(agreed.index, " of ", agreed.counter);
      }
    }
    return answer;
  }
  std::optional<Reason> Why(CallId call) const {
    for (const Reply& reply : out_.replies) {
      if (reply.call == call && reply.error) return reply.error->reason;
    }
    return std::nullopt;
  }

  JobRecord job_;
  Membership membership_;
  IndexAgreement agreements_;
  Effects out_;
  uint64_t last_call_ = 0;
};

TEST_F(IndexAgreementTest, IsOnTheLowestThatNobodyHasPassed) {
  const CallId first = Ask(0, 5);
  const CallId second = Ask(1, 9);
  const CallId third = Ask(2, 0);
  EXPECT_EQ(Answer(first), "waits");
  EXPECT_EQ(agreements_.waits(), 3u);

  const CallId last = Ask(3, 7);

  for (CallId call : {first, second, third, last}) EXPECT_EQ(Answer(call), "9 of 0");
  EXPECT_EQ(agreements_.waits(), 0u);
  EXPECT_EQ(agreements_.NextDeadline(), Time::Infinite());
  ASSERT_EQ(out_.records.size(), 1u);
  const auto& record = std::get<record::IndexAgreed>(out_.records[0]);
  EXPECT_EQ(record.index, 9);
  EXPECT_TRUE(record.members.empty());
}

TEST_F(IndexAgreementTest, IsOnAMultipleOfTheStride) {
  auto agree = [&](int64_t index, int64_t stride, int64_t counter) {
    AgreeOnIndex question = Question(0, index, counter, {0});
    question.stride = stride;
    return Answer(Ask(question));
  };
  EXPECT_EQ(agree(9, 4, 0), "12 of 0");
  EXPECT_EQ(agree(12, 4, 1), "12 of 1");
  EXPECT_EQ(agree(0, 4, 2), "0 of 2");
  EXPECT_EQ(agree(INT64_MAX - 1, 2, 3), absl::StrCat(INT64_MAX - 1, " of 3"));
  EXPECT_THAT(agree(INT64_MAX, 2, 4), AllOf(StartsWith("OUT_OF_RANGE"), HasSubstr("64 bits")));
  EXPECT_EQ(Why(CallId(last_call_)), Reason::kNumberOverflow);
  EXPECT_EQ(agree(1, INT64_MAX, 5), absl::StrCat(INT64_MAX, " of 5"));
}

TEST_F(IndexAgreementTest, IsMadeWithoutWhoIsLostOrLeft) {
  const CallId first = Ask(0, 5);
  const CallId lost = Ask(1, 100);
  const CallId third = Ask(2, 6);
  Lose(1);
  EXPECT_EQ(Answer(lost), "UNAVAILABLE: lost");
  EXPECT_EQ(Answer(first), "waits");

  Leave(3);

  EXPECT_EQ(Answer(first), "6 of 0") << "what the lost one said does not count";
  EXPECT_EQ(Answer(third), "6 of 0");
  EXPECT_EQ(Answer(Ask(0, 9, 1, {0, 1, 3})), "9 of 1") << "nor is anybody waited for who was gone";
}

TEST_F(IndexAgreementTest, IsNotMadeByWhoIsNotThere) {
  Lose(1);
  Leave(2);
  EXPECT_EQ(Why(Ask(1, 5)), Reason::kMemberFailed);
  EXPECT_EQ(Why(Ask(2, 5)), Reason::kMemberLeft);
}

TEST_F(IndexAgreementTest, AwaitsAMemberInItsNewLife) {
  const ErrorPtr again = MakeError(absl::StatusCode::kCancelled, Reason::kSuperseded, "again");
  const CallId stale = Ask(1, 50, 0, {0, 1});
  agreements_.MemberRestarted(MemberIndex(1), again, out_);
  EXPECT_EQ(Answer(stale), "CANCELLED: again");
  EXPECT_EQ(agreements_.NextDeadline(), Time::Infinite()) << "nobody asks any more";

  const CallId first = Ask(0, 5, 0, {0, 1});
  Ask(1, 50, 0, {0, 1, 1});
  EXPECT_EQ(Answer(first), "50 of 0");
}

TEST_F(IndexAgreementTest, CountsTheNewestQuestionOfAMember) {
  const CallId older = Ask(0, 50, 0, {0, 1});
  const CallId newer = Ask(0, 5, 0, {0, 1});
  EXPECT_EQ(Why(older), Reason::kSuperseded);
  Ask(1, 1, 0, {0, 1});
  EXPECT_EQ(Answer(newer), "5 of 0");
}

TEST_F(IndexAgreementTest, DoesNotCountACallerThatLeft) {
  const CallId left = Ask(0, 50);
  const CallId stays = Ask(1, 5);
  EXPECT_TRUE(agreements_.Forget(left));
  EXPECT_FALSE(agreements_.Forget(left));
  Ask(2, 1);
  Ask(3, 1);
  EXPECT_EQ(Answer(stays), "waits") << "it is still a member, and may ask again";
  Ask(0, 7);
  EXPECT_EQ(Answer(stays), "7 of 0");
  EXPECT_EQ(Answer(left), "waits");
}

TEST_F(IndexAgreementTest, FailsForAllWhoDisagree) {
  const CallId first = Ask(0, 5);
  AgreeOnIndex other = Question(1, 5);
  other.stride = 2;
  EXPECT_THAT(Answer(Ask(other)), AllOf(StartsWith("INVALID_ARGUMENT"), HasSubstr("stride")));
  EXPECT_EQ(Why(first), Reason::kAgreementConflict);

  const CallId second = Ask(0, 5, 1, {0, 1});
  EXPECT_THAT(Answer(Ask(1, 5, 1, {0, 1, 2})), HasSubstr("task/0#1, task/1#1, but task/1#1 names"));
  EXPECT_EQ(Why(second), Reason::kAgreementConflict);

  const CallId third = Ask(0, 5, 2);
  EXPECT_EQ(Why(Ask(1, 5, 9)), Reason::kAgreementCounterMismatch);
  EXPECT_EQ(Why(third), Reason::kAgreementCounterMismatch);
}

TEST_F(IndexAgreementTest, RefusesWhatMakesNoSenseAndChangesNothing) {
  const CallId waits = Ask(0, 5);
  AgreeOnIndex question = Question(1, 5);
  question.stride = 0;
  EXPECT_EQ(Why(Ask(question)), Reason::kInvalidArgument);
  EXPECT_EQ(Why(Ask(1, -1)), Reason::kInvalidArgument);
  EXPECT_EQ(Why(Ask(1, 5, -1)), Reason::kInvalidArgument);
  EXPECT_EQ(Why(Ask(1, 5, 0, {1, 9})), Reason::kUnknownMember);
  EXPECT_EQ(Why(Ask(1, 5, 0, {2, 3})), Reason::kCallerNotListed);
  question = Question(1, 5);
  question.name = std::string(job_.options.barrier_id_bytes_max + 1, 'n');
  EXPECT_EQ(Why(Ask(question)), Reason::kLimitExceeded);
  question = Question(1, 5, 3);
  question.name = "never seen";
  EXPECT_EQ(Why(Ask(question)), Reason::kAgreementCounterMismatch);
  EXPECT_EQ(Answer(waits), "waits");
  EXPECT_TRUE(out_.records.empty());
}

TEST_F(IndexAgreementTest, NamesWhoIsMissingWhenTheDeadlinePasses) {
  const CallId first = Ask(Question(0, 5), At(10));
  const CallId second = Ask(Question(2, 5), At(20));
  Leave(3);
  EXPECT_EQ(agreements_.NextDeadline(), At(70));

  agreements_.ReachDeadline(At(70), out_);

  EXPECT_THAT(Answer(first), AllOf(StartsWith("DEADLINE_EXCEEDED: Agreement timed out"),
                                   HasSubstr("2/4 members; the first was task/0#1; missing "
                                             "task/1#1")));
  EXPECT_THAT(Answer(first), testing::Not(HasSubstr("task/3")));
  EXPECT_EQ(Answer(second), Answer(first));
  EXPECT_EQ(Answer(Ask(1, 5)), Answer(first)) << "who comes late gets the verdict";
  EXPECT_EQ(Answer(Ask(1, 5, 1)), "waits");
}

TEST_F(IndexAgreementTest, TellsTheLastVerdictWhileTheNextIsOpen) {
  for (int32_t i = 0; i < 4; ++i) Ask(i, i);
  const CallId next = Ask(0, 9, 1);
  EXPECT_EQ(Answer(Ask(1, 1, 0)), "3 of 0");
  EXPECT_EQ(Answer(next), "waits");
  agreements_.Forget(next);
  EXPECT_EQ(Answer(Ask(1, 1, 0)), "3 of 0");
}

TEST_F(IndexAgreementTest, FailsWithTheRest) {
  const CallId waits = Ask(0, 5);
  agreements_.FailAll(MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped, "stopped"),
                      out_);
  EXPECT_EQ(Answer(waits), "ABORTED: stopped");
  EXPECT_EQ(agreements_.waits(), 0u);
  EXPECT_TRUE(out_.records.empty()) << "that is no verdict of the members";
}

class SmallIndexAgreementTest : public IndexAgreementTest {
 protected:
  SmallIndexAgreementTest()
      : IndexAgreementTest({.size = 2, .open_barriers_max = 1, .kept_barriers_max = 2}) {}
  AgreeOnIndex Named(const std::string& name, int64_t counter, std::vector<int32_t> members) {
    AgreeOnIndex question = Question(0, 1, counter, std::move(members));
    question.name = name;
    return question;
  }
};

TEST_F(SmallIndexAgreementTest, KeepsTheNewestVerdictsOnly) {
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(Answer(Ask(Named(name, 0, {0}))), "1 of 0");
  EXPECT_EQ(agreements_.kept(), 2u);
  EXPECT_EQ(Answer(Ask(Named("a", 1, {0}))), "1 of 1") << "who was there goes on";
}

TEST_F(SmallIndexAgreementTest, BoundsWhatIsOpen) {
  const CallId open = Ask(Named("a", 0, {}));
  EXPECT_EQ(Why(Ask(Named("b", 0, {}))), Reason::kLimitExceeded);
  EXPECT_EQ(Answer(open), "waits");
}

}  // namespace
}  // namespace lockstep::coord

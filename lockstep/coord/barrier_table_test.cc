#include "lockstep/coord/barrier_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace lockstep::coord {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kTimeout = absl::Seconds(90);

Time At(double seconds) { return Time() + absl::Seconds(seconds); }

// A table over connected members. Each arrival gets the call id that it returns.
class BarrierTableTest : public testing::Test {
 protected:
  explicit BarrierTableTest(CoordinatorOptions options = {.size = 3})
      : job_(options), membership_(job_), table_(job_, membership_) {
    for (int32_t i = 0; i < options.size; ++i) {
      membership_.BeginLife(Time(), MemberIndex(i), Incarnation(100 + i), "");
      membership_.Connect(Time(), MemberIndex(i));
    }
  }

  CallId Arrive(int32_t member, const std::string& id, int64_t counter = 0,
                std::vector<int32_t> members = {}, Time now = Time()) {
    const CallId call(++last_call_);
    table_.Arrive(now,
                  {.caller = {.call = call},
                   .member = MemberIndex(member),
                   .id = id,
                   .counter = counter,
                   .timeout = kTimeout,
                   .members = {members.begin(), members.end()}},
                  effects_);
    return call;
  }

  CallId Cancel(const std::string& id, std::optional<int64_t> counter = std::nullopt) {
    const CallId call(++last_call_);
    table_.Cancel(
        {.caller = {.call = call}, .member = MemberIndex(0), .id = id, .counter = counter},
        effects_);
    return call;
  }

  // The answer to a call: "waits", "passed N", or the error as clients print it.
  std::string Answer(CallId call) const {
    std::string answer = "waits";
    for (const Reply& reply : effects_.replies) {
      if (reply.call != call) continue;
      if (answer != "waits") return "answered twice";
      answer = reply.error ? ToString(*reply.error) : Success(reply.answer);
    }
    return answer;
  }

  static std::string Success(const coord::Answer& answer) {
    const auto* passed = std::get_if<BarrierPassed>(&answer);
    return passed ? absl::StrCat("passed ", passed->counter) : "ok";
  }

  JobRecord job_;
  Membership membership_;
  BarrierTable table_;
  Effects effects_;
  uint64_t last_call_ = 0;
};

TEST_F(BarrierTableTest, ReleasesNobodyBeforeTheLastArrives) {
  const CallId first = Arrive(0, "loaded");
  const CallId second = Arrive(1, "loaded");
  EXPECT_EQ(Answer(first), "waits");

  const CallId last = Arrive(2, "loaded");

  EXPECT_EQ(Answer(first), "passed 0");
  EXPECT_EQ(Answer(second), "passed 0");
  EXPECT_EQ(Answer(last), "passed 0");
  EXPECT_EQ(table_.waits(), 0u);
}

TEST_F(BarrierTableTest, NamesWhoIsMissingWhenTheDeadlinePasses) {
  const CallId first = Arrive(1, "loaded", 0, {}, At(10));
  const CallId second = Arrive(0, "loaded", 0, {}, At(20));
  EXPECT_EQ(table_.NextDeadline(), At(100));

  table_.ReachDeadline(At(100), effects_);

  EXPECT_THAT(Answer(first), StartsWith("DEADLINE_EXCEEDED: Barrier timed out"));
  EXPECT_THAT(Answer(first), HasSubstr("2/3 members; the first was task/1#1; missing task/2#1"));
  EXPECT_EQ(Answer(second), Answer(first));
  EXPECT_EQ(table_.NextDeadline(), Time::Infinite());
}

TEST_F(BarrierTableTest, TellsLateCallersTheVerdictOfTheirInstance) {
  Arrive(0, "loaded");
  table_.ReachDeadline(At(90), effects_);

  EXPECT_THAT(Answer(Arrive(1, "loaded", 0, {}, At(91))), HasSubstr("Barrier timed out"));
  EXPECT_EQ(Answer(Arrive(1, "loaded", 1, {}, At(92))), "waits");
}

TEST_F(BarrierTableTest, FailsAnInstanceThatACallerTakesForAnother) {
  const CallId waiting = Arrive(0, "loaded", 0);

  const CallId ahead = Arrive(1, "loaded", 5);

  EXPECT_THAT(Answer(ahead), StartsWith("INTERNAL: barrier 'loaded::0'"));
  EXPECT_EQ(Answer(waiting), Answer(ahead));
}

TEST_F(BarrierTableTest, KeepsAVerdictThatAWrongCallFollows) {
  for (int32_t i = 0; i < 3; ++i) Arrive(i, "loaded");

  EXPECT_THAT(Answer(Arrive(0, "loaded", 7)), StartsWith("INTERNAL"));
  EXPECT_THAT(Answer(Arrive(0, "loaded", 0, {0, 1})), StartsWith("INVALID_ARGUMENT"));

  EXPECT_EQ(Answer(Arrive(1, "loaded", 0)), "passed 0");
}

TEST_F(BarrierTableTest, DoesNotCountACallerThatLeft) {
  const CallId left = Arrive(0, "loaded");
  Arrive(1, "loaded");

  EXPECT_TRUE(table_.Forget(left));
  EXPECT_FALSE(table_.Forget(left));
  Arrive(2, "loaded");

  EXPECT_EQ(table_.waits(), 2u);
  const CallId back = Arrive(0, "loaded");
  EXPECT_EQ(Answer(back), "passed 0");
  EXPECT_EQ(Answer(left), "waits");  // nobody is there to be answered
}

TEST_F(BarrierTableTest, ForgetsAnInstanceThatAllLeft) {
  table_.Forget(Arrive(0, "loaded", 0, {}, At(0)));
  EXPECT_EQ(table_.NextDeadline(), Time::Infinite());

  for (int32_t i = 0; i < 3; ++i) Arrive(i, "loaded", 0, {}, At(50));
  table_.Forget(Arrive(0, "loaded", 1, {}, At(60)));

  EXPECT_TRUE(table_.View(10).empty());
  EXPECT_EQ(Answer(Arrive(0, "loaded", 0)), "passed 0");
  EXPECT_EQ(Answer(Arrive(0, "loaded", 1)), "waits");
}

TEST_F(BarrierTableTest, CancelsTheOpenInstanceWhicheverItIs) {
  for (int32_t i = 0; i < 3; ++i) Arrive(i, "loaded", 0);
  const CallId waiting = Arrive(0, "loaded", 1);

  EXPECT_THAT(Answer(Cancel("loaded", 0)), StartsWith("FAILED_PRECONDITION"));
  EXPECT_EQ(Answer(Cancel("loaded")), "ok");
  EXPECT_THAT(Answer(waiting), StartsWith("CANCELLED"));
  EXPECT_THAT(Answer(Cancel("loaded")), HasSubstr("already been passed"));
}

TEST_F(BarrierTableTest, KeepsNothingOfACancelledStranger) {
  EXPECT_EQ(Answer(Cancel("never seen")), "ok");

  Arrive(0, "never seen", 0, {0, 1});
  EXPECT_EQ(Answer(Arrive(1, "never seen", 0, {1, 0, 1})), "passed 0");
}

TEST_F(BarrierTableTest, FailsForAllWhenAMemberIsGone) {
  const CallId waiting = Arrive(0, "loaded");
  const CallId elsewhere = Arrive(0, "pair", 0, {0, 1});
  const ErrorPtr lost = MakeError(absl::StatusCode::kUnavailable, Reason::kConnectionLost, "gone");

  table_.MemberGone(MemberIndex(2), lost, effects_);

  EXPECT_THAT(Answer(waiting), StartsWith("INTERNAL: Barrier failed because a participant"));
  EXPECT_EQ(Answer(elsewhere), "waits");
}

class SmallBarrierTableTest : public BarrierTableTest {
 protected:
  SmallBarrierTableTest()
      : BarrierTableTest({.size = 1, .open_barriers_max = 1, .kept_barriers_max = 2}) {}
};

TEST_F(SmallBarrierTableTest, KeepsTheNewestVerdictsOnly) {
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(Answer(Arrive(0, id)), "passed 0");

  EXPECT_EQ(table_.kept(), 2u);
  // Whoever used the forgotten id goes on with its own counter.
  EXPECT_EQ(Answer(Arrive(0, "a", 1)), "passed 1");
}

// What native members do at barriers: they bring values, and ask again.
class BarrierValuesTest : public BarrierTableTest {
 protected:
  explicit BarrierValuesTest(CoordinatorOptions options = {.size = 2})
      : BarrierTableTest(std::move(options)) {}

  CallId Bring(int32_t member, std::optional<std::string> value, int64_t counter = 0,
               const std::string& id = "b", bool once = false) {
    const CallId call(++last_call_);
    table_.Arrive(Time(),
                  {.caller = {.call = call, .session = {1, 1}},
                   .member = MemberIndex(member),
                   .id = id,
                   .counter = counter,
                   .value = std::move(value),
                   .once = once},
                  effects_);
    return call;
  }
  // "passed 0: 0=x 1=y", or as `Answer`.
  std::string Values(CallId call) const {
    for (const Reply& reply : effects_.replies) {
      if (reply.call != call || reply.error) continue;
      const auto& passed = std::get<BarrierPassed>(reply.answer);
      std::string text = absl::StrCat("passed ", passed.counter, ":");
      if (!passed.values) return text + " null";
      for (const MemberValue& value : *passed.values) {
        absl::StrAppend(&text, " ", value.member.value(), "=", value.value);
      }
      return text;
    }
    return Answer(call);
  }
};

TEST_F(BarrierValuesTest, AreGivenToAll) {
  const CallId second = Bring(1, "y");
  const CallId first = Bring(0, "");
  EXPECT_EQ(Values(first), "passed 0: 0= 1=y");
  EXPECT_EQ(Values(second), Values(first));
  const auto& ended = std::get<record::BarrierEnded>(effects_.records.at(0));
  EXPECT_EQ(ended.values->size(), 2u);
  EXPECT_TRUE(ended.members.empty());

  Bring(0, std::nullopt, 1);
  EXPECT_EQ(Values(Bring(1, std::nullopt, 1)), "passed 1: null");
  Bring(0, std::nullopt, 2);
  EXPECT_EQ(Values(Bring(1, "only one", 2)), "passed 2: 1=only one");
}

TEST_F(BarrierValuesTest, AreThoseOfTheCallsThatWait) {
  EXPECT_TRUE(table_.Forget(Bring(0, "old")));
  Bring(1, "older");
  Bring(1, "y");
  EXPECT_EQ(Values(Bring(0, std::nullopt)), "passed 0: 1=y");
}

TEST_F(BarrierValuesTest, AreToldAgainToWhoAsksAgainEvenWhileTheNextIsOpen) {
  Bring(0, "x");
  Bring(1, "y");
  EXPECT_EQ(Values(Bring(0, "x")), "passed 0: 0=x 1=y");
  const CallId next = Bring(0, "z", 1);
  EXPECT_EQ(Values(Bring(1, "y", 0)), "passed 0: 0=x 1=y");
  EXPECT_EQ(Answer(next), "waits");
  EXPECT_EQ(Values(Bring(1, "u", 1)), "passed 1: 0=z 1=u");
}

TEST_F(BarrierValuesTest, AWrongCounterFailsTheOpenInstanceAllTheSame) {
  Bring(0, "x");
  Bring(1, "y");
  const CallId next = Bring(0, "z", 1);
  Bring(1, "y", 7);
  EXPECT_THAT(Answer(next), StartsWith("INTERNAL: barrier 'b::1'"));
}

TEST_F(BarrierValuesTest, OnceMeansThatItStaysPassed) {
  const CallId first = Bring(0, std::nullopt, 0, "all", true);
  EXPECT_EQ(Values(Bring(1, std::nullopt, 5, "all", true)), "passed 0: null") << "any counter";
  EXPECT_EQ(Values(first), "passed 0: null");
  for (int64_t counter : {0, 1, 9}) {
    EXPECT_EQ(Values(Bring(0, std::nullopt, counter, "all", true)), "passed 0: null");
  }
  EXPECT_EQ(table_.waits(), 0u);
}

TEST_F(BarrierValuesTest, ManyOpenBarriersFailWithTheirMembersOnly) {
  for (int i = 0; i < 1000; ++i) Arrive(0, absl::StrCat("b", i), 0, {i % 2, 0});
  ASSERT_EQ(table_.open(), 500u) << "those of member 0 alone have passed";
  const ErrorPtr lost = MakeError(absl::StatusCode::kUnavailable, Reason::kConnectionLost, "gone");
  table_.MemberGone(MemberIndex(1), lost, effects_);
  EXPECT_EQ(table_.open(), 0u);
  EXPECT_EQ(effects_.replies.size(), 1000u);
  table_.MemberGone(MemberIndex(0), lost, effects_);
  EXPECT_EQ(effects_.replies.size(), 1000u);
}

class BarrierValueLimitsTest : public BarrierValuesTest {
 protected:
  BarrierValueLimitsTest()
      : BarrierValuesTest({.size = 2,
                           .barrier_value_bytes_max = 10,
                           .barrier_values_bytes_max = 15,
                           .kept_barrier_values_bytes_max = 20}) {}
};

TEST_F(BarrierValueLimitsTest, RefuseTheCallerAlone) {
  EXPECT_THAT(Answer(Bring(0, std::string(11, 'v'))), HasSubstr("barrier_value_bytes_max (10)"));
  EXPECT_EQ(table_.open(), 0u);
  const CallId waits = Bring(0, std::string(10, 'v'));
  EXPECT_THAT(Answer(Bring(1, std::string(6, 'v'))), HasSubstr("barrier_values_bytes_max (15)"));
  EXPECT_EQ(Answer(waits), "waits");
  EXPECT_THAT(Values(Bring(1, std::string(5, 'v'))), StartsWith("passed 0:"));
}

TEST_F(BarrierValueLimitsTest, TheOldestKeptValuesAreForgottenFirst) {
  for (const char* id : {"a", "b", "c"}) {
    Bring(0, "12345", 0, id);
    Bring(1, "12345", 0, id);
  }
  const CallId late = Bring(0, "12345", 0, "a");
  EXPECT_THAT(Answer(late), StartsWith("DATA_LOSS: barrier 'a::0' has passed"));
  EXPECT_THAT(Answer(late), HasSubstr("kept_barrier_values_bytes_max (20)"));
  EXPECT_THAT(Values(Bring(0, "12345", 0, "b")), StartsWith("passed 0: 0=12345"));
  EXPECT_EQ(Answer(Arrive(0, "a")), "passed 0") << "a stock caller asks for no values";
  Bring(0, "x", 1, "a");
  EXPECT_EQ(Values(Bring(1, "y", 1, "a")), "passed 1: 0=x 1=y");
}

}  // namespace
}  // namespace lockstep::coord

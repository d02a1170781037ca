// How native clients become members: roles, "give me one", who is there already.
#include <optional>
#include <random>
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
using lockstep::testing::HasError;
using lockstep::testing::Native;
using lockstep::testing::Succeeded;
using ::testing::ElementsAre;
using ::testing::Pair;

const Native kFirst(1);
const Native kSecond(2);
const Native kThird(3);

TEST(Join, IsAnsweredWhenAllAreThere) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  h.Open(kSecond);
  const CallId first = h.Join(kFirst, 501, {.index = 1, .role = "trainer"});
  EXPECT_TRUE(h.Pending(first));
  EXPECT_EQ(h.Condition(1), MemberCondition::kRegistering);

  const Joined second = h.Brought<Joined>(h.Join(kSecond, 502, {.index = 0}));

  EXPECT_EQ(second.member, MemberIndex(0));
  EXPECT_EQ(second.name, "trainer/0#1");
  EXPECT_EQ(second.service, h.service());
  EXPECT_EQ(second.size, 2);
  const Joined joined = h.Brought<Joined>(first);
  EXPECT_EQ(joined.member, MemberIndex(1));
  EXPECT_EQ(joined.role, "trainer");
  EXPECT_EQ(joined.index, 1);
}

TEST(Join, StockAndNativeMembersMix) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  const CallId native = h.Join(kFirst, 501, {.index = 0});
  const CallId stock = h.Register(1, 100);

  EXPECT_THAT(h.Reply(stock), Succeeded());
  EXPECT_THAT(h.Reply(native), Succeeded());
  const CallId waits = h.Arrive(1, "b");
  EXPECT_THAT(h.Reply(h.Ask(kFirst, ArriveAtBarrier{.id = "b"})), Succeeded());
  EXPECT_THAT(h.Reply(waits), Succeeded());
  EXPECT_TRUE(h.Member(0).native);
  EXPECT_FALSE(h.Member(1).native);
}

// A stock service takes an empty id; of a native member it is a mistake.
TEST(Join, ABarrierOfNativeMembersHasAName) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  h.Join(kFirst, 501, {.index = 0});
  h.Register(1, 100);
  EXPECT_THAT(h.Reply(h.Ask(kFirst, ArriveAtBarrier{.id = ""})),
              HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument, "has a name"));
  EXPECT_TRUE(h.Pending(h.Arrive(1, "")));
}

TEST(Join, GivesTheLowestIndexThatNobodyHas) {
  CoordinatorHarness h({.size = 3});
  for (const Native& each : {kFirst, kSecond, kThird}) h.Open(each);
  h.Join(kFirst, 501, {.index = 0});
  const CallId second = h.Join(kSecond, 502);
  const CallId third = h.Join(kThird, 503);

  EXPECT_EQ(h.Brought<Joined>(second).member, MemberIndex(1));
  EXPECT_EQ(h.Brought<Joined>(third).member, MemberIndex(2));
  h.Open(Native(4));
  EXPECT_THAT(h.Reply(h.Join(Native(4), 504)),
              HasError(StatusCode::kResourceExhausted, Reason::kJobFull, "has 3 members"));
}

TEST(Join, ARetryOfGiveMeOneGetsTheSame) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  h.Join(kFirst, 501);
  const uint64_t number = h.LastNumber(kFirst);
  h.BreakLink(kFirst);
  EXPECT_EQ(h.Condition(0), MemberCondition::kMissing);
  h.Open(kFirst, true);

  const CallId again = h.Join(kFirst.Again(number), 501);
  h.Open(kSecond);
  h.Join(kSecond, 502);

  EXPECT_EQ(h.Brought<Joined>(again).member, MemberIndex(0));
  // Also when it is in already, and only the answer was lost.
  EXPECT_EQ(h.Brought<Joined>(h.Join(kFirst.Again(number), 501)).name, "task/0#1");
}

// Each life of a job's processes is told its attempt by whoever started it.
class JoinForAttempt : public ::testing::Test {
 protected:
  JoinForAttempt() {
    for (uint64_t client = 1; client <= 6; ++client) h.Open(Native(client));
  }
  CallId Ask(uint64_t client, int index, int64_t attempt) {
    return h.Join(Native(client), 500 + client, {.index = index, .attempt = attempt});
  }
  void ExpectRefused(CallId call, const char* text) {
    EXPECT_THAT(h.Reply(call),
                HasError(StatusCode::kFailedPrecondition, Reason::kWrongAttempt, text));
  }
  // The attempt that is on fails: its member 0 is gone for good.
  void Fail() {
    h.BreakLink(kFirst);
    h.Advance(absl::Seconds(5));
  }

  CoordinatorHarness h{{.size = 2}};
};

TEST_F(JoinForAttempt, OfAnAttemptThatIsOverIsRefusedBeforeItsSuccessorsCome) {
  Ask(1, 0, 1);
  EXPECT_EQ(h.Brought<Joined>(Ask(2, 1, 1)).attempt, 1);
  Fail();

  ExpectRefused(Ask(3, 0, 1), "for attempt 1 of job 'job' (LOCKSTEP_ATTEMPT), which is over;");
  EXPECT_EQ(h.View().attempt, 1) << "the late one began an attempt";
  Ask(4, 0, 2);
  EXPECT_EQ(h.Brought<Joined>(Ask(5, 1, 2)).attempt, 2);
  ExpectRefused(Ask(6, 0, 1), "the job is at attempt 2;");
}

TEST_F(JoinForAttempt, OfALaterOneWaitsForTheEndOfThisOne) {
  Ask(1, 0, 1);
  Ask(2, 1, 1);

  ExpectRefused(h.Join(kThird, 503, {.attempt = 2}), "attempt 1 is still on, with 2 members");
  EXPECT_EQ(h.View().attempt, 1);
}

TEST_F(JoinForAttempt, NumbersMayBeLeftOut) {
  const CallId first = Ask(1, 0, 4);
  EXPECT_TRUE(h.Pending(first));
  EXPECT_EQ(h.Brought<Joined>(Ask(2, 1, 4)).attempt, 4);
  EXPECT_EQ(h.Brought<Joined>(first).attempt, 4);
  Fail();

  Ask(3, 0, 9);
  EXPECT_EQ(h.Brought<Joined>(Ask(4, 1, 0)).attempt, 9);
}

TEST_F(JoinForAttempt, Finding02_OneThatIsFarAheadIsRefused) {
  for (const int64_t attempt : {int64_t{1} << 31, INT64_MAX, int64_t{3000}}) {
    const CallId call = Ask(1, 0, attempt);
    EXPECT_THAT(h.Reply(call), HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                                        "attempts_ahead_max"))
        << attempt;
    EXPECT_EQ(h.View().attempt, 1);
  }
}

TEST_F(JoinForAttempt, ARetryOfWhoIsInIsAnsweredAlsoWhenItsAttemptFailed) {
  Ask(1, 0, 1);
  Ask(2, 1, 1);
  const uint64_t number = h.LastNumber(kSecond);
  h.Ask(kSecond, PollForError{});  // it is told, and stays in
  Fail();

  const CallId again = h.Join(kSecond.Again(number), 502, {.index = 1, .attempt = 1});
  EXPECT_EQ(h.View().attempt, 1);
  EXPECT_THAT(h.Reply(again), HasError(StatusCode::kAborted, Reason::kMemberFailed));
}

TEST(Join, MembersArePrintedByTheirRoles) {
  CoordinatorHarness h({.size = 3, .roles = {{"worker", 2}, {"ps", 1}}});
  for (const Native& each : {kFirst, kSecond, kThird}) h.Open(each);
  h.Join(kFirst, 501, {.role = "ps"});
  const CallId worker = h.Join(kSecond, 502, {.role = "worker"});
  h.Join(kThird, 503, {.index = 1, .role = "worker"});

  EXPECT_EQ(h.Brought<Joined>(worker).name, "worker/0#1");
  EXPECT_EQ(h.Member(2).name, "ps/0#1");
  h.Open(Native(4));
  EXPECT_THAT(h.Reply(h.Join(Native(4), 504, {.role = "ps"})),
              HasError(StatusCode::kResourceExhausted, Reason::kJobFull,
                       "1 member of role 'ps', and it is there already"));
  EXPECT_THAT(
      h.Reply(h.Join(Native(4), 504, {.role = "chief"})),
      HasError(StatusCode::kInvalidArgument, Reason::kUnknownRole, "'worker' (2), 'ps' (1)"));
  EXPECT_THAT(h.Reply(h.Join(Native(4), 504)),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownRole, "say which one"));
  EXPECT_THAT(h.Reply(h.Join(Native(4), 504, {.index = 2, .role = "worker"})),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember, "worker/2",
                       "worker/0 to worker/1, ps/0 to ps/0"));
}

TEST(Join, StockClientsSayTheirRoleToo) {
  CoordinatorHarness h({.size = 3, .roles = {{"worker", 2}, {"ps", 1}}});
  const absl::Duration forever = absl::InfiniteDuration();

  EXPECT_THAT(h.Reply(h.Register(0, 100, forever, "chief")),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownRole));
  EXPECT_THAT(
      h.Reply(h.Register(2, 100, forever, "worker")),
      HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember, "not of role 'worker'"));
  EXPECT_TRUE(h.Pending(h.Register(2, 100, forever, "ps")));
  // Who does not say is known by the index.
  EXPECT_TRUE(h.Pending(h.Register(0, 100)));
}

TEST(Join, TheFirstRoleNameThatComesIsTheJobs) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  h.Open(kSecond);
  h.Join(kFirst, 501, {.index = 0, .role = "trainer"});
  EXPECT_EQ(h.Member(1).name, "trainer/1");

  EXPECT_THAT(h.Reply(h.Join(kSecond, 502, {.index = 1, .role = "worker"})),
              HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument, "'trainer'"));
  EXPECT_THAT(h.Reply(h.Join(kSecond, 502, {.index = 1})), Succeeded());
}

TEST(Join, AnotherProcessThatLivesIsNotPushedOut) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  h.Join(kFirst, 501, {.index = 0, .host = "gpu-3", .pid = 4711});
  h.Advance(absl::Seconds(12));
  h.Open(kThird);

  // While it waits for the others ...
  EXPECT_THAT(h.Reply(h.Join(kThird, 503, {.index = 0})),
              HasError(StatusCode::kAlreadyExists, Reason::kMemberExists, "task/0#1",
                       "pid 4711 on gpu-3", "for 12s"));
  h.Open(kSecond);
  h.Join(kSecond, 502, {.index = 1});
  const CallId poll = h.Ask(kSecond, PollForError{});
  // ... and when it is in.
  EXPECT_THAT(h.Reply(h.Join(kThird, 503, {.index = 0})),
              HasError(StatusCode::kAlreadyExists, Reason::kMemberExists, "pid 4711 on gpu-3"));
  EXPECT_THAT(h.Reply(h.Register(0, 900)),
              HasError(StatusCode::kAlreadyExists, Reason::kMemberExists));
  EXPECT_TRUE(h.Pending(poll));
  EXPECT_EQ(h.View().attempt, 1);
}

TEST(Join, OneWhoseLinkIsBrokenIsGivenUpForItsSuccessor) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  const CallId poll = h.Ask(kSecond, PollForError{});
  h.BreakLink(kFirst);
  h.Open(kThird);

  const CallId successor = h.Join(kThird, 700, {.index = 0});

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, Reason::kConnectionLost));
  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_TRUE(h.Pending(successor));
  EXPECT_EQ(h.Member(0).name, "task/0#2");
}

TEST(Join, ARecoverableMemberComesBackAlone) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.JoinAll();
  h.BreakLink(kFirst);
  h.Open(kThird);

  const Joined back = h.Brought<Joined>(h.Join(kThird, 700, {.index = 0}));

  EXPECT_EQ(back.name, "task/0#2");
  EXPECT_TRUE(back.recoverable);
  EXPECT_EQ(h.View().attempt, 1);
}

TEST(Join, WhatIsTooLongIsRefused) {
  CoordinatorHarness h({.size = 2, .labels_max = 1, .label_bytes_max = 8});
  h.Open(kFirst);

  EXPECT_THAT(h.Reply(h.Join(kFirst, 501, {.labels = {{"a", "1"}, {"b", "2"}}})),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "labels_max"));
  EXPECT_THAT(h.Reply(h.Join(kFirst, 501, {.labels = {{"a", "123456789"}}})),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "label_bytes_max"));
  EXPECT_THAT(h.Reply(h.Join(kFirst, 501, {.host = "a-long-name"})),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "label_bytes_max"));
  EXPECT_THAT(h.Reply(h.Join(kFirst, 0)),
              HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument, "incarnation"));
  EXPECT_TRUE(h.Pending(h.Join(kFirst, 501, {.host = "gpu-3", .labels = {{"zone", "b"}}})));
  EXPECT_EQ(h.Member(0).host, "gpu-3");
  EXPECT_THAT(h.Member(0).labels, ElementsAre(Pair("zone", "b")));
}

TEST(Join, ASessionIsOneMemberOnly) {
  CoordinatorHarness h({.size = 3});
  h.Open(kFirst);
  h.Join(kFirst, 501, {.index = 0});

  EXPECT_THAT(h.Reply(h.Join(kFirst, 502, {.index = 1})),
              HasError(StatusCode::kAlreadyExists, Reason::kMemberExists, "task/0#1"));
  EXPECT_EQ(h.Condition(0), MemberCondition::kRegistering);
  EXPECT_EQ(h.Condition(1), MemberCondition::kMissing);
}

TEST(Join, WhoIsMissingIsToldShortlyBeforeTheCallersDeadline) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  const CallId joining = h.Join(kFirst, 501, {.index = 0, .patience = absl::Seconds(10)});

  h.Advance(absl::Seconds(10));

  const auto reply = h.Reply(joining);
  EXPECT_THAT(reply, HasError(StatusCode::kDeadlineExceeded, Reason::kRegistrationFailed,
                              "missing task/1 (never came)"));
  EXPECT_EQ(reply.error->missing, "task/1") << "for programs, and for whoever looks at stacks";
}

TEST(Join, WhoIsMissingIsNotNamedByItsProcessInAnotherAttempt) {
  CoordinatorHarness h({.size = 2});
  for (int i = 0; i < 2; ++i) {
    const Native client(static_cast<uint64_t>(i) + 1);
    h.Open(client);
    h.Join(client, 500 + client.session.low, {.index = i, .host = "gpu-3", .pid = 40 + i});
  }
  for (const Native& client : {kFirst, kSecond}) h.Ask(client, CloseSession{});
  const Native third(3);
  h.Open(third);
  const CallId joining = h.Join(third, 503, {.index = 0, .patience = absl::Seconds(10)});

  h.Advance(absl::Seconds(10));

  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_THAT(h.Reply(joining), HasError(StatusCode::kDeadlineExceeded, Reason::kRegistrationFailed,
                                         "missing task/1 (never came)"));
}

TEST(Members, ThoseThatAreRecoverableByThemselvesFailNobody) {
  CoordinatorHarness h({.size = 3});
  const absl::Duration forever = absl::InfiniteDuration();
  h.Register(0, 100);
  h.Register(1, 101);
  h.Register(2, 102, forever, "", /*recoverable=*/true);
  const std::vector<CallId> polls = h.PollAll();

  h.Hangup(polls[2]);
  h.Advance(absl::Seconds(1));

  EXPECT_EQ(h.Condition(2), MemberCondition::kLost);
  EXPECT_TRUE(h.Pending(polls[0]));
  EXPECT_THAT(h.Reply(h.Register(2, 103, forever, "", true)), Succeeded());
  EXPECT_EQ(h.View().attempt, 1);
  // The others are not recoverable.
  h.Hangup(polls[1]);
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(h.Reply(polls[0]), HasError(StatusCode::kUnavailable, Reason::kConnectionLost));
}

TEST(Members, NobodyWaitsForARecoverableOneToLeave) {
  CoordinatorHarness h({.size = 3});
  const absl::Duration forever = absl::InfiniteDuration();
  h.Register(0, 100);
  h.Register(1, 101);
  h.Register(2, 102, forever, "", /*recoverable=*/true);
  const CallId first = h.Leave(0);
  EXPECT_TRUE(h.Pending(first));

  EXPECT_THAT(h.Reply(h.Leave(1)), Succeeded());

  EXPECT_THAT(h.Reply(first), Succeeded());
  EXPECT_EQ(h.Condition(2), MemberCondition::kConnected);
  EXPECT_THAT(h.Reply(h.Leave(2)), Succeeded());
}

// What "give me one" has to be, by looking at all members of the role.
std::optional<int> LowestFree(const CoordinatorHarness& h, int first, int end, bool recoverable) {
  for (int i = first; i < end; ++i) {
    switch (h.Condition(i)) {
      case MemberCondition::kMissing:
      case MemberCondition::kLeft:
        return i;
      case MemberCondition::kSuspect:
      case MemberCondition::kLost:
        if (recoverable) return i;
        break;
      default:
        break;
    }
  }
  return std::nullopt;
}

// Members come, hang up, come back and leave in any order, in a job that runs and in one that
// waits: a newcomer always gets the lowest index that is free.
void GiveEachTheLowest(uint64_t seed, int size, bool starts) {
  constexpr int kWorkers = 5;
  CoordinatorHarness h({.size = size,
                        .roles = {{"worker", kWorkers}, {"ps", size - kWorkers}},
                        .shutdown_timeout = {},
                        .recoverable = true});
  std::mt19937_64 random(seed);
  std::vector<Native> in;
  uint64_t next = 1;
  for (int step = 0; step < 200; ++step) {
    const bool is_worker = random() % 2 == 0;
    const int first = is_worker ? 0 : kWorkers;
    const int end = is_worker ? kWorkers : size;
    const size_t which = in.empty() ? 0 : random() % in.size();
    switch (random() % (starts ? 3 : 8)) {
      case 0:
      case 1:
      case 2: {
        const std::optional<int> free = LowestFree(h, first, end, true);
        const Native who(next++);
        h.Open(who);
        const CallId call = h.Join(who, 1000 + next, {.role = is_worker ? "worker" : "ps"});
        if (!free) {
          EXPECT_THAT(h.Reply(call), HasError(StatusCode::kResourceExhausted, Reason::kJobFull));
          break;
        }
        if (starts && h.Pending(call)) {
          EXPECT_EQ(h.Condition(*free), MemberCondition::kRegistering);
        } else {
          EXPECT_EQ(h.Brought<Joined>(call).member, MemberIndex(*free)) << "seed " << seed;
        }
        in.push_back(who);
        starts = starts && h.Pending(call);
        break;
      }
      case 3:
      case 4:
        if (!in.empty()) h.BreakLink(in[which]);
        break;
      case 5:
        if (!in.empty()) h.Open(in[which], true);
        break;
      case 6:
        if (!in.empty()) h.Ask(in[which], LeaveJob{});
        break;
      default:
        h.Advance(absl::Milliseconds(random() % 1500));
        break;
    }
  }
}

TEST(Join, GivesTheLowestIndexWhateverHappenedBefore) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    GiveEachTheLowest(seed, 9, /*starts=*/true);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Join, GivesAnIndexBackThatACallerDidNotWaitFor) {
  CoordinatorHarness h({.size = 4});
  for (const Native& each : {kFirst, kSecond, kThird}) h.Open(each);
  h.Join(kFirst, 501);
  h.Join(kSecond, 502);
  h.BreakLink(kFirst);
  h.Join(kThird, 503);
  EXPECT_EQ(h.Condition(0), MemberCondition::kRegistering) << "the third got it";
  EXPECT_EQ(h.Condition(2), MemberCondition::kMissing);

  // Its patience ends as well.
  h.Open(Native(4));
  h.Join(Native(4), 504, {.patience = absl::Seconds(1)});
  EXPECT_EQ(h.Condition(2), MemberCondition::kRegistering);
  h.Advance(absl::Seconds(2));
  EXPECT_EQ(h.Condition(2), MemberCondition::kMissing);
  h.Open(Native(5));
  h.Join(Native(5), 505);
  EXPECT_EQ(h.Condition(2), MemberCondition::kRegistering);
}

// Looking through all members for each of them would be thousands of millions of looks.
TEST(Join, AsManyAsAJobMayHaveAreGivenOneEach) {
  CoordinatorHarness h({.size = kMembersMax});
  for (int i = 0; i < kMembersMax; ++i) {
    h.Open(Native(1 + i));
    h.Join(Native(1 + i), 1000 + i);
  }

  EXPECT_EQ(h.View().state, AttemptState::kRunning);
  EXPECT_EQ(h.Member(kMembersMax - 1).name, absl::StrCat("task/", kMembersMax - 1, "#1"));
}

}  // namespace
}  // namespace lockstep::coord

// Following a job: progress, deltas, states of members, and who is missing and does what instead.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/coord/job_watch.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::At;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::Native;
using lockstep::testing::Succeeded;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Native kFirst(1);
const Native kSecond(2);
const Native kTool(9);

std::vector<std::string> Names(const JobChange& change) {
  std::vector<std::string> names;
  for (const MemberView& member : change.members) names.push_back(member.name);
  return names;
}

TEST(Progress, IsSeenInTheView) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();

  EXPECT_THAT(h.Reply(h.Ask(kFirst, ReportProgress{.step = 17, .phase = "training"})), Succeeded());
  h.Ask(kFirst, ReportProgress{.step = 18});

  EXPECT_EQ(h.Member(0).step, 18);
  EXPECT_EQ(h.Member(0).phase, "training");
  EXPECT_EQ(h.Member(1).step, std::nullopt);
}

TEST(Progress, IsASignOfLife) {
  CoordinatorHarness h({.size = 2, .heartbeat_timeout = absl::Seconds(10)});
  h.JoinAll();
  for (int i = 0; i < 5; ++i) {
    h.Advance(absl::Seconds(5));
    h.Ask(kFirst, ReportProgress{});
    h.Ask(kSecond, ReportProgress{});
  }

  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST(Progress, OfAFailedMemberIsRefusedAndALongPhaseToo) {
  CoordinatorHarness h({.size = 2, .label_bytes_max = 8});
  h.JoinAll();
  h.Ask(kSecond, PollForError{});

  EXPECT_THAT(h.Reply(h.Ask(kFirst, ReportProgress{.phase = "a long phase"})),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "label_bytes_max"));
  h.Ask(kFirst, ReportError{.message = "broken"});
  EXPECT_THAT(h.Reply(h.Ask(kFirst, ReportProgress{})),
              HasError(StatusCode::kAborted, Reason::kMemberFailed, "broken"));
}

TEST(ListBarriers, SaysWhoWaitsForWhomToMembersAndTools) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Ask(kFirst, ArriveAtBarrier{.id = "loaded", .timeout = absl::Seconds(60)});
  h.Advance(absl::Seconds(5));
  h.Ask(kSecond, ArriveAtBarrier{.id = "saved"});

  h.Open(kTool);
  for (const Native& asker : {kFirst, kTool}) {
    const auto listed = h.Brought<BarriersListed>(h.Ask(asker, ListBarriers{}));
    ASSERT_EQ(listed.barriers.size(), 2u);
    const BarrierView& oldest = listed.barriers[0];
    EXPECT_EQ(oldest.barrier, (BarrierRef{"loaded", 0}));
    EXPECT_EQ(listed.at - oldest.opened, absl::Seconds(5));
    EXPECT_EQ(oldest.deadline - listed.at, absl::Seconds(55));
    EXPECT_THAT(oldest.waiting, ElementsAre(MemberIndex(0)));
    EXPECT_THAT(oldest.awaited, ElementsAre(MemberIndex(1)));
    EXPECT_EQ(listed.barriers[1].barrier.id, "saved");
  }
}

TEST(ListBarriers, CountsThoseThatItDoesNotShowAndShowsTheShutdownBarrier) {
  CoordinatorHarness h({.size = 2, .view_rows_max = 1});
  h.JoinAll();
  h.Ask(kFirst, ArriveAtBarrier{.id = "loaded"});
  h.Ask(kFirst, ArriveAtBarrier{.id = "saved"});
  h.Ask(kSecond, LeaveJob{});

  const auto listed = h.Brought<BarriersListed>(h.Ask(kFirst, ListBarriers{}));
  EXPECT_EQ(listed.open, 3u);
  ASSERT_EQ(listed.barriers.size(), 2u);
  EXPECT_EQ(listed.barriers[0].barrier.id, "loaded");
  EXPECT_THAT(listed.barriers[1].awaited, ElementsAre(MemberIndex(0)));
}

TEST(WatchJobs, BeginsWithAllAndGoesOnWithWhatChanged) {
  CoordinatorHarness h({.size = 3});
  h.JoinAll();
  h.Open(kTool);
  const JobChange all = *h.Brought<JobChanged>(h.Ask(kTool, WatchJob{})).change;
  EXPECT_TRUE(all.snapshot);
  EXPECT_EQ(all.state, AttemptState::kRunning);
  EXPECT_THAT(Names(all), ElementsAre("task/0#1", "task/1#1", "task/2#1"));
  const CallId next = h.Ask(kTool, WatchJob{.after = all.version});
  EXPECT_TRUE(h.Pending(next));

  h.Ask(kSecond, ReportProgress{.step = 5});

  const JobChange change = *h.Brought<JobChanged>(next).change;
  EXPECT_FALSE(change.snapshot);
  EXPECT_THAT(Names(change), ElementsAre("task/1#1"));
  EXPECT_EQ(change.members[0].step, 5);
  EXPECT_THAT(change.errors, IsEmpty());
  EXPECT_GT(change.version, all.version);
}

TEST(WatchJobs, CoalescesWhatHappensWithinTheInterval) {
  CoordinatorHarness h({.size = 2, .watch_interval = absl::Milliseconds(100)});
  h.JoinAll();
  h.Open(kTool);
  JobChange change = *h.Brought<JobChanged>(h.Ask(kTool, WatchJob{})).change;
  const CallId first = h.Ask(kTool, WatchJob{.after = change.version});
  h.Ask(kFirst, ReportProgress{.step = 1});
  change = *h.Brought<JobChanged>(first).change;
  const CallId second = h.Ask(kTool, WatchJob{.after = change.version});

  h.Ask(kFirst, ReportProgress{.step = 2});
  h.Ask(kSecond, ReportProgress{.step = 3});
  h.Ask(kFirst, ReportProgress{.step = 4});
  EXPECT_TRUE(h.Pending(second));
  h.Advance(absl::Milliseconds(100));

  change = *h.Brought<JobChanged>(second).change;
  EXPECT_THAT(Names(change), ElementsAre("task/0#1", "task/1#1"));
  EXPECT_EQ(change.members[0].step, 4);
}

TEST(WatchJobs, TellsErrorsOnceAndFollowsToTheNextAttempt) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Ask(kSecond, PollForError{});
  h.Open(kTool);
  JobChange change = *h.Brought<JobChanged>(h.Ask(kTool, WatchJob{})).change;
  CallId next = h.Ask(kTool, WatchJob{.after = change.version});

  h.Ask(kFirst, ReportError{.code = StatusCode::kInternal, .message = "broken"});
  change = *h.Brought<JobChanged>(next).change;
  EXPECT_EQ(change.state, AttemptState::kFailed);
  ASSERT_EQ(change.errors.size(), 1u);
  EXPECT_EQ(change.errors[0].reason, Reason::kReportedError);
  next = h.Ask(kTool, WatchJob{.after = change.version});
  h.Open(Native(3));
  h.Join(Native(3), 700, {.index = 0});
  h.Advance(absl::Seconds(1));

  change = *h.Brought<JobChanged>(next).change;
  EXPECT_EQ(change.attempt, 2);
  EXPECT_EQ(change.state, AttemptState::kWaiting);
  EXPECT_THAT(change.errors, IsEmpty());
}

TEST(WatchJobs, Finding07_SayOnlyWhichMembersWhereThoseAreMany) {
  const auto size = static_cast<int32_t>(JobWatch::kMembersToldMax) + 1;
  CoordinatorHarness h({.size = size});
  h.JoinAll();
  h.Open(Native(size + 1));
  const Native tool(size + 1);
  const JobChange all = *h.Brought<JobChanged>(h.Ask(tool, WatchJob{})).change;
  EXPECT_TRUE(all.snapshot);
  EXPECT_THAT(all.members, IsEmpty());
  ASSERT_EQ(all.later.size(), static_cast<size_t>(size));
  EXPECT_EQ(all.later.back(), MemberIndex(size - 1));

  h.Ask(kSecond, ReportProgress{.step = 5});
  const JobChange one = *h.Brought<JobChanged>(h.Ask(tool, WatchJob{.after = all.version})).change;
  EXPECT_THAT(Names(one), ElementsAre("task/1#1"));
  EXPECT_THAT(one.later, IsEmpty());

  for (int32_t i = size; i > 0; --i) h.Ask(Native(i), ReportProgress{.step = 6});
  const JobChange most = *h.Brought<JobChanged>(h.Ask(tool, WatchJob{.after = one.version})).change;
  EXPECT_FALSE(most.snapshot);
  EXPECT_THAT(most.members, IsEmpty());
  EXPECT_EQ(most.later, all.later) << "in their order";
}

TEST(WatchJobs, AnUnknownVersionBringsAll) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Open(kTool);
  const int64_t version = h.Brought<JobChanged>(h.Ask(kTool, WatchJob{})).change->version;

  EXPECT_TRUE(h.Brought<JobChanged>(h.Ask(kTool, WatchJob{.after = 5})).change->snapshot);
  EXPECT_TRUE(h.Brought<JobChanged>(h.Ask(kTool, WatchJob{.after = version + 1})).change->snapshot);
}

TEST(WatchJobs, AVersionFromBeforeARestartBringsAll) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Open(kTool);
  const int64_t version = h.Brought<JobChanged>(h.Ask(kTool, WatchJob{})).change->version;
  h.Advance(absl::Seconds(3));

  h.Restart(/*from_snapshot=*/true);
  h.Open(kTool, true);

  EXPECT_TRUE(h.Brought<JobChanged>(h.Ask(kTool, WatchJob{.after = version})).change->snapshot);
}

TEST(MemberStates, AreGivenInTheOrderAsked) {
  CoordinatorHarness h({.size = 3});
  h.JoinAll();
  const std::vector<MemberIndex> asked = {MemberIndex(2), MemberIndex(0)};

  const MembersWatched states =
      h.Brought<MembersWatched>(h.Ask(kFirst, GetMemberStates{.members = asked}));

  ASSERT_EQ(states.members->size(), 2u);
  EXPECT_EQ((*states.members)[0].member, MemberIndex(2));
  EXPECT_EQ((*states.members)[1].member, MemberIndex(0));
  EXPECT_EQ((*states.members)[1].state, MemberState::kConnected);
  EXPECT_THAT(h.Reply(h.Ask(kFirst, GetMemberStates{.members = {MemberIndex(7)}})),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember));
}

TEST(WhoIsMissing, IsToldWithWhereTheyAreAndWhatTheyDoInstead) {
  CoordinatorHarness h({.size = 4});
  for (int i = 0; i < 4; ++i) {
    const Native client(static_cast<uint64_t>(i) + 1);
    h.Open(client);
    h.Join(client, 500 + client.session.low, {.index = i, .host = "gpu-3", .pid = 40 + i});
  }
  h.Ask(Native(2), ReportProgress{.step = 17});
  h.Ask(Native(3), ReportProgress{.phase = "loading"});
  h.Ask(Native(2), ArriveAtBarrier{.id = "other"});
  h.Ask(Native(4), GetKey{.key = "shape"});
  h.Advance(absl::Seconds(2));

  const CallId waits = h.Ask(kFirst, ArriveAtBarrier{.id = "b", .timeout = absl::Seconds(5)});
  h.Advance(absl::Seconds(5));

  EXPECT_THAT(
      h.Reply(waits),
      HasError(StatusCode::kDeadlineExceeded, Reason::kBarrierTimedOut,
               "task/1#1 (pid 41 on gpu-3) (last heard 7s ago, at step 17, waits at barrier "
               "'other' for 7s)",
               "task/2#1 (pid 42 on gpu-3) (last heard 7s ago, is in phase 'loading')",
               "task/3#1 (pid 43 on gpu-3) (last heard 7s ago, waits for key 'shape' for 7s)"));
  EXPECT_EQ(h.Reply(waits).error->missing, "task/1,task/2,task/3");
  EXPECT_EQ(h.Member(1).doing, "waits at barrier 'other' for 7s");
  EXPECT_EQ(h.Member(3).doing, "waits for key 'shape' for 7s");
  EXPECT_EQ(h.Member(0).doing, "");
}

TEST(WhoIsMissing, StockMembersToo) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Get(1, "shape");
  const CallId leaves = h.Leave(0);
  EXPECT_EQ(h.Member(0).doing, "waits for the others to leave for 0");

  const CallId waits = h.Arrive(0, "b");
  h.Advance(absl::Seconds(10));

  EXPECT_THAT(h.Reply(waits), HasError(StatusCode::kDeadlineExceeded, Reason::kBarrierTimedOut,
                                       "waits for key 'shape' for 10s"));
  h.Hangup(leaves);
  EXPECT_EQ(h.Member(0).doing, "");
}

}  // namespace
}  // namespace lockstep::coord

// What callers with a lesser token than an operator's do in a job: a task acts for itself only, and
// Lockstep's own keys are not there for those who may not read them.
#include <string>
#include <vector>

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
using Act = NotifyPreemption::Act;

// Members 0 to 3 as tasks, two on each host; a launcher and an operator that are no members.
class RightsInAJob : public ::testing::Test {
 protected:
  RightsInAJob() : h({.size = 4}) {
    for (int member = 0; member < 4; ++member) {
      h.Open(Task(member));
      h.Join(Task(member), 500 + static_cast<uint64_t>(member),
             {.index = member, .host = member < 2 ? "north" : "south"});
    }
    h.Open(kLauncher);
    h.Open(kOperator);
    h.Open(kToolOfTask);
  }

  static Native Task(int member) {
    return Native(static_cast<uint64_t>(member) + 1).With(Standing::kTask);
  }
  static auto Refused(const std::string& text = "") {
    return HasError(StatusCode::kPermissionDenied, Reason::kNotPermitted, text);
  }
  template <class Request>
  const Reply& Ask(const Native& who, Request request) {
    return h.Reply(h.Ask(who, std::move(request)));
  }
  std::vector<std::string> Changed(CallId watch) {
    std::vector<std::string> keys;
    for (const KeyValue& change : h.Brought<KeysChanged>(watch).changes) {
      keys.push_back(change.key);
    }
    return keys;
  }

  const Native kLauncher = Native(11).With(Standing::kLauncher);
  const Native kOperator = Native(12);
  const Native kToolOfTask = Native(13).With(Standing::kTask);
  CoordinatorHarness h;
};

// A pager walks over what is hidden, which lies between keys that are not.
TEST_F(RightsInAJob, AListOfAllKeysLeavesOutTheHiddenOnes) {
  for (const char* const key : {"A", "_stacks/question", "_x", "a", "b"}) {
    EXPECT_THAT(Ask(kOperator, SetKey{.key = key, .value = "v"}), Succeeded());
  }
  EXPECT_THAT(h.Entries(h.Ask(Task(0), ListKeys{})), ElementsAre("A=v", "a=v", "b=v"));
  EXPECT_THAT(h.Entries(h.Ask(kLauncher, ListKeys{})), ElementsAre("A=v", "a=v", "b=v"));
  EXPECT_THAT(h.Entries(h.Ask(kOperator, ListKeys{})),
              ElementsAre("A=v", "_stacks/question=v", "_x=v", "a=v", "b=v"));
  EXPECT_THAT(h.Entries(h.Ask(Task(0), ListKeys{.limit = 2})), ElementsAre("A=v", "a=v"));
  EXPECT_THAT(h.Entries(h.Ask(Task(0), ListKeys{.limit = 2, .after = "_a"})),
              ElementsAre("a=v", "b=v"));
  EXPECT_THAT(Ask(Task(0), ListKeys{.directory = "_stacks"}), Refused("'_stacks'"));
  EXPECT_THAT(h.Entries(h.Ask(kLauncher, ListKeys{.directory = "_stacks"})),
              ElementsAre("_stacks/question=v"));
  EXPECT_THAT(Changed(h.Ask(Task(0), WatchKeys{})), ElementsAre("A", "a", "b"));
}

TEST_F(RightsInAJob, AWatchOfAllKeysSleepsThroughTheHiddenOnes) {
  EXPECT_THAT(Ask(kOperator, SetKey{.key = "a", .value = "v"}), Succeeded());
  const int64_t now = h.Brought<KeysChanged>(h.Ask(Task(0), WatchKeys{})).revision;
  const CallId task = h.Ask(Task(0), WatchKeys{.after = now});
  const CallId all = h.Ask(kOperator, WatchKeys{.after = now});
  const CallId stacks = h.Ask(kLauncher, WatchKeys{.key = "_stacks", .after = now});
  EXPECT_THAT(Ask(kOperator, SetKey{.key = "_stacks/question", .value = "?"}), Succeeded());
  EXPECT_THAT(Changed(all), ElementsAre("_stacks/question"));
  EXPECT_THAT(Changed(stacks), ElementsAre("_stacks/question"));
  EXPECT_TRUE(h.Pending(task));
  // Who is behind is not told either.
  EXPECT_TRUE(h.Pending(h.Ask(Task(1), WatchKeys{.after = now})));
  EXPECT_THAT(Ask(kOperator, SetKey{.key = "b", .value = "v"}), Succeeded());
  EXPECT_THAT(Changed(task), ElementsAre("b"));
}

TEST_F(RightsInAJob, AMemberWritesItsOwnCardOnly) {
  const SetKey own{.key = "lockstep/rendezvous/card/1", .lifetime = {.with_member = true}};
  EXPECT_THAT(Ask(Task(1), own), Succeeded());
  EXPECT_THAT(Ask(Task(0), DeleteKey{.key = own.key, .only_key = true}), Refused());
  EXPECT_THAT(Ask(Task(0), SetKey{.key = own.key, .overwrite = true}), Refused());
  EXPECT_THAT(Ask(kToolOfTask, SetKey{.key = own.key, .overwrite = true}), Refused());
  EXPECT_THAT(Ask(Task(0), TryGetKey{.key = own.key}), Succeeded());
  EXPECT_THAT(Ask(Task(1), DeleteKey{.key = own.key, .only_key = true}), Succeeded());
}

// Stock clients and callers without a token stay as they were.
TEST_F(RightsInAJob, WhoNeedsNoTokenMayDoEverything) {
  EXPECT_THAT(Ask(kOperator, SetKey{.key = "_x", .value = "v"}), Succeeded());
  EXPECT_THAT(Ask(kOperator, SetKey{.key = "lockstep/rendezvous/card/1"}), Succeeded());
  EXPECT_THAT(Ask(kOperator, NotifyPreemption{.source = "operator"}), Succeeded());
  EXPECT_THAT(Ask(kOperator, DeleteKey{}), Succeeded());
}

TEST_F(RightsInAJob, ATaskCancelsBarriersThatItIsIn) {
  const std::vector<MemberIndex> both = {MemberIndex(0), MemberIndex(1)};
  const CallId waits = h.Ask(Task(0), ArriveAtBarrier{.id = "b", .members = both});
  EXPECT_THAT(Ask(Task(2), CancelBarrier{.id = "b"}),
              HasError(StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant, "task/2"));
  EXPECT_TRUE(h.Pending(waits));
  EXPECT_THAT(Ask(Task(1), CancelBarrier{.id = "b"}), Succeeded());
  EXPECT_THAT(h.Reply(waits), HasError(StatusCode::kCancelled, Reason::kBarrierCancelled));
}

TEST_F(RightsInAJob, ATaskEndsNoBarrierThatItIsNotIn) {
  const std::vector<MemberIndex> both = {MemberIndex(0), MemberIndex(1)};
  const CallId waits = h.Ask(Task(0), ArriveAtBarrier{.id = "b", .members = both});
  EXPECT_THAT(Ask(Task(2), ArriveAtBarrier{.id = "b", .members = {MemberIndex(2)}}),
              HasError(StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant, "task/2"));
  EXPECT_THAT(Ask(Task(2), ArriveAtBarrier{.id = "b", .counter = 7, .members = both}),
              HasError(StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant, "task/2"));
  EXPECT_TRUE(h.Pending(waits));
  EXPECT_THAT(Ask(Task(1), ArriveAtBarrier{.id = "b", .members = both}), Succeeded());
  EXPECT_THAT(h.Reply(waits), Succeeded());
}

TEST_F(RightsInAJob, ATaskGivesNoticeOfItselfAndItsHost) {
  const auto about = [](std::vector<MemberIndex> subjects, std::string host = "") {
    return NotifyPreemption{.source = "gce",
                            .subjects = std::move(subjects),
                            .host = std::move(host),
                            .left = absl::Hours(1)};
  };
  EXPECT_THAT(Ask(Task(0), about({MemberIndex(2)})), Refused("other members"));
  EXPECT_THAT(Ask(Task(0), about({MemberIndex(0), MemberIndex(2)})), Refused());
  EXPECT_THAT(Ask(Task(0), about({}, "south")), Refused());
  EXPECT_THAT(Ask(kToolOfTask, about({MemberIndex(0)})), Refused("join first"));
  EXPECT_THAT(Ask(kToolOfTask, about({})), Refused("join first"));
  EXPECT_THAT(Ask(Task(0), NotifyPreemption{.source = "operator"}), Refused("another source"));
  EXPECT_FALSE(h.View().preemption.has_value());

  EXPECT_THAT(Ask(Task(0), about({})), Succeeded());
  EXPECT_THAT(Ask(Task(0), about({}, "north")), Succeeded());
  EXPECT_THAT(Ask(Task(0), about({MemberIndex(1)})), Succeeded());
  // A launcher speaks for all.
  EXPECT_THAT(Ask(kLauncher, about({MemberIndex(3)})), Succeeded());
}

TEST_F(RightsInAJob, ATaskMovesAndWithdrawsNoNoticeAboutOthers) {
  const auto notice = [](Act act, std::string event) {
    return NotifyPreemption{
        .act = act, .source = "gce", .event = std::move(event), .left = absl::Hours(1)};
  };
  NotifyPreemption south = notice(Act::kNotify, "south");
  south.host = "south";
  EXPECT_THAT(Ask(kLauncher, south), Succeeded());
  EXPECT_THAT(Ask(Task(0), notice(Act::kNotify, "own")), Succeeded());
  for (const Act act : {Act::kExtend, Act::kWithdraw}) {
    EXPECT_THAT(Ask(Task(0), notice(act, "south")), Refused("the notice of gce"));
    // All that the source said.
    EXPECT_THAT(Ask(Task(0), notice(act, "")), Refused());
    EXPECT_THAT(Ask(Task(0), notice(act, "own")), Succeeded());
  }
  EXPECT_THAT(Ask(Task(2), notice(Act::kWithdraw, "south")), Succeeded());
}

}  // namespace
}  // namespace lockstep::coord

// Consumers that are lost: whose place waits, who may take it, and what is kept for them.
#include "gtest/gtest.h"
#include "lockstep/data/dispatch/dispatch_harness.h"

namespace lockstep::dispatch {
namespace {

IterationSpec Rounds(DatasetId dataset, OnLost on_lost = OnLost::kWait) {
  return {.name = "train",
          .dataset = dataset,
          .mode = Mode::kRounds,
          .consumers = 2,
          .on_lost = on_lost};
}

class LostConsumers : public testing::Test {
 protected:
  void Begin(OnLost on_lost) {
    service_.PollWorker(7);
    spec_ = Rounds(service_.Register(), on_lost);
    a_ = service_.Get<IterationOpened>(service_.Open(spec_, "a", 1, 0));
    b_ = service_.Get<IterationOpened>(service_.Open(spec_, "b", 1, 1));
  }
  // Both have read so many grants, of ten elements, and so many rounds.
  void ReadBoth(int64_t grants) {
    const LaneId lane = service_.Assigned(a_).lanes.at(0).lane;
    for (const IterationOpened* one : {&a_, &b_}) {
      service_.Poll(*one, {.progress = {{lane, grants, grants}}, .round = grants * 5});
    }
  }
  // Time passes, and only `who` is heard.
  void PassWith(const IterationOpened& who, absl::Duration time) {
    for (absl::Duration passed; passed < time; passed += absl::Milliseconds(500)) {
      service_.Pass(absl::Milliseconds(500));
      service_.PollWorker(7);
      service_.Assigned(who);
    }
  }
  CallId Return(const std::string& name, uint64_t life, std::optional<ReadingPlace> from = {},
                int32_t index = 1) {
    return service_.Send(OpenIteration{
        .spec = spec_, .consumer = name, .life = ConsumerLife(life), .index = index, .from = from});
  }
  IterationRow Row() { return service_.Look().iterations.at(0); }

  Service service_;
  IterationSpec spec_;
  IterationOpened a_, b_;
};

TEST_F(LostConsumers, APlaceWaitsForItsSuccessorWhateverItIsCalled) {
  for (const bool restarts : {false, true}) {
    SCOPED_TRACE(restarts);
    service_ = Service();
    Begin(OnLost::kWait);
    ReadBoth(1);
    PassWith(a_, absl::Seconds(15));
    ASSERT_EQ(Row().consumers.size(), 2u);
    EXPECT_TRUE(Row().consumers[1].away);
    EXPECT_NE(Row().waits_for.find("the successor of consumer b"), std::string::npos);
    EXPECT_FALSE(service_.Assigned(a_).block_round);  // nobody agrees to read without it
    if (restarts) service_.Restart(/*compacted=*/true);
    const auto back = service_.Get<IterationOpened>(Return("other", 9, ReadingPlace{.round = 5}));
    EXPECT_EQ(back.consumer, b_.consumer);
    EXPECT_FALSE(Row().consumers[1].away);
    EXPECT_EQ(service_.Assigned(back, 9).seatings.at(0).index, 1);
  }
}

TEST_F(LostConsumers, TheOthersGoOnWhereThatIsWanted) {
  Begin(OnLost::kGoOn);
  ReadBoth(1);
  PassWith(a_, absl::Seconds(15));
  EXPECT_EQ(Row().consumers.size(), 1u);
}

TEST_F(LostConsumers, OneThatKeepsCursorsOrIsAMemberIsWaitedFor) {
  for (const bool member : {false, true}) {
    SCOPED_TRACE(member);
    service_ = Service();
    Begin(OnLost::kAuto);
    if (member) {
      service_.Send(OpenIteration{
          .spec = spec_, .consumer = "a", .life = ConsumerLife(1), .index = 0, .member = true});
    } else {
      service_.Poll(a_, {.keeps_cursors = true});
    }
    PassWith(a_, absl::Seconds(15));
    EXPECT_EQ(Row().consumers.size(), 2u);
  }
}

TEST_F(LostConsumers, WithoutACursorItBeginsWhereTheIterationBegan) {
  for (const bool compacted : {false, true}) {
    SCOPED_TRACE(compacted);
    service_ = Service();
    Begin(OnLost::kWait);
    ReadBoth(1);
    ReadBoth(3);
    EXPECT_EQ(service_.Assigned(a_).lanes.at(0).grants.at(0).seq, 3);
    service_.Restart(compacted);
    const auto back = service_.Get<IterationOpened>(Return("b", 2));
    const Assignment told = service_.Assigned(back, 2);
    EXPECT_EQ(told.lanes.at(0).grants.at(0).seq, 0);
    EXPECT_EQ(told.lanes.at(0).first_element, 0);
    EXPECT_EQ(told.seatings.at(0).first_round, 0);
    service_.Restart(compacted);
    EXPECT_EQ(service_.Assigned(back, 2).lanes.at(0).grants.at(0).seq, 0);
  }
}

TEST_F(LostConsumers, WhatIsNotKeptAnyMoreIsRefusedByTheNameOfItsLimit) {
  service_ = Service(100, {.rounds_history_max = 1});
  Begin(OnLost::kWait);
  ReadBoth(1);
  ReadBoth(3);
  const ErrorPtr error = service_.ErrorOf(Return("b", 2));
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->reason, "cursor_mismatch");
  EXPECT_NE(error->message.find("rounds_history_max"), std::string::npos);
  // The last one that was trimmed is kept.
  EXPECT_EQ(service_.ErrorOf(Return("b", 2, ReadingPlace{.round = 10})), nullptr);
}

TEST_F(LostConsumers, AnOlderCursorOpensTheRoundsOfAFinishedIterationAgain) {
  for (const bool restarts : {false, true}) {
    SCOPED_TRACE(restarts);
    service_ = Service(3);
    Begin(OnLost::kWait);
    ReadBoth(2);
    const LaneId lane = service_.Assigned(a_).lanes.at(0).lane;
    for (const IterationOpened* one : {&a_, &b_}) {
      service_.Poll(*one, {.progress = {{lane, 3, 3}},
                           .round = 15,
                           .finished = true,
                           .end = {.round = 14, .turns = 1}});
    }
    ASSERT_EQ(Row().phase, Phase::kFinished);
    if (restarts) service_.Restart(/*compacted=*/true);
    EXPECT_EQ(service_.ErrorOf(Return("b", 2, ReadingPlace{.round = 14, .turns = 1})), nullptr);
    EXPECT_EQ(Row().phase, Phase::kFinished);
    const auto back = service_.Get<IterationOpened>(Return("b", 3, ReadingPlace{.round = 6}));
    EXPECT_EQ(Row().phase, Phase::kReading);
    if (restarts) service_.Restart();
    service_.PollWorker(7);
    const Assignment told = service_.Assigned(back, 3);
    EXPECT_EQ(told.lanes.at(0).grants.at(0).seq, 1);
    EXPECT_EQ(told.lanes.at(0).first_element, 10);
    service_.Poll(back, {.finished = true, .end = {.round = 14, .turns = 1}}, 3);
    EXPECT_EQ(Row().phase, Phase::kFinished);
  }
}

TEST_F(LostConsumers, TheEndOfItsProcessEndsALeaseAtOnce) {
  Begin(OnLost::kWait);
  service_.Feed(ConsumerEnded{b_.iteration, b_.consumer, ConsumerLife(1)});
  EXPECT_TRUE(Row().consumers[1].away);
  // What it said before it died does not bring it back.
  EXPECT_EQ(service_.ErrorOf(service_.Poll(b_))->reason, "consumer_lease_ended");
  EXPECT_TRUE(Row().consumers[1].away);
}

TEST_F(LostConsumers, TheEndOfAPredecessorIsNothingToItsSuccessor) {
  Begin(OnLost::kWait);
  service_.Get<IterationOpened>(Return("b", 2));
  service_.Feed(ConsumerEnded{b_.iteration, b_.consumer, ConsumerLife(1)});
  EXPECT_FALSE(Row().consumers[1].away);
}

TEST_F(LostConsumers, OneThatWasOnlySilentTakesItsPlaceBack) {
  Begin(OnLost::kWait);
  PassWith(a_, absl::Seconds(15));
  ASSERT_TRUE(Row().consumers[1].away);
  EXPECT_EQ(service_.ErrorOf(service_.Poll(b_)), nullptr);
  EXPECT_FALSE(Row().consumers[1].away);
}

TEST(EndedProcesses, ExactAndFirstComeHaveAFreePlaceAtOnce) {
  Service service(100, {.consumer_timeout = absl::Hours(1)});
  service.PollWorker(7);
  const DatasetId dataset = service.Register();
  const IterationSpec exact{
      .name = "exact", .dataset = dataset, .mode = Mode::kExact, .consumers = 1};
  const auto a = service.Get<IterationOpened>(service.Open(exact, "a", 1, 0));
  EXPECT_EQ(service.ErrorOf(service.Open(exact, "b", 2, 0))->reason, "consumer_index_taken");
  service.Feed(ConsumerEnded{a.iteration, a.consumer, ConsumerLife(1)});
  EXPECT_EQ(service.ErrorOf(service.Open(exact, "b", 2, 0)), nullptr);

  const IterationSpec shared{.name = "shared", .dataset = dataset};
  const auto dies = service.Get<IterationOpened>(service.Open(shared, "dies"));
  ASSERT_EQ(service.Assigned(dies).lanes.at(0).grants.at(0).segment, 0);
  service.Feed(ConsumerEnded{dies.iteration, dies.consumer, ConsumerLife(1)});
  const auto heir = service.Get<IterationOpened>(service.Open(shared, "heir"));
  EXPECT_EQ(service.Assigned(heir).lanes.at(0).grants.at(0).segment, 0);
}

}  // namespace
}  // namespace lockstep::dispatch

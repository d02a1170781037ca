// The worked example of the protocol for adding tasks to rounds, with two consumers.
#include "gtest/gtest.h"
#include "lockstep/data/dispatch/dispatch_harness.h"

namespace lockstep::dispatch {
namespace {

class RoundsExampleTest : public testing::Test {
 protected:
  // A heartbeat of a consumer that has processed the answer to its former one.
  Assignment Heartbeat(int consumer, int64_t round, std::optional<int64_t> blocked = {}) {
    ConsumerPoll poll{.round = round, .blocked_round = blocked};
    poll.service = heard_[consumer].service;
    poll.after = heard_[consumer].version;
    heard_[consumer] = service_.Get<Assignment>(service_.Poll(opened_[consumer], poll));
    return heard_[consumer];
  }
  static bool Lists(const Assignment& assignment, TaskId task) {
    for (const Lane& lane : assignment.lanes) {
      if (lane.task == task) return true;
    }
    return false;
  }

  // Enough is granted to be in such rounds.
  Service service_{100, {.lane_window = 30}};
  IterationOpened opened_[3];
  Assignment heard_[3];
};

TEST_F(RoundsExampleTest, ANewTaskIsAddedInStepsOneToSeven) {
  service_.PollWorker(7);
  const IterationSpec spec{
      .name = "train", .dataset = service_.Register(), .mode = Mode::kRounds, .consumers = 2};
  opened_[1] = service_.Get<IterationOpened>(service_.Open(spec, "consumer 1", 1, 0));
  opened_[2] = service_.Get<IterationOpened>(service_.Open(spec, "consumer 2", 1, 1));

  // 1. Consumers read up to round 50 and heartbeat that they are on round 50.
  EXPECT_FALSE(Heartbeat(1, 50).block_round);
  EXPECT_FALSE(Heartbeat(2, 50).block_round);

  // 2. A new worker joins. Dispatcher chooses round 51 as the target round.
  service_.PollWorker(8);
  ASSERT_EQ(service_.Look().iterations[0].tasks.size(), 2u);
  const TaskRow pending = service_.Look().iterations[0].tasks[1];
  EXPECT_EQ(pending.starting_round, -1);

  // 3. Consumer 1 heartbeats that its current round is 50. Dispatcher tells it to block round 51.
  Assignment told = Heartbeat(1, 50);
  EXPECT_EQ(told.block_round, 51);
  EXPECT_FALSE(Lists(told, pending.task));

  // 4. Consumer 2 heartbeats that its current round is 51. Dispatcher realizes that it is too late
  //    to block round 51 and chooses round 53 as the new target round. Dispatcher tells consumer 2
  //    to block round 53.
  EXPECT_EQ(Heartbeat(2, 51).block_round, 53);

  // 5. Consumer 1 heartbeats that its current round is 50 and that it has blocked round 51.
  //    Dispatcher tells it to block round 53 instead. Dispatcher records that consumer 1 is ready
  //    to add a task in round 53.
  told = Heartbeat(1, 50, 51);
  EXPECT_EQ(told.block_round, 53);
  EXPECT_FALSE(Lists(told, pending.task));
  EXPECT_NE(service_.Look().iterations[0].agreeing.find("awaited: consumer 2"), std::string::npos)
      << service_.Look().iterations[0].agreeing;

  // 6. Consumer 2 heartbeats that its current round is 52 and it has blocked round 53. Dispatcher
  //    realizes that all consumers are blocked on round 53 or earlier and promotes the task from
  //    pending to regular. Dispatcher sends consumer 2 a task list containing the new task, and
  //    tells consumer 2 that it no longer needs to block.
  told = Heartbeat(2, 52, 53);
  EXPECT_TRUE(Lists(told, pending.task));
  EXPECT_FALSE(told.block_round);
  EXPECT_EQ(service_.Look().iterations[0].tasks[1].starting_round, 53);

  // 7. Consumer 1 heartbeats. Dispatcher sends consumer 1 the task list containing the new task,
  // and
  //    tells it that it no longer needs to block.
  told = Heartbeat(1, 50, 53);
  EXPECT_TRUE(Lists(told, pending.task));
  EXPECT_FALSE(told.block_round);
}

TEST_F(RoundsExampleTest, ASecondPendingTaskIsQueuedBehindTheFirst) {
  service_.PollWorker(7);
  const IterationSpec spec{
      .name = "train", .dataset = service_.Register(), .mode = Mode::kRounds, .consumers = 1};
  opened_[1] = service_.Get<IterationOpened>(service_.Open(spec, "consumer 1", 1, 0));
  Heartbeat(1, 4);
  service_.PollWorker(8);
  service_.PollWorker(9);
  EXPECT_EQ(Heartbeat(1, 4).block_round, 5);
  // The first begins in round 5; the second is to begin then, too.
  const Assignment told = Heartbeat(1, 4, 5);
  EXPECT_EQ(told.lanes.size(), 2u);
  EXPECT_EQ(told.block_round, 5);
  EXPECT_EQ(Heartbeat(1, 4, 5).lanes.size(), 3u);
  EXPECT_FALSE(heard_[1].block_round);
}

}  // namespace
}  // namespace lockstep::dispatch

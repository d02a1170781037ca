// The small parts alone: cursors, pools, how many workers are wanted, and one consumer.
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "lockstep/base/crc32c.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/dispatch/dispatch_harness.h"
#include "lockstep/data/dispatch/failure_kind.h"
#include "lockstep/data/dispatch/pool.h"
#include "lockstep/data/dispatch/share_search.h"
#include "lockstep/data/dispatch/task_table.h"
#include "lockstep/data/dispatch/workers_wanted.h"

namespace lockstep::dispatch {
namespace {

// A cursor that somebody altered, and gave the right check value again.
std::string Altered(const std::string& next, const std::string& rests) {
  const std::string text = absl::StrCat("lockstep-cursor-1.d0.exact.0.0.0.", next, ".", rests);
  return absl::StrCat(text, ".", absl::StrFormat("%08x", Crc32c(0, text)));
}

TEST(Cursors, ComeBackAsTheyWere) {
  const Cursor cursor{.definition = "d0",
                      .mode = Mode::kRounds,
                      .round = 5,
                      .place = 1,
                      .next = 9,
                      .rests = {{1, 3}, {2, 0}, {3, 0}, {7, 2}}};
  const auto again = DecodeCursor(EncodeCursor(cursor));
  ASSERT_TRUE(std::holds_alternative<Cursor>(again)) << std::get<ErrorPtr>(again)->message;
  EXPECT_TRUE(SamePlace(std::get<Cursor>(again), cursor));
  EXPECT_EQ(std::get<Cursor>(again).rests, cursor.rests);
}

TEST(Cursors, WhatWasAlteredIsRefused) {
  ASSERT_TRUE(std::holds_alternative<Cursor>(DecodeCursor(Altered("9", "1:3,2-4"))));
  const auto refused = [](const std::string& next, const std::string& rests, const char* why) {
    const auto decoded = DecodeCursor(Altered(next, rests));
    ASSERT_TRUE(std::holds_alternative<ErrorPtr>(decoded)) << next << " " << rests;
    EXPECT_EQ(std::get<ErrorPtr>(decoded)->reason, "cursor_invalid");
    EXPECT_NE(std::get<ErrorPtr>(decoded)->message.find(why), std::string::npos)
        << std::get<ErrorPtr>(decoded)->message;
  };
  refused("9", "4,2", "do not rise");
  refused("9", "2:1,2:3", "do not rise");
  refused("3", "1,5", "behind its end");
  refused("2305843009213693952", "", "no version");  // 2^61
  refused("9", "1:2305843009213693952", "no version");
  refused("100000", "0-65535,70000", "65536 rests");
  refused("9", "+1", "no");
  refused("09", "1", "not as any version");
}

TEST(Pools, EachShareHasItsOwnSegmentsAndAllHaveAll) {
  for (const bool by_file : {false, true}) {
    TaskTable tasks(IterationSpec{
        .sharding = by_file ? Sharding::kStaticFile : Sharding::kStaticData, .shares = 3});
    tasks.Begin(std::make_shared<ToyShape>(11, 1, 4));
    for (int32_t share = 0; share < 3; ++share) tasks.Add(TaskId(share + 1), {.share = share});
    tasks.Seek(1000);
    std::set<int64_t> all;
    for (int64_t index = 0; index < 3; ++index) {
      const TaskId task(index + 1);
      while (const std::optional<SegmentRest> head = tasks.PoolOf(task)->Head()) {
        EXPECT_EQ((by_file ? head->segment % 4 : head->segment) % 3, index);
        EXPECT_TRUE(all.insert(head->segment).second);
        EXPECT_TRUE(tasks.Take(task, *head));
        tasks.SeekOn();
      }
    }
    EXPECT_EQ(all.size(), 11u);
    EXPECT_TRUE(tasks.AllGiven());
  }
}

TEST(Pools, AllSharesAreFoundInOneWalkFromFileToFile) {
  // Each step finds the share of the next file, so that 1000 shares take no more than 1000 steps.
  TaskTable tasks(IterationSpec{.sharding = Sharding::kStaticFile, .shares = 1000});
  tasks.Begin(std::make_shared<ToyShape>(kInfinite, 1, 1000));
  for (int32_t share = 0; share < 1000; ++share) tasks.Add(TaskId(share + 1), {.share = share});
  tasks.Seek(999);
  EXPECT_TRUE(tasks.seeks());
  EXPECT_EQ(tasks.steps(), 999);
  EXPECT_EQ(tasks.PoolOf(TaskId(1000))->Head(), std::nullopt);
  EXPECT_FALSE(tasks.PoolOf(TaskId(1000))->empty()) << "it is sought";
  tasks.Seek(1);
  EXPECT_FALSE(tasks.seeks());
  EXPECT_EQ(tasks.steps(), 0) << "they count from when all were found";
  EXPECT_EQ(tasks.PoolOf(TaskId(1000))->Head(), (SegmentRest{999, 0}));
}

TEST(Pools, ARecordSaysWhatTheSearchOfAFormerLifeFound) {
  Pool pool(std::make_shared<ToyShape>(1'000'000, 1, 4), {.index = 1, .count = 4, .by_file = true});
  EXPECT_FALSE(pool.Take({2, 0})) << "it is of another share";
  EXPECT_TRUE(pool.Take({1, 0}));
  EXPECT_FALSE(pool.Take({1, 0}));
  EXPECT_TRUE(pool.Take({5, 0}));
  EXPECT_FALSE(pool.Take({1'000'001, 0})) << "there is no such segment";
  EXPECT_EQ(pool.next(), 6);
}

TEST(Pools, WhatComesBackIsGivenWhileTheRestIsSought) {
  TaskTable tasks(IterationSpec{.sharding = Sharding::kStaticFile, .shares = 50});
  tasks.Begin(std::make_shared<ToyShape>(kInfinite, 1, 50));
  tasks.Add(TaskId(1), {.share = 7});
  tasks.Seek(8);
  ASSERT_TRUE(tasks.Take(TaskId(1), {7, 0}));
  ASSERT_TRUE(tasks.Return(TaskId(1), {7, 0}));
  tasks.Seek(20);
  ASSERT_TRUE(tasks.seeks());
  ASSERT_TRUE(tasks.Take(TaskId(1), {7, 0}));
  EXPECT_EQ(tasks.PoolOf(TaskId(1))->Head(), std::nullopt);
  for (const int64_t next : {57, 107, 157}) {
    tasks.Seek(100);
    EXPECT_FALSE(tasks.seeks());
    EXPECT_EQ(tasks.PoolOf(TaskId(1))->Head(), (SegmentRest{next, 0}));
    EXPECT_TRUE(tasks.Take(TaskId(1), {next, 0}));
  }
}

TEST(Pools, SharesThatComeUpToEachOtherGoOnTogether) {
  ShareSearch search;
  const ToyShape shape(100, 1, 100);
  search.Add(TaskId(1), 10, 0);
  search.Add(TaskId(2), 11, 5);
  search.Add(TaskId(3), 3, 90);
  std::map<TaskId, int64_t> found;
  int steps = 0;
  for (; !search.empty(); ++steps) {
    for (const auto& [task, segment] : search.Step(shape, 100)) found[task] = segment;
  }
  EXPECT_EQ(found, (std::map<TaskId, int64_t>{{TaskId(1), 10}, {TaskId(2), 11}, {TaskId(3), 100}}));
  EXPECT_EQ(steps, 12 + 11) << "0 to 11, then 90 to the end";
}

TEST(Pools, WhatComesBackIsGivenFirst) {
  Pool pool(std::make_shared<ToyShape>(3, 1, 0), {});
  EXPECT_TRUE(pool.Take({0, 0}));
  EXPECT_TRUE(pool.Take({1, 0}));
  EXPECT_FALSE(pool.Take({1, 0}));
  pool.Return({1, 4});
  EXPECT_EQ(pool.Head(), (SegmentRest{1, 4}));
  EXPECT_FALSE(pool.Take({1, 3}));
  EXPECT_TRUE(pool.Take({1, 4}));
  EXPECT_TRUE(pool.Take({2, 0}));
  EXPECT_TRUE(pool.empty());
}

TEST(Pools, AShareOfAnEndlessDatasetIsFoundAtOnce) {
  Pool pool(std::make_shared<ToyShape>(kInfinite, 1, 0), {.index = 9'999, .count = 10'000});
  EXPECT_EQ(pool.Head(), (SegmentRest{9'999, 0}));
  pool.Begin(1'000'000'000'000, {});
  EXPECT_EQ(pool.Head(), (SegmentRest{1'000'000'009'999, 0}));
}

TEST(FailureKinds, AreToldByTheFirstWordOfTheReason) {
  const auto kind = [](const char* reason) {
    return KindOf(*MakeError(absl::StatusCode::kInternal, reason, ""));
  };
  EXPECT_EQ(kind("source_changed"), FailureKind::kSourceChanged);
  for (const char* reason : {"source_missing", "path_refused", "record_poisoned",
                             "definition_invalid", "element_too_large"}) {
    EXPECT_EQ(kind(reason), FailureKind::kDeterministic) << reason;
  }
  EXPECT_EQ(kind("function_failed"), FailureKind::kFunction);
  EXPECT_EQ(kind("unavailable"), FailureKind::kWorker);
  EXPECT_EQ(kind("resource_changed"), FailureKind::kWorker);
}

TEST(WorkersWantedAlone, IsWhatIsTakenOverWhatOneMakes) {
  WorkersWanted wanted;
  EXPECT_FALSE(wanted.Estimate());
  EXPECT_FALSE(wanted.ReportWorker(WorkerId(1), absl::ZeroDuration()));
  EXPECT_TRUE(wanted.ReportWorker(WorkerId(1), absl::Milliseconds(10)));
  EXPECT_FALSE(wanted.Estimate());
  EXPECT_TRUE(wanted.ReportConsumer(ConsumerId(1), absl::Milliseconds(2)));
  EXPECT_EQ(wanted.Estimate(), 5);
  EXPECT_TRUE(wanted.ForgetConsumer(ConsumerId(1)));
  EXPECT_FALSE(wanted.ForgetConsumer(ConsumerId(1)));
  EXPECT_FALSE(wanted.Estimate());
  EXPECT_EQ(BoundWorkersWanted(1'000, 10), 40);
  EXPECT_EQ(BoundWorkersWanted(10'000'000, 90'000), 90'500);
}

TEST(WorkersWantedAlone, IsANumberWhateverTimesAreReported) {
  WorkersWanted wanted;
  wanted.ReportWorker(WorkerId(1), absl::Nanoseconds(std::numeric_limits<int64_t>::max()));
  for (uint64_t id = 1; id <= 100; ++id) {
    wanted.ReportConsumer(ConsumerId(id), absl::Nanoseconds(1));
  }
  EXPECT_EQ(wanted.Estimate(), 1'000'000'000);
}

// A consumer and what its shell would keep: the polls that are not answered, the last one at the
// end.
struct OneConsumer {
  ConsumerMachine machine{{.spec = {.mode = Mode::kFirstCome},
                           .consumer = "a",
                           .life = ConsumerLife(1),
                           .acknowledge_by_itself = false}};
  const Time now = Time::FromNanoseconds(1);
  ConsumerEffects out;
  std::deque<std::pair<RequestId, ConsumerPoll>> polls;

  OneConsumer() {
    machine.Open(now, out);
    Answer(out.requests.at(0).request,
           IterationOpened{.iteration = IterationId(1), .consumer = ConsumerId(2)});
    KeepPolls();
  }
  void Answer(RequestId request, lockstep::dispatch::Answer what) {
    machine.Handle(now, DispatcherAnswered{.request = request, .answer = std::move(what)}, out);
  }
  void KeepPolls() {
    for (const SendToDispatcher& sent : out.requests) {
      if (const auto* poll = std::get_if<ConsumerPoll>(&sent.what)) {
        polls.emplace_back(sent.request, *poll);
      }
    }
    out.requests.clear();
  }
  // Answers the polls that wait.
  void Tell(const Assignment& assignment) {
    for (const auto& [request, poll] : std::exchange(polls, {})) Answer(request, assignment);
    KeepPolls();
  }
  void Next(AskId ask) {
    machine.Next(now, ask, out);
    KeepPolls();
  }
  bool SaidHasAll() const { return polls.back().second.has_all; }
};

TEST(ConsumerAlone, WhoWasToldOfTheEndGoesOnSayingThatItHasAll) {
  OneConsumer one;
  const WorkerId worker(3);
  Assignment given{
      .service = 1,
      .version = 1,
      .phase = Phase::kReading,
      .lanes = {{.lane = LaneId(2),
                 .grants = {{.seq = 0, .segment = 0, .worker = worker, .elements = 1}}}},
      .workers = {{.worker = worker, .address = "host:1"}}};
  one.Next(AskId(1));
  one.Tell(given);
  ASSERT_EQ(one.out.reads.size(), 1u);
  one.machine.Handle(one.now,
                     ReadAnswered{.read = one.out.reads[0].read,
                                  .elements = {{.bytes = 1}},
                                  .next = 1,
                                  .known = 1,
                                  .ended = true},
                     one.out);
  ASSERT_EQ(one.out.handed_out.size(), 1u);
  one.out.handed_out.clear();
  one.KeepPolls();
  one.Tell(given);
  EXPECT_FALSE(one.SaidHasAll());  // it works on its element

  one.Next(AskId(2));
  one.Tell(given);
  EXPECT_TRUE(one.SaidHasAll());
  given.version = 2;
  given.rest_is_own = true;
  one.Tell(given);
  ASSERT_EQ(one.out.handed_out.size(), 1u);
  EXPECT_TRUE(one.out.handed_out[0].end);
  one.Tell(given);
  EXPECT_TRUE(one.SaidHasAll());
}

}  // namespace
}  // namespace lockstep::dispatch

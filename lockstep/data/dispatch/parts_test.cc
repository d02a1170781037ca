// The small parts alone: cursors, pools, how many workers are wanted, and one consumer.
#include <deque>
#include <limits>
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
  const auto shape = std::make_shared<ToyShape>(11, 1, 4);
  for (const bool by_file : {false, true}) {
    std::set<int64_t> all;
    for (int64_t index = 0; index < 3; ++index) {
      Pool pool(shape, {.index = index, .count = 3, .by_file = by_file});
      while (const std::optional<SegmentRest> head = pool.Head()) {
        EXPECT_EQ((by_file ? head->segment % 4 : head->segment) % 3, index);
        EXPECT_TRUE(all.insert(head->segment).second);
        EXPECT_TRUE(pool.Take(*head));
      }
    }
    EXPECT_EQ(all.size(), 11u);
  }
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

#include "lockstep/wire/store/data_entry.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/store/records_messages.h"

namespace lockstep::wire::store {
namespace {

namespace record = dispatch::record;

using dispatch::ConsumerId;
using dispatch::ConsumerLife;
using dispatch::DatasetId;
using dispatch::IterationId;
using dispatch::LaneId;
using dispatch::MakeError;
using dispatch::Mode;
using dispatch::Sharding;
using dispatch::TaskId;
using dispatch::TimedRecord;
using dispatch::Visitation;
using testing::HasSubstr;

// One of each kind, every field with a value of its own.
std::vector<dispatch::Record> OneOfEach() {
  const IterationId it(1);
  const ConsumerId consumer(2);
  const LaneId lane(3);
  const TaskId task(4);
  const DatasetId dataset(5);
  const ConsumerLife life(6);
  return {
      record::CountersKept{7},
      record::DatasetRegistered{dataset, "name", "identity", "definition", "spec", true},
      record::DatasetResolved{dataset, "manifest"},
      record::DatasetRetired{dataset},
      record::DatasetForgotten{dataset},
      record::IterationOpened{it,
                              {.name = "n",
                               .repetition = 8,
                               .dataset = dataset,
                               .mode = Mode::kRounds,
                               .sharding = Sharding::kStaticFile,
                               .visitation = Visitation::kAtMostOnce,
                               .consumers = 9,
                               .shares = 10,
                               .worker_addresses = {"a", "b"},
                               .cursor = "c"}},
      record::IterationStarted{it},
      record::IterationEnded{it, nullptr},
      record::IterationEnded{it, MakeError(absl::StatusCode::kDataLoss, "record_poisoned", "why")},
      record::IterationCollected{it},
      record::ConsumerJoined{it, consumer, "name", life, 11, "host", 12},
      record::ConsumerJoined{it, consumer, "name", life, -1, "host", 12},
      record::ConsumerReplaced{it, consumer, life, "host", 13},
      record::ConsumerJoined{it, consumer, "name", life, 11, "host", 12, "machine", 14, "job"},
      record::ConsumerReplaced{it, consumer, life, "host", 13, "machine", 14, "name", "job"},
      record::ConsumerFinished{it, consumer, {60, 61, 62}},
      record::ConsumerGone{it, consumer, true},
      record::TaskAdded{it, task, "home", 14, 15},
      record::TaskAdded{it, task, "", -1, -1},
      record::TaskStarted{it, task, 16},
      record::SeatingAgreed{it, 17, {consumer, ConsumerId(18)}},
      record::Granted{it, lane, task, 19, 20, 21},
      record::Acknowledged{it, lane, 22, 23, true},
      record::LaneTrimmed{it, lane, 24, 25},
      record::SeatingsTrimmed{it, 26},
      record::LaneClosed{it, lane},
      record::Counted{it, lane, 27, 28},
      record::PoolKept{it, task, 29, {{30, 31}, {32, 33}}},
      record::LaneKept{it, lane, task, 34, 35, 36, 37, true},
      record::GrantKept{it, lane, task, 38, 39, 40, 41, 42, true},
      record::TotalsKept{it, 43, 44, 45},
      record::LeaverKept{it, consumer, "name", {46, 47}, {48, 49}},
      record::FinishersKept{it, {50, 51}, {63, 64, 65}},
  };
}

TEST(DataEntry, EveryRecordComesBackAsItWas) {
  const Moment now = {.now = Time::FromNanoseconds(1'000'000'000'000),
                      .wall = absl::FromUnixSeconds(1'700'000'000)};
  const std::vector<dispatch::Record> records = OneOfEach();
  std::string bytes;
  EncodeDataRecords(now.wall, records, bytes);
  const auto read = DecodeEntry(bytes, now);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->job.empty());
  ASSERT_EQ(read->data.size(), records.size());
  std::vector<dispatch::Record> again;
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(read->data[i].record.index(), records[i].index()) << i;
    EXPECT_EQ(read->data[i].at, now.now) << i;
    again.push_back(read->data[i].record);
  }
  std::string bytes_again;
  EncodeDataRecords(now.wall, again, bytes_again);
  EXPECT_EQ(bytes_again, bytes);
}

TEST(DataEntry, RecordsOfASnapshotKeepTheirAge) {
  const Moment written = {.now = Time::FromNanoseconds(50'000'000'000),
                          .wall = absl::FromUnixSeconds(1'700'000'000)};
  const std::vector<TimedRecord> records = {
      {written.now - absl::Seconds(7), record::CountersKept{1}}};
  std::string bytes;
  EncodeDataRecords(written, records, bytes);
  // Read three seconds later, by another monotonic clock.
  const Moment read_at = {.now = Time::FromNanoseconds(900'000'000'000),
                          .wall = written.wall + absl::Seconds(3)};
  const auto read = DecodeEntry(bytes, read_at);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->data.size(), 1U);
  EXPECT_EQ(read->data[0].at, read_at.now - absl::Seconds(10));
}

TEST(DataEntry, ARecordOfAKindThatIsNotKnownMakesItsEntryUnfit) {
  const Moment now = {.now = Time(), .wall = absl::FromUnixSeconds(1)};
  const auto read = DecodeEntry(native::Encode(Entry{.wall_us = 1, .data = {DataRecord{}}}), now);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->of_data);
  EXPECT_TRUE(read->data.empty());
  EXPECT_THAT(std::string(read->unfit.message()), HasSubstr("a newer version wrote it"));
}

TEST(DataEntry, AValueThatIsNotKnownMakesItsRecordUnfitAndSaysOfWhat) {
  const Moment now = {.now = Time(), .wall = absl::FromUnixSeconds(1)};
  const DataRecord newer{.iteration_opened = IterationOpened{.iteration = 7, .mode = 99}};
  const DataRecord known{.iteration_started = IterationStarted{.iteration = 8}};
  const auto read = DecodeEntry(native::Encode(Entry{.wall_us = 1, .data = {newer, known}}), now);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->unfit.ok());
  ASSERT_EQ(read->data.size(), 2U);
  EXPECT_THAT(std::string(read->data[0].unfit.message()), HasSubstr("iteration of mode 99"));
  const auto* opened = std::get_if<dispatch::record::IterationOpened>(&read->data[0].record);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->iteration, dispatch::IterationId(7));
  EXPECT_TRUE(read->data[1].unfit.ok());
}

}  // namespace
}  // namespace lockstep::wire::store

#include "lockstep/wire/store/entry.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/testing/print_effects.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/store/records_messages.h"

namespace lockstep::wire::store {
namespace {

namespace record = coord::record;
using ::lockstep::testing::PrintRecord;
using ::testing::HasSubstr;

constexpr Time At(int64_t seconds) { return Time::FromNanoseconds(seconds * 1'000'000'000); }
const absl::Time kWall = absl::FromUnixSeconds(1'000'000);

coord::ErrorPtr FullError() {
  return coord::MakeError({.code = absl::StatusCode::kAborted,
                           .reason = coord::Reason::kBarrierTimedOut,
                           .message = "not \xFF UTF-8",
                           .from_service = false,
                           .origin = MemberIndex(3),
                           .reported = true,
                           .barrier = coord::BarrierRef{"b", 4},
                           .right_service = ServiceIncarnation(5),
                           .missing = "task/1,task/2"});
}

// One of each kind, with each field set; and those that differ by what is not there.
std::shared_ptr<const coord::PreemptionState> Preempted() {
  auto state = std::make_shared<coord::PreemptionState>();
  state->version = 7;
  state->id = 2;
  state->phase = coord::PreemptionPhase::kAgreed;
  state->round = 1;
  state->sync_step = 41;
  state->withdrawn = true;
  state->outcome = coord::PreemptionOutcome::kNobodyAnswered;
  state->text = "why";
  state->notices.push_back({"gce", "e", {MemberIndex(1)}, At(9), "maintenance"});
  state->notices.push_back({"signal", "15", {}, Time::Infinite(), ""});
  state->death = At(9);
  state->since = At(-3);
  return state;
}

std::vector<coord::Record> Examples() {
  const SessionId session{0xFEDCBA9876543210, 7};
  const auto values = std::make_shared<const std::vector<coord::MemberValue>>(
      std::vector<coord::MemberValue>{{MemberIndex(0), "\xFF"}, {MemberIndex(2), ""}});
  return {
      record::AttemptBegan{2, ServiceIncarnation(~uint64_t{0})},
      record::AttemptRuns{},
      record::AttemptFailed{FullError()},
      record::ShutdownEnded{},
      record::ShutdownEnded{
          coord::MakeError(absl::StatusCode::kInternal, coord::Reason::kLimitExceeded, "")},
      record::MemberChanged{.member = MemberIndex(1),
                            .state = coord::MemberState::kError,
                            .incarnation = Incarnation(9),
                            .life = 3,
                            .error = FullError(),
                            .left = true,
                            .recoverable = true,
                            .role = "worker",
                            .peer = "10.0.0.1:5",
                            .host = "h\xC3",
                            .pid = 77,
                            .labels = {{"zone", "a"}, {"", ""}},
                            .session = session},
      record::MemberChanged{},
      record::ProcessChanged{MemberIndex(1), "host", 5, true, true},
      record::ProcessChanged{.member = MemberIndex(1), .left_out = true},
      record::ErrorKept{absl::StatusCode::kAborted, coord::Reason::kReportedError, "m", "o", true,
                        2},
      record::KeySet{.key = std::string("k\0\xFF", 3),
                     .value = std::make_shared<const std::string>(100000, 'v'),
                     .revision = 12,
                     .ttl = absl::Milliseconds(1500),
                     .owner = MemberIndex(0)},
      record::KeySet{.key = "k", .value = std::make_shared<const std::string>(), .revision = 1},
      record::KeyDeleted{"k", true, 13},
      record::OwnerGone{MemberIndex(5)},
      record::BarrierEnded{.id = "b",
                           .counter = 1,
                           .members = {MemberIndex(0), MemberIndex(2)},
                           .values = values,
                           .values_forgotten = true},
      record::BarrierEnded{.id = "b",
                           .verdict = FullError(),
                           .values = std::make_shared<const std::vector<coord::MemberValue>>()},
      record::IndexAgreed{"i", 1, {MemberIndex(1)}, nullptr, 400},
      record::IndexAgreed{"i", 2, {}, FullError(), 0},
      record::SessionChanged{session, true},
      record::AnswerKept{.session = session,
                         .number = 8,
                         .revision = 3,
                         .deleted = 4,
                         .result = -5,
                         .swapped = true,
                         .key = "k",
                         .through = 6},
      record::AnswerKept{.session = session, .number = 9},
      record::PreemptionChanged{Preempted(), Time()},
      record::PreemptionChanged{std::make_shared<const coord::PreemptionState>(), Time()},
      record::SyncMemberChanged{MemberIndex(3), coord::SyncState::kSaved, 41, "/ckpt/41"},
      record::SyncMemberChanged{MemberIndex(4), coord::SyncState::kAsked, std::nullopt, ""},
  };
}

std::string Encoded(const std::vector<coord::Record>& records) {
  std::string bytes;
  EncodeRecords("job", kWall, records, bytes);
  return bytes;
}

TEST(StoreEntry, EveryRecordIsReadBackAsItWas) {
  const std::vector<coord::Record> records = Examples();
  const auto read = DecodeEntry(Encoded(records), {At(50), kWall + absl::Seconds(20)});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job, "job");
  EXPECT_FALSE(read->created || read->deleted);
  ASSERT_EQ(read->records.size(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(PrintRecord(read->records[i].record), PrintRecord(records[i]));
    EXPECT_EQ(read->records[i].record.index(), records[i].index());
    EXPECT_EQ(read->records[i].at, At(30));
  }
}

TEST(StoreEntry, KindsOfRecordsAreAllThere) {
  std::set<size_t> kinds;
  for (const coord::Record& record : Examples()) kinds.insert(record.index());
  EXPECT_EQ(kinds.size(), std::variant_size_v<coord::Record>);
}

TEST(StoreEntry, IsWhatTheMessageWouldBe) {
  const std::string bytes = Encoded(Examples());
  const auto message = native::Decode<Entry>(bytes);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(native::Encode(*message), bytes);
}

TEST(StoreEntry, ASnapshotKeepsTheTimes) {
  const std::vector<coord::TimedRecord> records = {{At(10), record::AttemptRuns{}},
                                                   {At(40), record::AttemptRuns{}},
                                                   {At(41), record::AttemptRuns{}}};
  std::string bytes;
  EncodeRecords("job", Moment{At(40), kWall}, records, bytes);
  // After the host was started anew: its clock begins at nothing.
  const auto read = DecodeEntry(bytes, {At(5), kWall + absl::Seconds(60)});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->records[0].at, At(5 - 60 - 30));
  EXPECT_EQ(read->records[1].at, At(5 - 60));
  EXPECT_EQ(read->records[2].at, At(5 - 60)) << "nothing is younger than its entry";
  const auto native_message = native::Decode<Entry>(bytes);
  ASSERT_TRUE(native_message.ok());
  EXPECT_EQ(native::Encode(*native_message), bytes);
}

TEST(StoreEntry, AWallClockThatWasSetBackMakesNothingLaterThanNow) {
  const auto read = DecodeEntry(Encoded({record::AttemptRuns{}}), {At(50), kWall - absl::Hours(1)});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->records[0].at, At(50));
}

TEST(StoreEntry, AWallClockThatWasSetAheadMakesAllAsOldAsItSays) {
  // It stood at nothing before somebody set it.
  const std::string bytes = Encoded({record::AttemptRuns{}});
  for (const absl::Duration ahead : {absl::Hours(1), absl::Hours(24 * 365 * 56)}) {
    const auto read = DecodeEntry(bytes, {At(50), kWall + ahead});
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->records[0].at, At(50) - ahead);
  }
  const auto read = DecodeEntry(bytes, {At(50), absl::InfiniteFuture()});
  ASSERT_TRUE(read.ok());
  EXPECT_LT(read->records[0].at, Time()) << "as long ago as can be said";
}

TEST(StoreEntry, JobsAreReadBack) {
  const Job job{.name = "digits",
                .size = 3,
                .roles = {{"worker", 2}, {"ps", 1}},
                .recoverable = true,
                .temporary = true,
                .host = "::1",
                .port = 65535,
                .incarnation_seed = 42};
  std::string bytes;
  EncodeJob(job, kWall, bytes);
  const auto read = DecodeEntry(bytes, {At(1), kWall});
  ASSERT_TRUE(read.ok() && read->created);
  EXPECT_EQ(read->job, "digits");
  EXPECT_EQ(read->created->name, "digits");
  EXPECT_EQ(read->created->size, 3);
  ASSERT_EQ(read->created->roles.size(), 2u);
  EXPECT_EQ(read->created->roles[1].name, "ps");
  EXPECT_TRUE(read->created->recoverable && read->created->temporary);
  EXPECT_EQ(read->created->host, "::1");
  EXPECT_EQ(read->created->port, 65535);
  EXPECT_EQ(read->created->incarnation_seed, 42u);
  bytes.clear();
  EncodeJobDeleted("digits", kWall, bytes);
  const auto deleted = DecodeEntry(bytes, {At(1), kWall});
  ASSERT_TRUE(deleted.ok());
  EXPECT_TRUE(deleted->deleted);
  EXPECT_EQ(deleted->job, "digits");
}

TEST(StoreEntry, Finding02_WhatANewerProgramWroteOfAJobIsUnfit) {
  const auto why = [](Entry entry) {
    entry.job = "digits";
    const auto read = DecodeEntry(native::Encode(entry), {});
    EXPECT_TRUE(read.ok()) << "which job it is of is known: " << read.status();
    EXPECT_EQ(read->job, "digits");
    EXPECT_TRUE(read->records.empty());
    return std::string(read->unfit.message());
  };
  EXPECT_THAT(why({.records = {Record{}}}), HasSubstr("a newer version"));
  EXPECT_THAT(why({.records = {Record{.attempt_runs = AttemptRuns{}, .key_set = KeySet{}}}}),
              HasSubstr("2 kinds"));
  EXPECT_THAT(why({.records = {Record{.attempt_failed =
                                          AttemptFailed{.root_cause = Error{.reason = "new"}}}}}),
              HasSubstr("reason 'new'"));
  EXPECT_THAT(why({.records = {Record{.session_changed = SessionChanged{.session = {"short"}}}}}),
              HasSubstr("5 bytes"));
  EXPECT_THAT(why({.job_created = JobCreated{.size = 0}}), HasSubstr("0 members"));
  EXPECT_THAT(why({.records = {Record{.member_changed =
                                          MemberChanged{.state = static_cast<MemberState>(9)}}}}),
              HasSubstr("state"));
}

// As ten thousand open barriers that fail together, whose lists and errors are long.
TEST(StoreEntry, Finding03_RecordsThatAreTooMuchForOneEntryMakeSeveral) {
  const auto error = coord::MakeError(absl::StatusCode::kInternal,
                                      coord::Reason::kBarrierMemberFailed, std::string(3000, 'e'));
  std::vector<coord::Record> records;
  for (int64_t i = 0; i < 10'000; ++i) {
    records.push_back(
        record::BarrierEnded{.id = "b",
                             .counter = i,
                             .members = std::vector<MemberIndex>(1000, MemberIndex(65535)),
                             .verdict = error});
  }
  std::vector<std::string> entries;
  for (absl::Span<const coord::Record> rest = records; !rest.empty();) {
    const size_t put = EncodeRecords("job", kWall, rest, entries.emplace_back());
    ASSERT_GT(put, 0u);
    rest.remove_prefix(put);
  }
  EXPECT_GT(entries.size(), 20u);
  int64_t next = 0;
  for (const std::string& entry : entries) {
    EXPECT_LT(entry.size(), kEntryBytesSoftMax + 10'000) << "one record over it at most";
    const auto read = DecodeEntry(entry, {At(50), kWall});
    ASSERT_TRUE(read.ok()) << read.status();
    for (const coord::TimedRecord& timed : read->records) {
      EXPECT_EQ(std::get<record::BarrierEnded>(timed.record).counter, next++);
    }
  }
  EXPECT_EQ(next, 10'000);
}

TEST(StoreEntry, EventsAreReadBackWithTheirTimes) {
  const native::JobEvent event = {.kind = native::EventKind::kMemberLost,
                                  .severity = native::EventSeverity::kError,
                                  .attempt = 3,
                                  .member = "task/1",
                                  .text = "task/1 was lost",
                                  .at_unix_us = 1'700'000'000'000'001};
  std::string bytes;
  EXPECT_EQ(EncodeRecords("job", kWall, std::vector<coord::Record>{record::AttemptRuns{}}, bytes),
            1u);
  AppendEvents({event}, bytes);
  const auto read = DecodeEntry(bytes, {At(50), kWall});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job, "job");
  EXPECT_EQ(read->records.size(), 1u);
  ASSERT_EQ(read->events.size(), 1u);
  EXPECT_EQ(read->events[0], event);
}

TEST(StoreEntry, AValueIsNotCopiedToBeEncoded) {
  const auto value = std::make_shared<const std::string>(1 << 20, 'v');
  const long before = value.use_count();
  std::string bytes;
  EncodeRecords("job", kWall,
                std::vector<coord::Record>{record::KeySet{.key = "k", .value = value}}, bytes);
  EXPECT_EQ(value.use_count(), before);
  EXPECT_LT(bytes.size(), value->size() + 100);
}

}  // namespace
}  // namespace lockstep::wire::store

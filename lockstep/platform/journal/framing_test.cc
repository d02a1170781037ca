#include "lockstep/platform/journal/framing.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/journal/memory_journal.h"

namespace lockstep::journal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Entry(const std::string& text) {
  std::string entry = NewEntry() + text;
  EXPECT_TRUE(SealEntry(entry).ok());
  return entry;
}

absl::Status Read(std::string_view row, std::vector<std::string>& entries) {
  return ReadEntries(row, [&](std::string_view entry) {
    entries.emplace_back(entry);
    return absl::OkStatus();
  });
}

TEST(Framing, GivesBackTheEntriesOfARow) {
  std::vector<std::string> entries;
  ASSERT_TRUE(Read(Entry("one") + Entry("") + Entry(std::string(70000, 'x')), entries).ok());
  EXPECT_THAT(entries, ElementsAre("one", "", std::string(70000, 'x')));
}

TEST(Framing, ARowThatIsCutSaysWhere) {
  const std::string row = Entry("one") + Entry("two");
  for (size_t size = 1; size < row.size(); ++size) {
    if (size == Entry("one").size()) continue;
    std::vector<std::string> entries;
    const absl::Status status = Read(std::string_view(row).substr(0, size), entries);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(std::string(status.message()), HasSubstr(size < 7 ? "byte 0 " : "byte 7 "));
  }
}

TEST(Framing, WhatTheReaderRefusesEndsTheRow) {
  int read = 0;
  const absl::Status status = ReadEntries(Entry("one") + Entry("two"), [&](std::string_view) {
    ++read;
    return absl::InvalidArgumentError("not this one");
  });
  EXPECT_EQ(status.message(), "not this one");
  EXPECT_EQ(read, 1);
}

TEST(Framing, TheChecksumTellsOrderPlaceAndBytes) {
  const uint32_t checksum = ChainChecksum(1, 2, "row");
  EXPECT_NE(checksum, ChainChecksum(2, 2, "row"));
  EXPECT_NE(checksum, ChainChecksum(1, 3, "row"));
  EXPECT_NE(checksum, ChainChecksum(1, 2, "Row"));
  EXPECT_NE(ChainChecksum(1, 2, 3, "piece"), ChainChecksum(1, 3, 2, "piece"));
}

TEST(Framing, TheEndOfASnapshotIsReadBack) {
  const std::string bytes =
      EncodeSnapshotEnd({.pieces = 3, .entries = 1u << 31, .row_checksum = 0xFFEEDDCC});
  const absl::StatusOr<SnapshotEnd> end = DecodeSnapshotEnd(bytes);
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->pieces, 3u);
  EXPECT_EQ(end->entries, 1u << 31);
  EXPECT_EQ(end->row_checksum, 0xFFEEDDCC);
  EXPECT_FALSE(DecodeSnapshotEnd(bytes.substr(1)).ok());
}

// What a memory disk holds, as the next owner reads it.
std::vector<std::string> Contents(const std::shared_ptr<MemoryDisk>& disk) {
  std::vector<std::string> entries;
  EXPECT_TRUE(MemoryJournal(disk)
                  .Replay([&](std::string_view entry) {
                    entries.emplace_back(entry);
                    return absl::OkStatus();
                  })
                  .ok());
  return entries;
}

TEST(MemoryJournal, ForgetsWhatWasNotSynced) {
  auto disk = std::make_shared<MemoryDisk>();
  uint64_t durable = 0;
  {
    MemoryJournal journal(disk, MemoryJournal::Syncs::kWhenTold);
    ASSERT_TRUE(journal.Start([&](uint64_t through) { durable = through; }, nullptr).ok());
    EXPECT_EQ(journal.Append(NewEntry() + "one"), 1u);
    journal.Sync();
    EXPECT_EQ(journal.Append(NewEntry() + "two"), 2u);
    EXPECT_GT(journal.queued_bytes(), 0u);
  }
  EXPECT_EQ(durable, 1u);
  EXPECT_THAT(Contents(disk), ElementsAre("one"));
}

TEST(MemoryJournal, ASnapshotTakesThePlaceOfWhatWasBefore) {
  auto disk = std::make_shared<MemoryDisk>();
  MemoryJournal journal(disk);
  journal.WantSnapshotAt(2);
  ASSERT_TRUE(journal.Start([](uint64_t) {}, nullptr).ok());
  journal.Append(NewEntry() + "one");
  EXPECT_FALSE(journal.WantsSnapshot());
  journal.Append(NewEntry() + "two");
  EXPECT_TRUE(journal.WantsSnapshot());
  bool given = false;
  journal.BeginSnapshot([&]() -> std::optional<std::string> {
    if (std::exchange(given, true)) return std::nullopt;
    return NewEntry() + "both";
  });
  journal.Append(NewEntry() + "three");
  EXPECT_THAT(Contents(disk), ElementsAre("both", "three"));
}

TEST(MemoryJournal, SaysOnceThatItFailed) {
  auto disk = std::make_shared<MemoryDisk>();
  MemoryJournal journal(disk);
  int failures = 0;
  ASSERT_TRUE(
      journal.Start([](uint64_t) { FAIL(); }, [&](const absl::Status&) { ++failures; }).ok());
  journal.FailWith(absl::InternalError("broken"));
  journal.Append(NewEntry() + "one");
  journal.Append(NewEntry() + "two");
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(journal.Close().message(), "broken");
  EXPECT_THAT(Contents(disk), IsEmpty());
}

}  // namespace
}  // namespace lockstep::journal

#include "lockstep/platform/journal/sqlite_journal.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/journal/framing.h"
#include "lockstep/platform/journal/testing.h"

namespace lockstep::journal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> Read(const SqliteOptions& options, Replayed* replayed = nullptr) {
  const auto entries = ReadJournal(options, replayed);
  EXPECT_TRUE(entries.ok()) << entries.status();
  return entries.ok() ? *entries : std::vector<std::string>();
}

std::string WhyNot(const SqliteOptions& options) {
  const auto entries = ReadJournal(options);
  return entries.ok() ? "read" : std::string(entries.status().message());
}

uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    bytes += entry.file_size();
  }
  return bytes;
}

TEST(SqliteJournal, GivesBackWhatWasAppended) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path("state")};
  {
    OpenJournal journal(options);
    EXPECT_EQ(journal.Append("one"), 1u);
    EXPECT_EQ(journal.Append(""), 2u);
    EXPECT_TRUE(journal.AppendAndWait(std::string(3 << 20, 'x')));
    EXPECT_EQ(journal.durable(), 3u);
  }
  EXPECT_THAT(Read(options), ElementsAre("one", "", std::string(3 << 20, 'x')));
  {
    OpenJournal journal(options);
    EXPECT_TRUE(journal.AppendAndWait("four"));  // counted anew
    EXPECT_EQ(journal.durable(), 1u);
  }
  EXPECT_THAT(Read(options), SizeIs(4));
}

TEST(SqliteJournal, Finding03_WhatIsKeptTogetherIsOneRowAndCountsAsOne) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path("state")};
  {
    OpenJournal journal(options);
    std::vector<std::string> entries;
    // Far more than a row of entries that came one by one.
    for (int i = 0; i < 4; ++i) {
      entries.push_back(NewEntry() + std::string(1 << 20, static_cast<char>('a' + i)));
    }
    EXPECT_EQ(journal->AppendTogether(std::move(entries)), 1u);
    EXPECT_TRUE(journal.WaitFor(1));
    EXPECT_TRUE(journal.AppendAndWait("next"));
    EXPECT_EQ(journal.durable(), 2u);
  }
  EXPECT_THAT(Read(options), SizeIs(5));
  auto database = Database::Open(directory.path("state/journal.db"), "");
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(*(*database)->Ask("SELECT count(*) FROM rows"), "2");
}

TEST(SqliteJournal, Finding03_AnEntryThatIsTooLongFailsTheJournalAndNotTheProcess) {
  std::string entry(kEntryBytesMax + 1, '\0');
  EXPECT_EQ(SealEntry(entry).code(), absl::StatusCode::kResourceExhausted);
  const TemporaryDirectory directory;
  OpenJournal journal({.directory = directory.path()});
  journal->Append(std::move(entry));
  EXPECT_FALSE(journal.AppendAndWait("behind it"));
  ASSERT_THAT(journal.failures(), SizeIs(1));
  EXPECT_THAT(std::string(journal.failures().front().message()), HasSubstr("entry_bytes_max"));
}

TEST(SqliteJournal, Finding02_TheEntriesAreReadOnceMore) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path()};
  {
    OpenJournal journal(options);
    journal.AppendAndWait("old");
    journal.Snapshot({"snapshot 1", "snapshot 2"});
    journal.AppendAndWait("behind");
  }
  auto journal = SqliteJournal::Open(options);
  ASSERT_TRUE(journal.ok());
  std::vector<std::string> first;
  std::vector<std::string> again;
  const auto into = [](std::vector<std::string>& entries) {
    return [&entries](std::string_view entry) {
      entries.emplace_back(entry);
      return absl::OkStatus();
    };
  };
  ASSERT_TRUE((*journal)->Replay(into(first)).ok());
  ASSERT_TRUE((*journal)->ReadAgain(into(again)).ok());
  EXPECT_EQ(first, again);
  EXPECT_THAT(again, testing::Contains("behind"));
}

TEST(SqliteJournal, Finding19_TheFilesAreTheirOwnersAlone) {
  const mode_t before = umask(0);
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path("state")};
  const auto expect_closed = [&](const char* when) {
    for (const auto& file : std::filesystem::directory_iterator(directory.path("state"))) {
      struct stat about;
      ASSERT_EQ(stat(file.path().c_str(), &about), 0);
      EXPECT_EQ(about.st_mode & 0777, 0600u) << file.path() << " " << when;
    }
  };
  {
    OpenJournal journal(options);
    journal.AppendAndWait("one");
    expect_closed("when it is made");
    ASSERT_EQ(chmod(directory.path("state/journal.db").c_str(), 0644), 0);
    ASSERT_EQ(chmod(directory.path("state/journal.db-wal").c_str(), 0644), 0);
  }
  OpenJournal(options).AppendAndWait("two");
  expect_closed("when an older version made it");
  umask(before);
}

TEST(SqliteJournal, ClosingWritesWhatIsQueued) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path()};
  {
    OpenJournal journal(options);
    for (int i = 0; i < 5000; ++i) journal.Append(absl::StrCat("entry ", i));
    EXPECT_TRUE(journal->Close().ok());
    EXPECT_EQ(journal.durable(), 5000u);
  }
  EXPECT_THAT(Read(options), SizeIs(5000));
}

TEST(SqliteJournal, WhatWaitsIsCommittedTogether) {
  const TemporaryDirectory directory;
  FaultyDisk disk;
  const SqliteOptions options = {
      .directory = directory.path(), .mark_delay = absl::Hours(1), .vfs = kFaultyDisk};
  OpenJournal journal(options);
  disk.HoldSyncs();
  const int before = disk.syncs();
  journal.Append("first");
  for (int i = 0; i < 1000; ++i) journal.Append("more");
  EXPECT_EQ(journal.durable(), 0u);
  EXPECT_GT(journal->queued_bytes(), 0u);
  disk.ReleaseSyncs();
  EXPECT_TRUE(journal.WaitFor(1001));
  EXPECT_LE(disk.syncs() - before, 3);
}

TEST(SqliteJournal, ASnapshotTakesThePlaceOfTheRowsBeforeIt) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path(), .row_bytes_max = 100};
  std::vector<std::string> state;
  for (int i = 0; i < 50; ++i) state.push_back(absl::StrCat("state ", i));
  {
    OpenJournal journal(options);
    journal.Append("before");
    journal.Snapshot(state);
    EXPECT_TRUE(journal.AppendAndWait("after"));
    EXPECT_TRUE(journal->Close().ok());
  }
  // Whether it came to its end before the journal was closed or not, the state is there.
  OpenJournal(options).AppendAndWait("later");
  {
    OpenJournal journal(options);
    journal.Snapshot(state);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(journal.AppendAndWait(absl::StrCat("tail ", i)));
  }
  Replayed replayed;
  const std::vector<std::string> read = Read(options, &replayed);
  EXPECT_EQ(replayed.snapshot_entries, 50u);
  EXPECT_EQ(replayed.entries, 50u);
  ASSERT_THAT(read, SizeIs(100));
  EXPECT_EQ(read[0], "state 0");
  EXPECT_EQ(read[50], "tail 0");
}

TEST(SqliteJournal, ASnapshotOfNothingNewIsNone) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path()};
  {
    OpenJournal journal(options);
    journal.Snapshot({"nobody asked for this"});
    EXPECT_TRUE(journal.AppendAndWait("one"));
  }
  EXPECT_THAT(Read(options), ElementsAre("one"));
}

TEST(SqliteJournal, TheDiskIsBounded) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {
      .directory = directory.path(), .snapshot_bytes_min = 256 << 10, .log_pages = 512};
  int snapshots = 0;
  {
    OpenJournal journal(options);
    for (int i = 0; i < 12'000; ++i) {
      journal.Append(std::string(4096, static_cast<char>('a' + i % 26)));
      // What waits in the queue of a slow disk is not on it.
      if (i % 16 == 0) {
        EXPECT_TRUE(journal.AppendAndWait("so far"));
      }
      if (!journal->WantsSnapshot()) continue;
      ++snapshots;
      journal.Snapshot({std::string(100 << 10, 's')});
      EXPECT_TRUE(journal.AppendAndWait("and on"));
      // Most of it is the write-ahead log, of at most 8 MiB.
      EXPECT_LT(BytesIn(directory.path()), 16u << 20);
    }
  }
  EXPECT_GT(snapshots, 5);
  EXPECT_LT(BytesIn(directory.path()), 4u << 20) << "of 49 MB that were written";
  EXPECT_EQ(Read(options).front(), std::string(100 << 10, 's'));
}

TEST(SqliteJournal, TheMarkFollowsWithinItsDelay) {
  const TemporaryDirectory directory;
  OpenJournal journal({.directory = directory.path()});
  EXPECT_TRUE(journal.AppendAndWait("one"));
  const auto durable = std::chrono::steady_clock::now();
  journal.WaitForMark(1);
  EXPECT_LT(std::chrono::steady_clock::now() - durable, std::chrono::seconds(5));
}

TEST(SqliteJournal, TwoOwnersAreOneTooMany) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path()};
  OpenJournal journal(options);
  EXPECT_THAT(WhyNot(options), HasSubstr(absl::StrCat("process ", getpid())));
}

TEST(SqliteJournal, ANewerFormatIsRefusedWithBothVersions) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path()};
  OpenJournal(options).AppendAndWait("one");
  {
    auto database = Database::Open(directory.path("journal.db"), "");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->Execute("PRAGMA user_version=7").ok());
    ASSERT_TRUE((*database)->Checkpoint(true).ok());
  }
  EXPECT_THAT(WhyNot(options), AllOf(HasSubstr("version 7"), HasSubstr("version 5")));
}

TEST(SqliteJournal, AnOlderFormatIsReadAndBecomesThisOne) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path()};
  OpenJournal(options).AppendAndWait("one");
  {
    auto database = Database::Open(directory.path("journal.db"), "");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->Execute("PRAGMA user_version=1").ok());
    ASSERT_TRUE((*database)->Checkpoint(true).ok());
  }
  OpenJournal(options).AppendAndWait("two");
  auto database = Database::Open(directory.path("journal.db"), "");
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(*(*database)->Ask("PRAGMA user_version"), "5");
}

TEST(SqliteJournal, AnotherProgramsDatabaseIsLeftAlone) {
  const TemporaryDirectory directory;
  {
    auto database = Database::Open(directory.path("journal.db"), "");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->Execute("CREATE TABLE rows(a); PRAGMA user_version=1").ok());
  }
  EXPECT_THAT(WhyNot({.directory = directory.path()}), HasSubstr("not a Lockstep journal"));
}

TEST(SqliteJournal, WhatTheReaderRefusesIsNamedWithItsPlace) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path()};
  {
    OpenJournal journal(options);
    journal.AppendAndWait("one");
    journal.AppendAndWait("two");
  }
  auto journal = SqliteJournal::Open(options);
  ASSERT_TRUE(journal.ok());
  const auto replayed = (*journal)->Replay([](std::string_view entry) {
    return entry == "two" ? absl::InvalidArgumentError("no such record") : absl::OkStatus();
  });
  EXPECT_THAT(std::string(replayed.status().message()),
              AllOf(HasSubstr("journal.db: row 2: no such record")));
}

TEST(SqliteJournal, TheLogIsLaidOutAheadAndKeepsItsLength) {
  const TemporaryDirectory directory;
  const std::string log = directory.path("journal.db-wal");
  const SqliteOptions options = {.directory = directory.path(), .log_pages = 64};
  const size_t laid_out = 32 + 80 * (4096 + 24);
  OpenJournal journal(options);
  while (std::filesystem::file_size(log) < laid_out) std::this_thread::yield();
  // More than fits: it is carried over and begun anew.
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(journal.AppendAndWait(absl::StrCat("entry ", i)));
  EXPECT_LT(std::filesystem::file_size(log), 4 * laid_out);
  // As a kill would leave it: with zeros, or with what is older, behind its end.
  const TemporaryDirectory copy;
  journal.WaitForMark(500);
  for (const char* file : {"journal.db", "journal.db-wal", "mark"}) {
    WriteFile(copy.path(file), ReadFile(directory.path(file)));
  }
  EXPECT_THAT(Read({.directory = copy.path()}), SizeIs(500));
  // Closed, the database has it all.
  EXPECT_TRUE(journal->Close().ok());
  EXPECT_EQ(std::filesystem::file_size(log), 0u);
}

TEST(SqliteJournal, CommitsGoOnWhileTheLogIsCarriedOver) {
  const TemporaryDirectory directory;
  FaultyDisk disk;
  const SqliteOptions options = {
      .directory = directory.path(), .log_pages = 16, .vfs = kFaultyDisk};
  {
    OpenJournal journal(options);
    disk.HoldDatabaseSyncs();
    // The log becomes long enough at about half of them, and may become four times as long.
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(journal.AppendAndWait(absl::StrCat("entry ", i)));
    disk.ReleaseSyncs();
    for (int i = 30; i < 200; ++i) ASSERT_TRUE(journal.AppendAndWait(absl::StrCat("entry ", i)));
  }
  EXPECT_THAT(Read(options), SizeIs(200));
}

TEST(SqliteJournal, WhatASnapshotLeavesIsDeletedBySmallSteps) {
  const TemporaryDirectory directory;
  const auto apply_to = [](std::vector<std::string>& entries) {
    return [&entries](std::string_view entry) {
      entries.emplace_back(entry);
      return absl::OkStatus();
    };
  };
  const auto sealed = [](const std::string& text) {
    std::string entry = NewEntry() + text;
    EXPECT_TRUE(SealEntry(entry).ok());
    return entry;
  };
  Mark mark;
  for (int round = 0; round < 3; ++round) {
    auto store = SqliteStore::Open(directory.path(), {});
    ASSERT_TRUE(store.ok());
    std::vector<std::string> read;
    const auto replayed =
        (*store)->Replay(round == 0 ? std::nullopt : std::optional(mark), apply_to(read));
    ASSERT_TRUE(replayed.ok()) << replayed.status();
    if (round > 0) {
      EXPECT_THAT(read, ElementsAre(absl::StrCat("state ", round - 1), "behind"));
    }
    // Not all that the round before has left; what it had deleted does not come back.
    if (round == 2) {
      ASSERT_TRUE((*store)->Begin().ok());
      ASSERT_TRUE((*store)->DeleteLeftovers(1).ok());
      ASSERT_TRUE((*store)->Commit().ok());
      EXPECT_TRUE((*store)->has_leftovers());
    }
    ASSERT_TRUE((*store)->Begin().ok());
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE((*store)->AppendRow(sealed("row")).ok());
    (*store)->BeginSnapshot();
    ASSERT_TRUE((*store)->AppendPiece(sealed(absl::StrCat("state ", round)), 1).ok());
    ASSERT_TRUE((*store)->EndSnapshot().ok());
    ASSERT_TRUE((*store)->AppendRow(sealed("behind")).ok());
    ASSERT_TRUE((*store)->Commit().ok());
    mark = (*store)->last();
  }
  WriteFile(directory.path("mark"), MarkText(mark));
  // The journal deletes it when it has nothing else to do.
  OpenJournal({.directory = directory.path()}).AppendAndWait("last");
  const auto rows = [&] {
    OpenJournal({.directory = directory.path()});
    auto database = Database::Open(directory.path("journal.db"), "");
    EXPECT_TRUE(database.ok());
    return *(*database)->Ask("SELECT count(*) FROM rows") + " and " +
           *(*database)->Ask("SELECT count(*) FROM snapshots");
  };
  while (rows() != "2 and 2") std::this_thread::yield();
  EXPECT_THAT(Read({.directory = directory.path()}), ElementsAre("state 2", "behind", "last"));
}

// --- Disks that break ---

class BrokenDisk : public testing::Test {
 protected:
  // Appends "good", breaks the disk, appends "lost"; what is left must be "good" alone, or with
  // what nobody was told of.
  void Break(const std::function<void()>& how, const std::string& why) {
    OpenJournal journal(options_);
    ASSERT_TRUE(journal.AppendAndWait("good"));
    how();
    EXPECT_FALSE(journal.AppendAndWait("lost"));
    journal.Append("too late");
    EXPECT_FALSE(journal->WantsSnapshot());
    EXPECT_EQ(journal.durable(), 1u);
    EXPECT_THAT(std::string(journal->Close().message()),
                AllOf(HasSubstr("the server answers nothing more"), HasSubstr("journal.db"),
                      HasSubstr(why)));
    EXPECT_THAT(journal.failures(), SizeIs(1));
  }

  TemporaryDirectory directory_;
  FaultyDisk disk_;
  const SqliteOptions options_ = {
      .directory = directory_.path(), .mark_delay = absl::Hours(1), .vfs = kFaultyDisk};
};

TEST_F(BrokenDisk, ASyncThatFailsEndsIt) {
  Break([&] { disk_.FailSyncs(SQLITE_IOERR_FSYNC); }, "disk I/O error");
  disk_.FailSyncs(0);
  EXPECT_EQ(Read(options_).front(), "good");
}

TEST_F(BrokenDisk, ACarryingOverThatFailsEndsIt) {
  SqliteOptions options = options_;
  options.log_pages = 8;
  {
    OpenJournal journal(options);
    ASSERT_TRUE(journal.AppendAndWait("good"));
    disk_.FailDatabaseSyncs(SQLITE_IOERR_FSYNC);
    // Beside commits, so that some of them are still good.
    while (journal.AppendAndWait("on")) continue;
    EXPECT_THAT(std::string(journal->Close().message()),
                AllOf(HasSubstr("journal.db"), HasSubstr("disk I/O error")));
    EXPECT_THAT(journal.failures(), SizeIs(1));
  }
  disk_.FailDatabaseSyncs(0);
  EXPECT_EQ(Read(options_).front(), "good");
}

TEST_F(BrokenDisk, AWriteThatFailsEndsIt) {
  Break([&] { disk_.FailWrites(SQLITE_IOERR_WRITE); }, "disk I/O error");
  disk_.FailWrites(0);
  EXPECT_THAT(Read(options_), ElementsAre("good"));
}

TEST_F(BrokenDisk, AFullDiskEndsIt) {
  Break([&] { disk_.FailWrites(SQLITE_FULL); }, "full");
  disk_.FailWrites(0);  // there is space again
  EXPECT_THAT(Read(options_), ElementsAre("good"));
  EXPECT_TRUE(OpenJournal(options_).AppendAndWait("and on"));
}

TEST_F(BrokenDisk, ADiskThatStopsIsWaitedForUpToTheLimit) {
  SqliteOptions options = options_;
  options.queued_bytes_max = 1000;
  OpenJournal journal(options);
  disk_.HoldSyncs();
  const uint64_t first = journal.Append("first");
  // Until the writer is in its sync, with nothing queued but what it holds.
  journal.Append(std::string(2000, 'x'));
  disk_.ReleaseSyncs();
  journal.WaitFor(first + 1);
  journal.Append(std::string(2000, 'x'));
  journal.WaitFor(first + 2);
  EXPECT_THAT(std::string(journal->Close().message()), HasSubstr("queued_bytes_max"));
}

// --- Deaths ---

// A child appends numbers, one after the other and many at once, and tells what is durable.
[[noreturn]] void AppendUntilKilled(const SqliteOptions& options, int tell) {
  int next = 0;
  auto opened = SqliteJournal::Open(options);
  if (!opened.ok()) _exit(1);
  SqliteJournal& journal = **opened;
  const auto replayed = journal.Replay([&](std::string_view) { return ++next, absl::OkStatus(); });
  if (!replayed.ok()) {
    std::fprintf(stderr, "%s\n", std::string(replayed.status().message()).c_str());
    _exit(2);
  }
  const uint64_t had = static_cast<uint64_t>(next);
  const auto durable = [&](uint64_t through) {
    const std::string line = absl::StrCat(had + through, "\n");
    if (write(tell, line.data(), line.size()) < 0) _exit(3);
  };
  if (!journal
           .Start(durable,
                  [](const absl::Status& reason) {
                    std::fprintf(stderr, "%s\n", std::string(reason.message()).c_str());
                    _exit(4);
                  })
           .ok())
    _exit(5);
  while (true) {
    while (journal.queued_bytes() > 1000) std::this_thread::yield();
    journal.Append(absl::StrCat(NewEntry(), next++));
    if (!journal.WantsSnapshot()) continue;
    journal.BeginSnapshot([at = 0, next]() mutable -> std::optional<std::string> {
      if (at == next) return std::nullopt;
      return absl::StrCat(NewEntry(), at++);
    });
  }
}

TEST(Death, TakesBackNothingThatWasTold) {
  const TemporaryDirectory directory;
  const SqliteOptions options = {.directory = directory.path(),
                                 .mark_delay = absl::Milliseconds(1),
                                 .snapshot_bytes_min = 4000,
                                 .row_bytes_max = 500,
                                 .log_pages = 8};
  std::mt19937 random(20);
  for (int round = 0; round < 25; ++round) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) AppendUntilKilled(options, told[1]);
    close(told[1]);
    // Somewhere in the middle of it, after so many bytes of what it says.
    std::string said;
    const size_t until = 1 + random() % 2000;
    char some[64];
    while (said.size() < until) {
      const ssize_t size = read(told[0], some, sizeof(some));
      ASSERT_GT(size, 0) << "the child ended by itself";
      said.append(some, static_cast<size_t>(size));
    }
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    ssize_t size = 0;
    while ((size = read(told[0], some, sizeof(some))) > 0) {
      said.append(some, static_cast<size_t>(size));
    }
    close(told[0]);
    said.resize(said.rfind('\n') + 1);
    const size_t line = said.size() < 2 ? 0 : said.rfind('\n', said.size() - 2);
    size_t durable = 0;
    ASSERT_TRUE(absl::SimpleAtoi(said.substr(line == std::string::npos ? 0 : line), &durable));
    const std::vector<std::string> entries = Read(options);
    ASSERT_GE(entries.size(), durable) << "round " << round;
    for (size_t i = 0; i < entries.size(); ++i) ASSERT_EQ(entries[i], absl::StrCat(i));
  }
}

}  // namespace
}  // namespace lockstep::journal

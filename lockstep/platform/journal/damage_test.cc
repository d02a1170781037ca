// Every byte of a small state directory flipped, and each of its files cut at every place: what was
// durable is read back whole, or nothing is started and the place is named.
//
// LOCKSTEP_DAMAGE_STEP=N: only every Nth offset, another share in each file and kind of damage.
#include <cstdlib>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/journal/framing.h"
#include "lockstep/platform/journal/testing.h"

namespace lockstep::journal {
namespace {

using testing::HasSubstr;

size_t Step() {
  const char* text = std::getenv("LOCKSTEP_DAMAGE_STEP");
  size_t step = 1;
  if (text != nullptr && !absl::SimpleAtoi(text, &step)) step = 1;
  return step;
}

SqliteOptions Options(const std::string& directory) {
  // Small pages, so that there is a tree of them and not many bytes that nothing depends on.
  // And a log of which little is laid out and not used.
  return {.directory = directory, .row_bytes_max = 100, .page_bytes = 512, .log_pages = 24};
}

// The files of a state directory as they lie there when the server is killed.
struct State {
  std::map<std::string, std::string> files;
  std::vector<std::string> entries;
  size_t marked = 0;  // so many of the entries were durable when the mark was written
};

State Copy(const std::string& directory) {
  State state;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name != "lock") state.files[name] = ReadFile(entry.path());
  }
  return state;
}

// A snapshot, and rows behind it of which some lie in the database and some in the log.
State KilledState() {
  const TemporaryDirectory directory;
  std::vector<std::string> entries;
  for (int i = 0; i < 12; ++i)
    entries.push_back(absl::StrCat("state ", i, " ", std::string(30, 's')));
  {
    OpenJournal journal(Options(directory.path()));
    for (int i = 0; i < 10; ++i) journal.AppendAndWait(absl::StrCat("old ", i));
    journal.Snapshot(entries);
    journal.AppendAndWait("a");
    while (journal->WantsSnapshot()) std::abort();
    for (int i = 0; i < 3; ++i) journal.AppendAndWait("b");
  }
  for (const char* text : {"a", "b", "b", "b"}) entries.emplace_back(text);
  OpenJournal journal(Options(directory.path()));
  for (int i = 0; i < 6; ++i) {
    entries.push_back(absl::StrCat("row ", i, std::string(static_cast<size_t>(i) * 90, 'x')));
    journal.AppendAndWait(entries.back());
  }
  journal.WaitForMark(20);
  State state = Copy(directory.path());
  state.entries = entries;
  state.marked = entries.size();
  return state;
}

void Put(const State& state, const std::string& directory) {
  std::filesystem::create_directories(directory);
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::filesystem::remove(entry.path());
  }
  for (const auto& [name, bytes] : state.files) WriteFile(directory + "/" + name, bytes);
}

struct Counts {
  int read = 0;
  int cut = 0;
  int refused = 0;
};

// The damaged copy is started right, and goes on so, or is refused with a place.
void Check(const State& damaged, const std::string& directory, const std::string& what,
           Counts& counts) {
  Put(damaged, directory);
  const SqliteOptions options = Options(directory);
  const auto entries = ReadJournal(options);
  if (!entries.ok()) {
    ++counts.refused;
    ASSERT_THAT(std::string(entries.status().message()), HasSubstr(directory + "/")) << what;
    // And it stays so: the first look has changed nothing of what the second one sees.
    if (counts.refused % 16 == 0) {
      ASSERT_FALSE(ReadJournal(options).ok()) << what;
    }
    return;
  }
  ++(entries->size() == damaged.entries.size() ? counts.read : counts.cut);
  ASSERT_GE(entries->size(), damaged.marked) << what;
  ASSERT_LE(entries->size(), damaged.entries.size()) << what;
  for (size_t i = 0; i < entries->size(); ++i) ASSERT_EQ((*entries)[i], damaged.entries[i]) << what;
  {
    OpenJournal journal(options);
    ASSERT_TRUE(journal.AppendAndWait(std::string(700, 'n'))) << what;
  }
  const auto again = ReadJournal(options);
  ASSERT_TRUE(again.ok()) << what << ": " << again.status();
  ASSERT_EQ(again->size(), entries->size() + 1) << what;
}

class Damage : public testing::Test {
 protected:
  void FlipEveryByte(const State& state) {
    size_t start = 0;
    for (const auto& [name, bytes] : state.files) {
      for (size_t at = start++ % Step(); at < bytes.size(); at += Step()) {
        State damaged = state;
        char& byte = damaged.files[name][at];
        byte = static_cast<char>(byte ^ (at % 3 == 0 ? 0xFF : 1 << at % 8));
        Check(damaged, directory_.path("d"), absl::StrCat(name, " flipped at ", at), counts_);
        if (HasFatalFailure()) return;
      }
    }
  }
  void CutEveryFile(const State& state) {
    size_t start = 0;
    for (const auto& [name, bytes] : state.files) {
      for (size_t at = start++ % Step(); at < bytes.size(); at += Step()) {
        State damaged = state;
        damaged.files[name].resize(at);
        Check(damaged, directory_.path("d"), absl::StrCat(name, " cut at ", at), counts_);
        if (HasFatalFailure()) return;
      }
    }
  }
  void TearDown() override {
    std::printf("read whole %d, without a tail %d, refused %d\n", counts_.read, counts_.cut,
                counts_.refused);
  }

  const TemporaryDirectory directory_;
  Counts counts_;
};

TEST_F(Damage, TheStateItselfIsRead) {
  const State state = KilledState();
  EXPECT_GT(state.files.at("journal.db-wal").size(), 4000u);
  Check(state, directory_.path("d"), "undamaged", counts_);
  EXPECT_EQ(counts_.read, 1);
}

TEST_F(Damage, EveryByteFlipped) {
  FlipEveryByte(KilledState());
  EXPECT_EQ(counts_.cut, 0) << "all of it had been durable";
  EXPECT_GT(counts_.refused, counts_.read / 10) << "much of it is zeros that are laid out ahead";
}

TEST_F(Damage, EveryFileCutEverywhere) {
  CutEveryFile(KilledState());
  EXPECT_EQ(counts_.cut, 0) << "all of it had been durable";
  EXPECT_GT(counts_.refused, counts_.read / 10) << "much of it is zeros that are laid out ahead";
}

// The last three rows are younger than the mark, as when the server is killed right behind them.
State YoungState() {
  State state = KilledState();
  const TemporaryDirectory directory;
  Put(state, directory.path());
  // The mark of three rows before: made by a journal that has only those.
  State older = state;
  const absl::StatusOr<NewestMark> newest = ParseMarkFile(older.files["mark"]);
  EXPECT_TRUE(newest.ok());
  auto database = Database::Open(directory.path("journal.db"), "");
  EXPECT_TRUE(database.ok());
  const uint64_t through = newest->mark.through - 3;
  auto checksum =
      (*database)->Ask(absl::StrCat("SELECT checksum FROM rows WHERE sequence=", through));
  uint32_t number = 0;
  EXPECT_TRUE(checksum.ok() && absl::SimpleAtoi(*checksum, &number));
  state.files["mark"] = MarkText({.through = through, .checksum = number});
  state.marked -= 3;
  return state;
}

TEST_F(Damage, OnlyWhatIsYoungerThanTheMarkMayBeATornTail) {
  const State state = YoungState();
  FlipEveryByte(state);
  CutEveryFile(state);
  EXPECT_GT(counts_.cut, 0);
}

// A snapshot whose rows before it are still to be deleted, as are the pieces of the one before.
State StateWithLeftovers() {
  const TemporaryDirectory directory;
  const auto sealed = [](const std::string& text) {
    std::string entry = NewEntry() + text;
    EXPECT_TRUE(SealEntry(entry).ok());
    return entry;
  };
  auto opened = SqliteStore::Open(directory.path(), {.page_bytes = 512});
  EXPECT_TRUE(opened.ok());
  SqliteStore& store = **opened;
  bool good = store.Replay(std::nullopt, [](std::string_view) { return absl::OkStatus(); }).ok();
  for (const char* state : {"first", "second"}) {
    good = good && store.Begin().ok();
    for (int i = 0; i < 6; ++i) {
      good = good && store.AppendRow(sealed(std::string(60, 'r'))).ok();
    }
    store.BeginSnapshot();
    good = good && store.AppendPiece(sealed(state), 1).ok() && store.EndSnapshot().ok() &&
           store.AppendRow(sealed("behind")).ok() && store.Commit().ok();
  }
  EXPECT_TRUE(good);
  State state = Copy(directory.path());
  state.files["mark"] = MarkText(store.last());
  state.entries = {"second", "behind"};
  state.marked = 2;
  return state;
}

TEST_F(Damage, WhatASnapshotLeftIsNotReadForSomethingElse) {
  const State state = StateWithLeftovers();
  Check(state, directory_.path("d"), "undamaged", counts_);
  EXPECT_EQ(counts_.read, 1);
  FlipEveryByte(state);
  CutEveryFile(state);
  EXPECT_EQ(counts_.cut, 0) << "all of it had been durable";
}

TEST_F(Damage, AMissingFileIsSeen) {
  const State state = KilledState();
  for (const auto& [name, bytes] : state.files) {
    State damaged = state;
    damaged.files.erase(name);
    Check(damaged, directory_.path("d"), name + " missing", counts_);
  }
  EXPECT_EQ(counts_.refused, 3);
}

TEST_F(Damage, RowsAndDatabasesCannotBeExchanged) {
  const State state = KilledState();
  const std::string directory = directory_.path("d");
  for (const char* sql : {"UPDATE rows SET bytes = (SELECT bytes FROM rows WHERE sequence = 15) "
                          "WHERE sequence = 16",
                          "DELETE FROM rows WHERE sequence = 17", "DELETE FROM snapshots",
                          "UPDATE rows SET sequence = 100 WHERE sequence = 20",
                          "DELETE FROM snapshots WHERE piece = 1", "UPDATE snapshots SET last = 0",
                          "UPDATE rows SET checksum = checksum + 1",
                          "UPDATE rows SET bytes = 'text' WHERE sequence = 14"}) {
    Put(state, directory);
    {
      auto database = Database::Open(directory + "/journal.db", "");
      ASSERT_TRUE(database.ok());
      ASSERT_TRUE((*database)->Execute(sql).ok()) << sql;
    }
    Check(Copy(directory), directory, sql, counts_);
  }
  EXPECT_EQ(counts_.refused, 8);
  // A database with another one's mark: as long, and not the same.
  State other = state;
  const absl::StatusOr<NewestMark> newest = ParseMarkFile(state.files.at("mark"));
  ASSERT_TRUE(newest.ok());
  const Mark mark = newest->mark;
  other.files["mark"] = MarkText({.through = mark.through, .checksum = mark.checksum + 1});
  Check(other, directory, "another's mark", counts_);
  EXPECT_EQ(counts_.refused, 9);
}

}  // namespace
}  // namespace lockstep::journal

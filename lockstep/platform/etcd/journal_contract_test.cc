// What every kind of journal promises.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/etcd/etcd_journal.h"
#include "lockstep/platform/etcd/testing.h"
#include "lockstep/platform/journal/memory_journal.h"
#include "lockstep/platform/journal/testing.h"

namespace lockstep::journal {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Where the entries of one journal are kept, for one owner after the other.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::unique_ptr<Journal> Open() = 0;
};

class InMemory : public Store {
 public:
  std::unique_ptr<Journal> Open() override { return std::make_unique<MemoryJournal>(disk_); }

 private:
  const std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
};

class OnDisk : public Store {
 public:
  std::unique_ptr<Journal> Open() override {
    auto journal = SqliteJournal::Open({.directory = directory_.path("state")});
    LOCKSTEP_CHECK(journal.ok());
    return *std::move(journal);
  }

 private:
  const TemporaryDirectory directory_;
};

// One etcd for all tests, and a prefix for each.
class InEtcd : public Store {
 public:
  std::unique_ptr<Journal> Open() override {
    auto journal = etcd::EtcdJournal::Open({.location = Members().At(prefix_),
                                            .identity = "127.0.0.1:7070",
                                            .make_state = true,
                                            .row_bytes_max = 256 << 10});
    LOCKSTEP_CHECK(journal.ok());
    return *std::move(journal);
  }

 private:
  static etcd::EtcdMembers& Members() {
    static etcd::EtcdMembers members(1);
    return members;
  }
  static std::string NextPrefix() {
    static int number = 0;
    return absl::StrCat("tests/contract/", ++number);
  }
  const std::string prefix_ = NextPrefix();
};

struct Kind {
  const char* name;
  std::unique_ptr<Store> (*make)();
};

class JournalContract : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (std::string(GetParam().name) == "Etcd" && !etcd::EtcdMembers::Available()) {
      GTEST_SKIP() << "there is no etcd: scripts/setup.sh etcd";
    }
    store_ = GetParam().make();
  }
  std::vector<std::string> Read() { return StartedJournal(store_->Open()).found(); }

  std::unique_ptr<Store> store_;
};

TEST_P(JournalContract, GivesBackWhatWasAppended) {
  const std::string long_entry(3 << 20, 'x');
  {
    StartedJournal journal(store_->Open());
    EXPECT_EQ(journal.Append("one"), 1u);
    EXPECT_EQ(journal.Append(""), 2u);
    EXPECT_TRUE(journal.AppendAndWait(long_entry));
    EXPECT_EQ(journal.durable(), 3u);
  }
  EXPECT_THAT(Read(), ElementsAre("one", "", long_entry));
}

TEST_P(JournalContract, EachOwnerCountsFromOne) {
  {
    StartedJournal journal(store_->Open());
    EXPECT_TRUE(journal.AppendAndWait("one"));
  }
  {
    StartedJournal journal(store_->Open());
    EXPECT_TRUE(journal.AppendAndWait("two"));
    EXPECT_EQ(journal.durable(), 1u);
  }
  EXPECT_THAT(Read(), ElementsAre("one", "two"));
}

TEST_P(JournalContract, WhatIsKeptTogetherCountsAsOne) {
  std::vector<std::string> expected;
  {
    StartedJournal journal(store_->Open());
    journal.Append("before");
    std::vector<std::string> entries;
    for (int i = 0; i < 4; ++i) {
      entries.push_back(NewEntry() + std::string(1 << 20, static_cast<char>('a' + i)));
    }
    EXPECT_EQ(journal->AppendTogether(std::move(entries)), 2u);
    EXPECT_TRUE(journal.WaitFor(2));
    EXPECT_TRUE(journal.AppendAndWait("after"));
    EXPECT_EQ(journal.durable(), 3u);
  }
  EXPECT_THAT(Read(), SizeIs(6));
}

TEST_P(JournalContract, ClosingWritesWhatIsQueued) {
  {
    StartedJournal journal(store_->Open());
    for (int i = 0; i < 5000; ++i) journal.Append(absl::StrCat("entry ", i));
    EXPECT_TRUE(journal->Close().ok());
    EXPECT_EQ(journal->queued_bytes(), 0u);
  }
  const std::vector<std::string> read = Read();
  ASSERT_THAT(read, SizeIs(5000));
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(read[i], absl::StrCat("entry ", i));
}

TEST_P(JournalContract, ASnapshotStandsForWhatCameBeforeIt) {
  std::vector<std::string> state;
  for (int i = 0; i < 50; ++i) state.push_back(absl::StrCat("state ", i));
  state.push_back(std::string(2 << 20, 's'));
  for (int round = 0; round < 3; ++round) {
    StartedJournal journal(store_->Open());
    journal.Append(absl::StrCat("before ", round));
    journal.Snapshot(state);
    // Between the pieces, if the kind has such.
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(journal.AppendAndWait(absl::StrCat("tail ", i)));
  }
  StartedJournal journal(store_->Open());
  EXPECT_EQ(journal.replayed().snapshot_entries, 51u);
  EXPECT_EQ(journal.replayed().entries, 50u);
  ASSERT_THAT(journal.found(), SizeIs(101));
  EXPECT_EQ(journal.found()[0], "state 0");
  EXPECT_EQ(journal.found()[50], state.back());
  EXPECT_EQ(journal.found()[51], "tail 0");
}

TEST_P(JournalContract, AnUnfinishedSnapshotDoesNotCount) {
  {
    StartedJournal journal(store_->Open());
    journal.Append("one");
    // Much longer than what is written before the journal is closed.
    journal.Snapshot(std::vector<std::string>(2000, std::string(8 << 10, 's')));
    EXPECT_TRUE(journal->Close().ok());
  }
  const std::vector<std::string> read = Read();
  if (read.size() == 1) {
    EXPECT_THAT(read, ElementsAre("one"));
  } else {
    EXPECT_THAT(read, SizeIs(2000));
  }
  {
    StartedJournal journal(store_->Open());
    journal.Append("two");
    journal.Snapshot({"all"});
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(journal.AppendAndWait("tail"));
  }
  EXPECT_THAT(Read(), SizeIs(101));
}

TEST_P(JournalContract, TheEntriesAreReadOnceMore) {
  {
    StartedJournal journal(store_->Open());
    journal.AppendAndWait("old");
    journal.Snapshot({"snapshot 1", "snapshot 2"});
    journal.AppendAndWait("behind");
  }
  const std::unique_ptr<Journal> journal = store_->Open();
  std::vector<std::string> first;
  std::vector<std::string> again;
  const auto into = [](std::vector<std::string>& entries) {
    return [&entries](std::string_view entry) {
      entries.emplace_back(entry);
      return absl::OkStatus();
    };
  };
  ASSERT_TRUE(journal->Replay(into(first)).ok());
  ASSERT_TRUE(journal->ReadAgain(into(again)).ok());
  EXPECT_EQ(first, again);
  EXPECT_THAT(again, ::testing::Contains("behind"));
}

TEST_P(JournalContract, ARefusedEntryIsNamedWithItsPlace) {
  {
    StartedJournal journal(store_->Open());
    journal.AppendAndWait("one");
    journal.AppendAndWait("two");
  }
  const std::unique_ptr<Journal> journal = store_->Open();
  const auto replayed = journal->Replay([](std::string_view entry) {
    return entry == "two" ? absl::InvalidArgumentError("no such record") : absl::OkStatus();
  });
  EXPECT_EQ(replayed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(replayed.status().message()), ::testing::HasSubstr("no such record"));
}

TEST_P(JournalContract, AConfirmationIsNumberedAmongTheEntries) {
  {
    StartedJournal journal(store_->Open());
    if (!journal->confirms()) GTEST_SKIP() << "this kind has one writer by its nature";
    EXPECT_EQ(journal.Append("one"), 1u);
    EXPECT_EQ(journal->Confirm(), 2u);
    EXPECT_TRUE(journal.WaitFor(2));
    EXPECT_EQ(journal->Confirm(), 3u);
    EXPECT_EQ(journal->Confirm(), 4u);
    EXPECT_TRUE(journal.WaitFor(4));
    EXPECT_TRUE(journal.AppendAndWait("two"));
    EXPECT_EQ(journal.durable(), 5u);
  }
  EXPECT_THAT(Read(), ElementsAre("one", "two"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, JournalContract,
    ::testing::Values(
        Kind{"Memory", [] { return std::unique_ptr<Store>(std::make_unique<InMemory>()); }},
        Kind{"Sqlite", [] { return std::unique_ptr<Store>(std::make_unique<OnDisk>()); }},
        Kind{"Etcd", [] { return std::unique_ptr<Store>(std::make_unique<InEtcd>()); }}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace lockstep::journal

#include "lockstep/server/commit_queue.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/journal/memory_journal.h"

namespace lockstep::server {
namespace {

using journal::MemoryJournal;
using journal::NewEntry;
using testing::ElementsAre;
using testing::IsEmpty;

class CommitQueueTest : public testing::Test {
 protected:
  MemoryJournal& Keep() {
    auto journal = std::make_unique<MemoryJournal>(disk_, MemoryJournal::Syncs::kWhenTold);
    MemoryJournal& kept = *journal;
    EXPECT_TRUE(commits_
                    .Keep(
                        std::move(journal),
                        [this](const absl::Status& reason) {
                          said_.push_back("failed: " + std::string(reason.message()));
                        },
                        [this] {
                          said_.push_back("snapshot");
                          return [] { return std::optional<std::string>(); };
                        })
                    .ok());
    return kept;
  }
  CommitQueue::Release Say(const std::string& text) {
    return [this, text](bool durable) { said_.push_back(durable ? text : "not " + text); };
  }
  // Runs what is posted.
  void Turn() { loop_.io().poll(); }

  runtime::Loop loop_;
  const std::shared_ptr<journal::MemoryDisk> disk_ = std::make_shared<journal::MemoryDisk>();
  CommitQueue commits_{loop_};
  std::vector<std::string> said_;
};

TEST_F(CommitQueueTest, WithoutAJournalNobodyWaits) {
  EXPECT_FALSE(commits_.keeps());
  commits_.Commit(NewEntry(), Say("a"));
  commits_.Follow(Say("b"));
  EXPECT_THAT(said_, ElementsAre("a", "b"));
  EXPECT_TRUE(commits_.idle());
}

TEST_F(CommitQueueTest, NothingIsSaidBeforeItIsDurable) {
  MemoryJournal& journal = Keep();
  commits_.Follow(Say("nothing before it"));
  commits_.Commit(NewEntry() + "1", Say("a"));
  commits_.Follow(Say("behind a"));
  Turn();
  EXPECT_THAT(said_, ElementsAre("nothing before it"));
  EXPECT_FALSE(commits_.idle());
  journal.Sync();
  commits_.Commit(NewEntry() + "2", Say("b"));
  commits_.Follow(Say("behind b"));
  Turn();
  EXPECT_THAT(said_, ElementsAre("nothing before it", "a", "behind a"));
  journal.Sync();
  Turn();
  EXPECT_THAT(said_, ElementsAre("nothing before it", "a", "behind a", "b", "behind b"));
  EXPECT_TRUE(commits_.idle());
}

TEST_F(CommitQueueTest, WhereOthersMayWriteEvenWhatChangesNothingWaits) {
  MemoryJournal& journal = Keep();
  journal.ShareWithOthers();
  EXPECT_FALSE(commits_.idle());
  commits_.Follow(Say("a"));
  Turn();
  EXPECT_THAT(said_, IsEmpty());
  journal.Sync();
  Turn();
  EXPECT_THAT(said_, ElementsAre("a"));
  // A change that is being written was perhaps written before this was asked for.
  commits_.Commit(NewEntry() + "1", Say("b"));
  EXPECT_EQ(commits_.newest(), 2u);
  commits_.Follow(Say("c"));
  EXPECT_EQ(commits_.newest(), 3u);
  journal.Sync();
  Turn();
  EXPECT_THAT(said_, ElementsAre("a", "b", "c"));
}

TEST_F(CommitQueueTest, WhatAnotherServerAnswersIsNotAnsweredHere) {
  MemoryJournal& journal = Keep();
  journal.ShareWithOthers();
  commits_.Commit(NewEntry() + "1", Say("a"));
  journal.FailWith(absl::AbortedError("another one leads"));
  journal.Sync();
  Turn();
  commits_.Follow(Say("b"));
  commits_.Commit(NewEntry() + "2", Say("c"));
  EXPECT_THAT(said_, ElementsAre("failed: another one leads"));
}

TEST_F(CommitQueueTest, WhatIsReleasedMayHandInMore) {
  MemoryJournal& journal = Keep();
  commits_.Commit(NewEntry(), [this](bool) {
    said_.push_back("a");
    commits_.Commit(NewEntry(), Say("c"));
    commits_.Follow(Say("behind c"));
  });
  commits_.Commit(NewEntry(), Say("b"));
  journal.Sync();
  Turn();
  EXPECT_THAT(said_, ElementsAre("a", "b"));
  journal.Sync();
  Turn();
  EXPECT_THAT(said_, ElementsAre("a", "b", "c", "behind c"));
}

TEST_F(CommitQueueTest, AJournalThatFailsIsToldAndNothingIsTrueAnyMore) {
  MemoryJournal& journal = Keep();
  commits_.Commit(NewEntry(), Say("a"));
  commits_.Follow(Say("b"));
  journal.FailWith(absl::InternalError("disk"));
  journal.Sync();
  Turn();
  EXPECT_THAT(said_, ElementsAre("not a", "not b", "failed: disk"));
  EXPECT_FALSE(commits_.idle());
  said_.clear();
  commits_.Commit(NewEntry(), Say("c"));
  commits_.Follow(Say("d"));
  EXPECT_THAT(said_, ElementsAre("not c", "not d"));
  EXPECT_EQ(commits_.Close().message(), "disk");
}

TEST_F(CommitQueueTest, ClosingWaitsForWhatWasHandedIn) {
  Keep();
  commits_.Commit(NewEntry() + "1", Say("a"));
  EXPECT_THAT(disk_->entries, IsEmpty());
  EXPECT_TRUE(commits_.Close().ok());
  EXPECT_EQ(disk_->entries.size(), 1u);
}

TEST_F(CommitQueueTest, ALongJournalGetsASnapshot) {
  MemoryJournal& journal = Keep();
  journal.WantSnapshotAt(2);
  for (const char* text : {"a", "b"}) {
    commits_.Commit(NewEntry(), Say(text));
    journal.Sync();
    Turn();
  }
  EXPECT_THAT(said_, ElementsAre("a", "b", "snapshot"));
  EXPECT_THAT(disk_->entries, IsEmpty());
}

}  // namespace
}  // namespace lockstep::server

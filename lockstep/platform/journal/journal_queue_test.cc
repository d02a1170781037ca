#include "lockstep/platform/journal/journal_queue.h"

#include <optional>

#include "gtest/gtest.h"

namespace lockstep::journal {
namespace {

SnapshotSource Empty() {
  return [] { return std::optional<std::string>(); };
}

TEST(SnapshotPolicy, WantsOneWhenTheLogIsLongAndLongerThanTheLastSnapshot) {
  SnapshotPolicy snapshots(/*bytes_min=*/100, /*factor=*/2);
  EXPECT_FALSE(snapshots.Begin()) << "nothing has come";
  snapshots.Found(/*log_bytes=*/100, /*snapshot_bytes=*/60);
  EXPECT_FALSE(snapshots.Wants());
  snapshots.Grew(20);
  EXPECT_FALSE(snapshots.Wants());
  snapshots.Grew(1);
  EXPECT_TRUE(snapshots.Wants());
  EXPECT_TRUE(snapshots.Begin());
  snapshots.Grew(1000);
  EXPECT_FALSE(snapshots.Wants()) << "one is being written";
  EXPECT_FALSE(snapshots.Begin());
  snapshots.End(1000);
  EXPECT_FALSE(snapshots.Wants());
}

TEST(JournalQueue, CountsEntriesAndTheBytesThatAreNotDurable) {
  JournalQueue queue(SnapshotPolicy(100, 2));
  EXPECT_EQ(queue.Append({"one"}, absl::OkStatus()), 1u);
  EXPECT_EQ(queue.Append({"two", "parts"}, absl::OkStatus()), 2u);
  queue.BeginSnapshot(Empty());
  JournalQueue::Work work = queue.Take(/*wait=*/true);
  EXPECT_EQ(work.queued.size(), 4u);
  EXPECT_EQ(work.entries, 2u);
  EXPECT_EQ(work.bytes, 11u);
  EXPECT_EQ(queue.bytes(), 11u);
  queue.Written(work.bytes);
  EXPECT_EQ(queue.bytes(), 0u);
  EXPECT_TRUE(queue.Take(/*wait=*/false).queued.empty());
  queue.Close();
  EXPECT_TRUE(queue.Take(/*wait=*/true).closing);
}

TEST(JournalQueue, AfterAFailureEntriesHaveNumbersAndNoPlace) {
  JournalQueue queue(SnapshotPolicy(100, 2));
  queue.Append({"long"}, absl::InvalidArgumentError("too long"));
  queue.Break(absl::InternalError("later"));
  EXPECT_EQ(queue.Take(/*wait=*/true).broken.message(), "too long");
  queue.Fail(absl::InternalError("ended"));
  EXPECT_EQ(queue.Append({"more"}, absl::OkStatus()), 2u);
  EXPECT_EQ(queue.bytes(), 0u);
  EXPECT_FALSE(queue.WantsSnapshot());
  EXPECT_EQ(queue.failure().message(), "ended");
}

}  // namespace
}  // namespace lockstep::journal

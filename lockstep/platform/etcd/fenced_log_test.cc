#include "lockstep/platform/etcd/fenced_log.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/etcd/etcd_model.h"
#include "lockstep/platform/etcd/state_reader.h"
#include "lockstep/platform/journal/framing.h"

namespace lockstep::etcd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Entry(const std::string& text) {
  std::string entry = journal::NewEntry() + text;
  journal::SealEntry(entry).IgnoreError();
  return entry;
}

class FencedLogTest : public ::testing::Test {
 protected:
  FencedLogTest() {
    etcd_.Commit({.then = {Put{.key = layout_.lineage(), .value = Encode({.id = "test"})}}})
        .IgnoreError();
  }
  // A server that leads from now on, and has read the log.
  FencedLog Lead(const std::string& name) {
    const auto result = etcd_.Commit({.then = {Put{.key = layout_.leader(), .value = name}}});
    StateReader reader(layout_);
    EXPECT_EQ(Read(reader), absl::OkStatus());
    return FencedLog(layout_, result->revision, reader.log());
  }
  absl::Status Read(StateReader& reader, std::vector<std::string>* entries = nullptr) {
    return reader.Read([this](const Transaction& asked) { return etcd_.Commit(asked); },
                       [entries](std::string_view entry) {
                         if (entries != nullptr) entries->emplace_back(entry);
                         return absl::OkStatus();
                       });
  }
  std::vector<std::string> Entries() {
    StateReader reader(layout_);
    std::vector<std::string> entries;
    EXPECT_EQ(Read(reader, &entries), absl::OkStatus());
    return entries;
  }
  std::string WhyNot() {
    StateReader reader(layout_);
    return std::string(Read(reader).message());
  }
  absl::Status Commit(FencedLog& log) { return log.Take(etcd_.Commit(log.transaction())); }
  absl::Status Append(FencedLog& log, const std::string& text) {
    log.AppendRow(Entry(text), false);
    return Commit(log);
  }
  void Snapshot(FencedLog& log, const std::vector<std::string>& texts) {
    while (log.has_old_pieces()) {
      log.DeleteSome();
      ASSERT_EQ(Commit(log), absl::OkStatus());
    }
    log.BeginSnapshot();
    for (const std::string& text : texts) {
      log.AppendPiece(Entry(text), false);
      ASSERT_EQ(Commit(log), absl::OkStatus());
    }
    log.AppendPiece(
        journal::EncodeSnapshotEnd(
            {.pieces = log.pieces(), .entries = texts.size(), .row_checksum = log.row_checksum()}),
        true);
    ASSERT_EQ(Commit(log), absl::OkStatus());
  }

  const Layout layout_ = Layout("test");
  EtcdModel etcd_;
};

TEST_F(FencedLogTest, RowsAreReadAsTheyWereWritten) {
  FencedLog log = Lead("a");
  EXPECT_EQ(Append(log, "one"), absl::OkStatus());
  EXPECT_EQ(Append(log, ""), absl::OkStatus());
  EXPECT_THAT(Entries(), ElementsAre("one", ""));
}

TEST_F(FencedLogTest, WhatIsSentTwiceTakesEffectOnce) {
  FencedLog log = Lead("a");
  log.AppendRow(Entry("one"), false);
  ASSERT_TRUE(etcd_.Commit(log.transaction()).ok());
  EXPECT_EQ(log.Take(absl::UnavailableError("lost")).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(log.pending());
  EXPECT_EQ(Commit(log), absl::OkStatus());
  EXPECT_EQ(Append(log, "two"), absl::OkStatus());
  EXPECT_THAT(Entries(), ElementsAre("one", "two"));
}

TEST_F(FencedLogTest, WhoDoesNotLeadAnyMoreWritesNothing) {
  FencedLog a = Lead("a");
  EXPECT_EQ(Append(a, "one"), absl::OkStatus());
  FencedLog b = Lead("b");
  EXPECT_EQ(Append(a, "late").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Append(b, "two"), absl::OkStatus());
  EXPECT_THAT(Entries(), ElementsAre("one", "two"));
}

TEST_F(FencedLogTest, AConfirmationFailsOnceAnotherOneLeads) {
  FencedLog a = Lead("a");
  a.Confirm();
  EXPECT_EQ(Commit(a), absl::OkStatus());
  Lead("b");
  a.Confirm();
  EXPECT_EQ(Commit(a).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FencedLogTest, EtcdThatLostItsDataIsNoticed) {
  FencedLog a = Lead("a");
  EXPECT_EQ(Append(a, "one"), absl::OkStatus());
  etcd_ = EtcdModel();
  const absl::Status status = Append(a, "two");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("etcd has lost its data"));
  StateReader reader(layout_);
  EXPECT_EQ(Read(reader).code(), absl::StatusCode::kNotFound);
}

TEST_F(FencedLogTest, ARowThatSomebodyElseWroteIsNotTakenForOurs) {
  FencedLog log = Lead("a");
  etcd_.Commit({.then = {Put{.key = layout_.row(1), .value = "foreign"}}}).IgnoreError();
  EXPECT_EQ(Append(log, "one").code(), absl::StatusCode::kDataLoss);
}

TEST_F(FencedLogTest, WhatIsNotWholeIsCutByTheNextLeader) {
  FencedLog a = Lead("a");
  EXPECT_EQ(Append(a, "one"), absl::OkStatus());
  a.AppendRow("the beginning of a long entry", /*more=*/true);
  EXPECT_EQ(Commit(a), absl::OkStatus());
  FencedLog b = Lead("b");
  ASSERT_TRUE(b.has_cut_rows());
  b.DeleteSome();
  EXPECT_EQ(Commit(b), absl::OkStatus());
  EXPECT_EQ(Append(b, "two"), absl::OkStatus());
  EXPECT_THAT(Entries(), ElementsAre("one", "two"));
}

TEST_F(FencedLogTest, ASnapshotStandsForTheRowsBeforeItWhichAreDeleted) {
  FencedLog log = Lead("a");
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(Append(log, absl::StrCat("row ", i)), absl::OkStatus());
  Snapshot(log, {"state 1", "state 2"});
  EXPECT_EQ(Append(log, "behind"), absl::OkStatus());
  EXPECT_THAT(Entries(), ElementsAre("state 1", "state 2", "behind"));
  int steps = 0;
  while (log.has_leftovers()) {
    log.DeleteSome();
    ASSERT_EQ(Commit(log), absl::OkStatus());
    ++steps;
  }
  EXPECT_EQ(steps, 1 + 3);
  EXPECT_EQ(etcd_.keys().size(), 2u /* lineage, leader */ + 1 /* snapshot */ + 3 + 1);
  EXPECT_THAT(Entries(), ElementsAre("state 1", "state 2", "behind"));
  // The next one goes on from it.
  FencedLog next = Lead("b");
  EXPECT_EQ(Append(next, "more"), absl::OkStatus());
  Snapshot(next, {"all"});
  EXPECT_THAT(Entries(), ElementsAre("all"));
}

TEST_F(FencedLogTest, AStandbyReadsWhatComesLater) {
  FencedLog a = Lead("a");
  EXPECT_EQ(Append(a, "one"), absl::OkStatus());
  StateReader standby(layout_);
  std::vector<std::string> entries;
  EXPECT_EQ(Read(standby, &entries), absl::OkStatus());
  const auto follow = [&] {
    return standby.Follow([this](const Transaction& asked) { return etcd_.Commit(asked); },
                          [&](std::string_view entry) {
                            entries.emplace_back(entry);
                            return absl::OkStatus();
                          });
  };
  EXPECT_EQ(Append(a, "two"), absl::OkStatus());
  a.AppendRow("half of something", /*more=*/true);
  EXPECT_EQ(Commit(a), absl::OkStatus());
  EXPECT_EQ(follow(), absl::OkStatus());
  EXPECT_THAT(entries, ElementsAre("one", "two"));
  // Another leader cuts the half.
  FencedLog b = Lead("b");
  b.DeleteSome();
  EXPECT_EQ(Commit(b), absl::OkStatus());
  EXPECT_EQ(Append(b, "three"), absl::OkStatus());
  EXPECT_EQ(follow(), absl::OkStatus());
  EXPECT_THAT(entries, ElementsAre("one", "two", "three"));
  // A snapshot of what it knows is nothing new; one of what it does not is too much.
  const auto clean = [&] {
    while (b.has_leftovers()) {
      b.DeleteSome();
      ASSERT_EQ(Commit(b), absl::OkStatus());
    }
  };
  Snapshot(b, {"all"});
  clean();
  EXPECT_EQ(Append(b, "four"), absl::OkStatus());
  EXPECT_EQ(follow(), absl::OkStatus());
  EXPECT_THAT(entries, ElementsAre("one", "two", "three", "four"));
  EXPECT_EQ(Append(b, "five"), absl::OkStatus());
  Snapshot(b, {"all", "more"});
  clean();
  EXPECT_EQ(follow().code(), absl::StatusCode::kAborted);
}

TEST_F(FencedLogTest, ASnapshotThatWasNotFinishedIsDeleted) {
  FencedLog a = Lead("a");
  EXPECT_EQ(Append(a, "one"), absl::OkStatus());
  a.DeleteSome();
  EXPECT_EQ(Commit(a), absl::OkStatus());
  a.BeginSnapshot();
  a.AppendPiece(Entry("half"), false);
  EXPECT_EQ(Commit(a), absl::OkStatus());
  FencedLog b = Lead("b");
  EXPECT_THAT(Entries(), ElementsAre("one"));
  Snapshot(b, {"whole"});
  EXPECT_THAT(Entries(), ElementsAre("whole"));
}

TEST_F(FencedLogTest, WhatArrivesLateUndoesNothing) {
  FencedLog a = Lead("a");
  a.AppendRow("a part", /*more=*/true);
  EXPECT_EQ(Commit(a), absl::OkStatus());
  FencedLog log = Lead("b");
  std::vector<Transaction> sent;
  const auto commit = [&] {
    sent.push_back(log.transaction());
    ASSERT_EQ(Commit(log), absl::OkStatus());
    // All that went before it comes once more.
    for (const Transaction& late : sent) etcd_.Commit(late).IgnoreError();
  };
  for (int round = 0; round < 4; ++round) {
    while (log.has_leftovers()) {
      log.DeleteSome();
      commit();
    }
    for (int row = 0; row < 3; ++row) {
      log.AppendRow(Entry("row"), false);
      commit();
    }
    log.BeginSnapshot();
    log.AppendPiece(Entry(absl::StrCat("round ", round)), false);
    commit();
    log.AppendPiece(
        journal::EncodeSnapshotEnd({.pieces = 1, .entries = 1, .row_checksum = log.row_checksum()}),
        true);
    commit();
    log.AppendRow(Entry("behind"), false);
    commit();
    EXPECT_THAT(Entries(), ElementsAre(absl::StrCat("round ", round), "behind"));
  }
}

TEST_F(FencedLogTest, ANewerFormatIsRefused) {
  etcd_.Commit({.then = {Put{.key = layout_.lineage(), .value = Encode({.format = 2, .id = "x"})}}})
      .IgnoreError();
  StateReader reader(layout_);
  EXPECT_EQ(Read(reader).code(), absl::StatusCode::kFailedPrecondition);
}

// Whatever is done to a key, what is read is right, or nothing is.
TEST_F(FencedLogTest, EveryDamageIsFound) {
  FencedLog log = Lead("a");
  EXPECT_EQ(Append(log, "one"), absl::OkStatus());
  EXPECT_EQ(Append(log, "two"), absl::OkStatus());
  Snapshot(log, {"state"});
  while (log.has_leftovers()) {
    log.DeleteSome();
    ASSERT_EQ(Commit(log), absl::OkStatus());
  }
  EXPECT_EQ(Append(log, "three"), absl::OkStatus());
  EXPECT_EQ(Append(log, "four"), absl::OkStatus());
  const auto whole = etcd_.keys();
  int damaged = 0;
  for (const auto& [name, key] : whole) {
    if (name == layout_.leader() || name == layout_.lineage()) continue;
    const auto sequence = layout_.SequenceOf(name);
    // The last row may be missing, as if it had never been written.
    if (sequence != 4) {
      etcd_.mutable_keys().erase(name);
      EXPECT_NE(WhyNot(), "") << name << " is missing";
      etcd_.mutable_keys() = whole;
    }
    for (size_t bit = 0; bit < 8 * key.value.size(); ++bit) {
      etcd_.mutable_keys()[name].value[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      EXPECT_NE(WhyNot(), "") << name << " bit " << bit;
      etcd_.mutable_keys() = whole;
      ++damaged;
    }
  }
  EXPECT_GT(damaged, 300);
  EXPECT_THAT(Entries(), ElementsAre("state", "three", "four"));
}

}  // namespace
}  // namespace lockstep::etcd

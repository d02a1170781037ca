#include "lockstep/stock/tcpstore/recorded_keys.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"

namespace lockstep::tcpstore {
namespace {

using testing::IsEmpty;

ValuePtr Text(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

TEST(RecordedKeys, EachChangeIsOneRecord) {
  RecordedKeys keys(/*keeps=*/true);
  std::vector<Record> records;
  keys.Set("/a", Text("1"), records);
  keys.Append("/a", "2", records);
  keys.Push("/q", Text("3"), records);
  keys.Pop("/q", records);
  keys.Delete("/a", records);
  keys.Set("/default_pg/a", Text("4"), records);
  keys.Set("/default_pg/b", Text("5"), records);
  EXPECT_EQ(keys.ClearGroup(records), 2u);
  keys.Clear(records);
  ASSERT_EQ(records.size(), 9u);
  EXPECT_EQ(*std::get<record::ValueAppended>(records[1]).more, "2") << "only what was added";
  EXPECT_TRUE(std::holds_alternative<record::GroupCleared>(records[7]));
}

TEST(RecordedKeys, ItsRecordsMakeItAgain) {
  RecordedKeys keys(/*keeps=*/true);
  std::vector<Record> records;
  keys.Set("/a", Text("1"), records);
  keys.Append("/a", "2", records);
  keys.Push("/q", Text("3"), records);
  keys.Push("/q", Text("4"), records);
  keys.Pop("/q", records);
  RecordedKeys again(/*keeps=*/true);
  for (const Record& record : records) ASSERT_TRUE(again.Apply(record).ok());
  EXPECT_EQ(*again.now().Value("/a"), "12");
  std::vector<Record> more;
  EXPECT_EQ(*again.Pop("/q", more), "4");
}

TEST(RecordedKeys, WhatChangesNothingIsNotRecorded) {
  RecordedKeys keys(/*keeps=*/true);
  std::vector<Record> records;
  EXPECT_FALSE(keys.Delete("/a", records));
  EXPECT_EQ(keys.Pop("/q", records), nullptr);
  EXPECT_EQ(keys.ClearGroup(records), 0u);
  EXPECT_THAT(records, IsEmpty());
}

TEST(RecordedKeys, ChangesWithoutRecordsWhereNothingIsKept) {
  RecordedKeys keys(/*keeps=*/false);
  std::vector<Record> records;
  keys.Set("/a", Text("1"), records);
  keys.Push("/q", Text("2"), records);
  keys.Clear(records);
  EXPECT_THAT(records, IsEmpty());
  EXPECT_EQ(keys.now().size(), 0u);
}

}  // namespace
}  // namespace lockstep::tcpstore

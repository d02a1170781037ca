#include "lockstep/rendezvous/step_table.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

const KeyView kKey = {MemberIndex(1), "x"};

Arrived Numbered(uint64_t bytes) { return {.value = {.bytes = bytes}}; }

// Who gets a value that answers this want; 0: nobody.
StepTable::RemovedWaiter Arrive(StepTable& table, WantId answers = WantId()) {
  Arrived value = Numbered(1);
  return table.Arrive(kKey, answers, value).value_or(StepTable::RemovedWaiter());
}

// With so many receives, 1 and up, that are wanted by wants 11 and up.
StepTable Wanting(uint64_t count) {
  StepTable table;
  for (uint64_t op = 1; op <= count; ++op) table.Ask(kKey, OpId(op));
  for (uint64_t op = 1; op <= count; ++op) table.Want(kKey, WantId(10 + op));
  return table;
}

TEST(StepTable, GivesTheFirstValueToTheFirstReceive) {
  StepTable table;
  EXPECT_FALSE(table.Ask(kKey, OpId(1)));
  EXPECT_FALSE(table.Ask(kKey, OpId(2)));

  Arrived value = Numbered(10);
  EXPECT_EQ(table.Arrive(kKey, WantId(), value)->op, OpId(1));
  EXPECT_EQ(value.value.bytes, 10) << "the value is the caller's to give";
  EXPECT_EQ(table.Arrive(kKey, WantId(), value)->op, OpId(2));
  EXPECT_TRUE(table.empty());
}

// Row 99: two keys whose hashes are equal do not mix.
TEST(StepTable, KeepsKeysOfOneHashApart) {
  StepTable table({.mask = 0});
  Arrived first = Numbered(1);
  Arrived second = Numbered(2);
  table.Arrive({MemberIndex(1), "a"}, WantId(), first);
  table.Arrive({MemberIndex(2), "a"}, WantId(), second);

  EXPECT_FALSE(table.Ask({MemberIndex(1), "b"}, OpId(1)));
  EXPECT_EQ(table.Ask({MemberIndex(2), "a"}, OpId(2))->value.bytes, 2);
  EXPECT_EQ(table.Ask({MemberIndex(1), "a"}, OpId(3))->value.bytes, 1);
}

TEST(StepTable, ForgetsAReceiveAndKeepsTheOrderOfTheOthers) {
  StepTable table;
  for (uint64_t op = 1; op <= 3; ++op) table.Ask(kKey, OpId(op));
  EXPECT_TRUE(table.Forget(kKey, OpId(2)).has_value());
  EXPECT_FALSE(table.Forget(kKey, OpId(2)).has_value());
  EXPECT_EQ(Arrive(table).op, OpId(1));
  EXPECT_EQ(Arrive(table).op, OpId(3));
}

TEST(StepTable, AValueThatWasPutBackIsTheNext) {
  StepTable table;
  for (uint64_t bytes = 1; bytes <= 2; ++bytes) {
    Arrived value = Numbered(bytes);
    table.Arrive(kKey, WantId(), value);
  }
  Arrived first = *table.Ask(kKey, OpId(1));
  table.PutBack(kKey, first);
  EXPECT_EQ(table.Ask(kKey, OpId(2))->value.bytes, 1);
  EXPECT_EQ(table.Ask(kKey, OpId(3))->value.bytes, 2);
}

TEST(StepTable, AnAnsweredWantIsNotTakenBack) {
  StepTable table = Wanting(2);
  for (uint64_t op = 1; op <= 2; ++op) {
    const StepTable::RemovedWaiter removed = Arrive(table, WantId(10 + op));
    EXPECT_EQ(removed.op, OpId(op));
    EXPECT_EQ(removed.unwanted, WantId());
  }
  EXPECT_TRUE(table.empty());
}

TEST(StepTable, WhoLeavesWithoutAnAnswerTakesTheNewestWantBack) {
  StepTable table = Wanting(4);
  EXPECT_EQ(Arrive(table).unwanted, WantId(14)) << "by a value that was not wanted";
  EXPECT_EQ(table.Forget(kKey, OpId(3))->unwanted, WantId(13)) << "by itself";
  EXPECT_EQ(Arrive(table, WantId(14)).unwanted, WantId(12)) << "by the answer to another want";
  Arrived value = Numbered(1);
  EXPECT_EQ(table.PutBack(kKey, value)->unwanted, WantId(11)) << "by a value that was put back";
  EXPECT_TRUE(table.empty());
}

TEST(StepTable, WhoIsNotWantedYetTakesNothingBack) {
  StepTable table = Wanting(1);
  table.Ask(kKey, OpId(2));
  table.Ask(kKey, OpId(3));
  EXPECT_EQ(table.Forget(kKey, OpId(3))->unwanted, WantId());
  EXPECT_EQ(Arrive(table, WantId(11)).unwanted, WantId());
  EXPECT_EQ(Arrive(table).unwanted, WantId());
}

TEST(StepTable, AsManyReceivesAreRefusedAsWantsThatStillStand) {
  StepTable table = Wanting(4);
  table.Ask(kKey, OpId(5));
  table.Forget(kKey, OpId(1));  // and want 14
  EXPECT_EQ(table.Refuse(kKey, WantId(12), WantId(14)), (std::vector{OpId(3), OpId(4)}));
  EXPECT_EQ(table.Refuse(kKey, WantId(12), WantId(14)), std::vector<OpId>());
  EXPECT_EQ(Arrive(table, WantId(11)).op, OpId(2));
  EXPECT_EQ(Arrive(table).op, OpId(5));
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.Refuse(kKey, WantId(1), WantId(99)), std::vector<OpId>());
}

}  // namespace
}  // namespace lockstep::rendezvous

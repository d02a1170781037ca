#include "lockstep/rendezvous/transport/fetch_schedule.h"

#include <gtest/gtest.h>

#include <memory>

namespace lockstep::transport {
namespace {

using rendezvous::OpId;

std::shared_ptr<const BulkFetchOptions> Small() {
  BulkFetchOptions options;
  options.chunk_bytes = 10;
  options.window_bytes = 30;
  options.place_bytes_min = 100;
  options.places_max = 1;
  return std::make_shared<const BulkFetchOptions>(options);
}

BulkFetch Fetch(uint64_t op, uint64_t bytes) {
  return {.op = OpId(op), .lease = rendezvous::LeaseId(op), .bytes = bytes};
}

TEST(FetchSchedule, ValuesTakeTurnsUntilTheWindowIsFull) {
  FetchSchedule schedule(Small());
  schedule.Add(Fetch(1, 25));
  schedule.Add(Fetch(2, 5));
  EXPECT_EQ(schedule.Ask(false)->lease, 1);
  EXPECT_EQ(schedule.Ask(false)->lease, 2);
  const auto third = schedule.Ask(false);
  EXPECT_EQ(third->lease, 1);
  EXPECT_EQ(third->offset, 10);
  EXPECT_EQ(schedule.Ask(false)->bytes, 5) << "25 bytes are on their way, a chunk more may be";
  EXPECT_FALSE(schedule.Ask(false).has_value());
  schedule.TakeFront();
  EXPECT_FALSE(schedule.Ask(false).has_value()) << "there is nothing left";
}

TEST(FetchSchedule, WhatIsForgottenComesForNobody) {
  FetchSchedule schedule(Small());
  schedule.Add(Fetch(1, 5));
  schedule.Ask(false);
  schedule.Forget(*schedule.Find(OpId(1)));
  EXPECT_TRUE(schedule.empty());
  ASSERT_TRUE(schedule.waits());
  EXPECT_FALSE(schedule.TakeFront().of.has_value());
}

TEST(FetchSchedule, AsksForThePlaceOfALongValueAndForOnlySoMany) {
  FetchSchedule schedule(Small());
  schedule.Add(Fetch(1, 200));
  schedule.Add(Fetch(2, 200));
  EXPECT_TRUE(schedule.Ask(true)->place);
  EXPECT_FALSE(schedule.Ask(true).has_value());
  EXPECT_TRUE(schedule.LeavePlace(**schedule.Find(OpId(1))));
  EXPECT_EQ(schedule.Ask(true)->lease, 2);
}

TEST(FetchSchedule, AsksAgainAfterAResetForWhatHasNotCome) {
  FetchSchedule schedule(Small());
  schedule.Add(Fetch(1, 20));
  schedule.Ask(false);
  (*schedule.Find(OpId(1)))->come = 4;
  schedule.Reset();
  EXPECT_FALSE(schedule.waits());
  EXPECT_EQ(schedule.Ask(false)->offset, 4);
}

}  // namespace
}  // namespace lockstep::transport

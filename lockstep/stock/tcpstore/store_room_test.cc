#include "lockstep/stock/tcpstore/store_room.h"

#include "gmock/gmock.h"
#include "lockstep/stock/tcpstore/key_space.h"

namespace lockstep::tcpstore {
namespace {

using testing::HasSubstr;

constexpr size_t kLimit = 1000;

StoreRoom MakeRoom() { return StoreRoom({.keys_max = 3, .store_bytes_max = kLimit}); }

TEST(StoreRoom, WhatFitsExactlyIsNotRefused) {
  const StoreRoom room = MakeRoom();
  EXPECT_FALSE(room.Refusal("it", kLimit - 10, {.total = 10}));
  EXPECT_TRUE(room.Refusal("it", kLimit - 9, {.total = 10}));
  const size_t most = kLimit - KeySpace::kValueBytes;
  EXPECT_TRUE(room.HasRoomForKeys(1, most, {}));
  EXPECT_FALSE(room.HasRoomForKeys(1, most + 1, {}));
  EXPECT_THAT(room.RefusalOfKeys("/a", 1, most + 1, {}), HasSubstr("key '/a' is over the limit"));
}

TEST(StoreRoom, ARefusalNamesTheLimitAndWhoHoldsWhat) {
  StoreRoom room = MakeRoom();
  room.SetSurroundings(/*buffer_bytes=*/7, /*room_bytes=*/1 << 20);
  const auto why =
      room.Refusal("a wait", 2000, {.key_bytes = 5, .wait_bytes = 6, .total = 500}).value_or("");
  EXPECT_THAT(why, HasSubstr("torch_store_bytes_max (1000)"));
  EXPECT_THAT(why, HasSubstr("507 bytes are held"));
  EXPECT_THAT(why, HasSubstr("5 in keys and values, 6 in waits, 7 on their way"));
  EXPECT_FALSE(room.HasRoomForKeys(1, 0, {.entries = 3}));
  EXPECT_THAT(room.RefusalOfKeys("/a", 1, 0, {.entries = 3}), HasSubstr("torch_keys_max (3"));
}

TEST(StoreRoom, TheServersMemoryIsALimitOfItsOwn) {
  StoreRoom room = MakeRoom();
  room.SetSurroundings(/*buffer_bytes=*/0, /*room_bytes=*/100);
  EXPECT_FALSE(room.Refusal("it", 100, {}));
  EXPECT_THAT(room.Refusal("it", 101, {}).value_or(""), HasSubstr("memory_max"));
}

TEST(StoreRoom, AStoreThatIsOverItsLimitGetsNothingMore) {
  EXPECT_TRUE(MakeRoom().Refusal("it", 1, {.total = 2 * kLimit}));
  EXPECT_FALSE(MakeRoom().Refusal("it", 0, {.total = 2 * kLimit})) << "what costs nothing fits";
  EXPECT_TRUE(MakeRoom().HasRoomForKeys(0, 0, {.total = 2 * kLimit})) << "an empty key again";
  EXPECT_FALSE(MakeRoom().HasRoomForKeys(0, 1, {.total = 2 * kLimit}));
}

TEST(StoreRoom, AKeyInASentenceIsShortAndReadable) {
  EXPECT_EQ(Quoted("/a\n"), "'/a\\n'");
  EXPECT_EQ(Quoted(std::string(200, 'k')), "'" + std::string(128, 'k') + "...'");
}

}  // namespace
}  // namespace lockstep::tcpstore

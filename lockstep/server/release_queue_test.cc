#include "lockstep/server/release_queue.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::server {
namespace {

using testing::ElementsAre;

TEST(ReleaseQueue, LetsGoInOrderWhatWaitsForNoLaterEntry) {
  ReleaseQueue queue(nullptr);
  std::vector<std::string> said;
  const auto say = [&said](const std::string& text) {
    return [&said, text](bool durable) { said.push_back(durable ? text : "not " + text); };
  };
  EXPECT_FALSE(queue.MayGo(9));
  queue.Push(3, 10, say("a"));
  queue.Push(3, 0, say("behind a"));
  queue.Push(5, 20, say("b"));
  EXPECT_FALSE(queue.MayGo(2));
  while (queue.MayGo(4)) queue.Pop()(true);
  EXPECT_THAT(said, ElementsAre("a", "behind a"));
  EXPECT_EQ(queue.bytes(), 20u);
  queue.Pop()(false);
  EXPECT_THAT(said, ElementsAre("a", "behind a", "not b"));
  EXPECT_TRUE(queue.empty());
}

TEST(ReleaseQueue, TellsTheAccountWhatWaits) {
  runtime::MemoryAccount memory(size_t{1} << 20);
  ReleaseQueue queue(&memory);
  queue.Push(1, 1000, [](bool) {});
  EXPECT_GE(memory.held(), 1000u);
  queue.Pop()(true);
  EXPECT_EQ(memory.held(), 0u);
}

}  // namespace
}  // namespace lockstep::server

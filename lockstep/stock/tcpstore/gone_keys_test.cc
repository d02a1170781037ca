#include "lockstep/stock/tcpstore/gone_keys.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

TEST(GoneKeys, FreesAllThatItWasGivenASliceAtATime) {
  const auto value = std::make_shared<const std::string>("v");
  KeyTable keys;
  for (size_t i = 0; i < GoneKeys::kSliceMax + 1; ++i) keys[absl::StrCat(i)] = value;
  QueueTable queues;
  queues["long"] = Queue(GoneKeys::kSliceMax + 1, value);
  queues["short"] = Queue(1, value);
  queues["empty"];
  const auto all = static_cast<size_t>(value.use_count()) - 1;
  EXPECT_EQ(all, 2 * GoneKeys::kSliceMax + 3);

  GoneKeys gone;
  gone.Add(KeyTable());
  EXPECT_TRUE(gone.empty());
  EXPECT_FALSE(gone.FreeSome());
  gone.Add(std::move(keys));
  gone.Add(std::move(queues));
  size_t left = all;
  while (gone.FreeSome()) {
    const auto now = static_cast<size_t>(value.use_count()) - 1;
    EXPECT_LE(left - now, GoneKeys::kSliceMax);
    EXPECT_LT(now, left);
    left = now;
  }
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_TRUE(gone.empty());
}

}  // namespace
}  // namespace lockstep::tcpstore

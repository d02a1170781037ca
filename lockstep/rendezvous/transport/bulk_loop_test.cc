#include "lockstep/rendezvous/transport/bulk_loop.h"

#include <future>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

constexpr auto kLong = std::chrono::seconds(60);

// Its thread never ends: so nothing of it is destroyed.
BulkLoop& Make() {
  static auto* const all = new std::vector<BulkLoop*>;  // for those who look for leaks
  auto* loop = all->emplace_back(new BulkLoop);
  std::thread([loop] { loop->RunForever(); }).detach();
  return *loop;
}

TEST(BulkLoop, ParkedItDoesNothingUntilSomebodyPosts) {
  BulkLoop& loop = Make();
  for (int i = 0; i < 100; ++i) {
    bool ran = false;
    loop.Post([&] { ran = true; });
    ASSERT_TRUE(loop.Park(absl::Minutes(1)));
    ASSERT_TRUE(ran) << "what was ready is done first";
  }
  std::promise<void> ran;
  loop.Post([&] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(kLong), std::future_status::ready);
}

}  // namespace
}  // namespace lockstep::transport

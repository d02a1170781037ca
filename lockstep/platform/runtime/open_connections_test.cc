#include "lockstep/platform/runtime/open_connections.h"

#include <fcntl.h>

#include "gtest/gtest.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::runtime {
namespace {

UniqueFd Open() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

const asio::ip::address kOne = asio::ip::make_address("10.0.0.1");
const asio::ip::address kOther = asio::ip::make_address("10.0.0.2");
const Time kStart = Time() + absl::Hours(1);

TEST(OpenConnections, NamesTheLimitThatOneMoreWouldBreak) {
  OpenConnections open({.connections_max = 3, .connections_per_host_max = 2});
  const UniqueFd a = Open(), b = Open(), c = Open();
  open.Add(a.get(), kOne);
  EXPECT_EQ(open.LimitReached(kStart, kOne), "");
  open.Add(b.get(), kOne);
  EXPECT_EQ(open.LimitReached(kStart, kOne), "connections_per_host_max");
  EXPECT_EQ(open.LimitReached(kStart, kOther), "");
  open.Add(c.get(), kOther);
  EXPECT_EQ(open.LimitReached(kStart, kOther), "connections_max");
}

TEST(OpenConnections, LooksAgainASecondLaterWhoHasGone) {
  OpenConnections open({.connections_max = 1, .connections_per_host_max = 1});
  UniqueFd a = Open();
  open.Add(a.get(), kOne);
  EXPECT_EQ(open.LimitReached(kStart, kOne), "connections_max");
  a = UniqueFd();
  EXPECT_EQ(open.LimitReached(kStart + absl::Milliseconds(999), kOne), "connections_max");
  EXPECT_EQ(open.LimitReached(kStart + absl::Seconds(1), kOne), "");
  EXPECT_EQ(open.size(), 0u);
  EXPECT_EQ(open.From(kOne), 0u);
}

TEST(OpenConnections, WithoutALimitNothingIsCounted) {
  OpenConnections open({});
  const UniqueFd a = Open();
  open.Add(a.get(), kOne);
  EXPECT_EQ(open.LimitReached(kStart, kOne), "");
  EXPECT_EQ(open.Count(), 0u);
}

}  // namespace
}  // namespace lockstep::runtime

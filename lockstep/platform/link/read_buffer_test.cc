#include "lockstep/platform/link/read_buffer.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace lockstep::link {
namespace {

void Fill(ReadBuffer& buffer, std::string_view bytes, size_t room) {
  std::ranges::copy(bytes, buffer.Prepare(room).begin());
  buffer.Commit(bytes.size());
}

TEST(ReadBuffer, KeepsWhatIsUnreadWhenMoreComes) {
  ReadBuffer buffer;
  Fill(buffer, "abcdef", 8);
  buffer.Consume(4);
  Fill(buffer, "ghijklm", 8);
  EXPECT_EQ(buffer.unread(), "efghijklm");
  buffer.Consume(9);
  EXPECT_TRUE(buffer.empty());
}

TEST(ReadBuffer, GivesBackTheMemoryOfABurstOnceItIsRead) {
  ReadBuffer buffer;
  const std::string burst(size_t{1} << 20, 'x');
  Fill(buffer, burst, burst.size());
  EXPECT_GE(buffer.memory(), burst.size());
  buffer.Consume(burst.size());
  Fill(buffer, "y", 512);
  EXPECT_EQ(buffer.unread(), "y");
  EXPECT_LT(buffer.memory(), size_t{64} << 10);
}

}  // namespace
}  // namespace lockstep::link

#include "lockstep/stock/tcpstore/wire/receive_buffer.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

namespace lockstep::wire::tcpstore {
namespace {

void Fill(ReceiveBuffer& buffer, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const absl::Span<char> room = buffer.Prepare(0);
    const size_t count = std::min(room.size(), bytes.size() - done);
    std::copy_n(bytes.data() + done, count, room.data());
    buffer.Commit(count);
    done += count;
  }
}

TEST(ReceiveBuffer, KeepsWhatIsUnreadWhenMoreComes) {
  ReceiveBuffer buffer;
  const std::string first(500, 'a'), second(700, 'b');
  Fill(buffer, first);
  buffer.Consume(400);
  Fill(buffer, second);
  EXPECT_EQ(buffer.unread(), first.substr(400) + second);
}

TEST(ReceiveBuffer, BelievesWhatIsAnnouncedAsFarAsTheLikeOfItHasCome) {
  ReceiveBuffer buffer;
  EXPECT_LE(buffer.Prepare(size_t{1} << 30).size(), size_t{64} << 10);
  Fill(buffer, std::string(size_t{1} << 20, 'x'));
  EXPECT_LE(buffer.Prepare(size_t{1} << 30).size(), size_t{2} << 20);
}

TEST(ReceiveBuffer, GivesBackTheMemoryOfABurstOnceItIsRead) {
  ReceiveBuffer buffer;
  Fill(buffer, std::string(size_t{1} << 20, 'x'));
  buffer.Consume(buffer.size());
  buffer.Prepare(0);
  EXPECT_LE(buffer.memory(), size_t{64} << 10);
}

}  // namespace
}  // namespace lockstep::wire::tcpstore

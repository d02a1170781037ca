#include "lockstep/rendezvous/transport/resend_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::transport {
namespace {

ResendQueue::Payload Bytes(size_t count) { return std::make_shared<const std::string>(count, 'x'); }

TEST(ResendQueue, KeepsWhatIsNotAcknowledged) {
  ResendQueue queue;
  EXPECT_EQ(queue.Push(Bytes(5)), 1);
  EXPECT_EQ(queue.Push(Bytes(7)), 2);
  EXPECT_TRUE(queue.Acknowledge(1));
  EXPECT_TRUE(queue.Acknowledge(1)) << "said again";
  EXPECT_EQ(queue.messages(), 1);
  EXPECT_EQ(queue.bytes(), 7);
  std::vector<uint64_t> numbers;
  queue.ForEach([&](uint64_t number, const ResendQueue::Payload&) { numbers.push_back(number); });
  EXPECT_EQ(numbers, std::vector<uint64_t>{2});
}

TEST(ResendQueue, RefusesAnAcknowledgementOfWhatWasNeverSent) {
  ResendQueue queue;
  queue.Push(Bytes(5));
  EXPECT_FALSE(queue.Acknowledge(2));
  EXPECT_EQ(queue.messages(), 1);
}

}  // namespace
}  // namespace lockstep::transport

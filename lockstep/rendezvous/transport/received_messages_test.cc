#include "lockstep/rendezvous/transport/received_messages.h"

#include <gtest/gtest.h>

namespace lockstep::transport {
namespace {

const ReceivedMessages::Limits kLimits = {
    .delay = absl::Milliseconds(1), .messages = 3, .bytes = 100};

TEST(ReceivedMessages, TakesEachMessageOnceAndInOrder) {
  ReceivedMessages received(kLimits);
  EXPECT_TRUE(received.Take(Time(), 1, 5));
  EXPECT_FALSE(received.Take(Time(), 1, 5)) << "sent again";
  EXPECT_FALSE(received.Skips(2));
  EXPECT_TRUE(received.Skips(3));
  EXPECT_EQ(received.through(), 1);
}

TEST(ReceivedMessages, OwesAnAcknowledgementAfterADelayOrAtOnceWhenMuchCame) {
  ReceivedMessages received(kLimits);
  EXPECT_TRUE(received.due().is_infinite());
  received.Take(Time(), 1, 5);
  received.Take(Time() + absl::Milliseconds(5), 2, 5);
  EXPECT_EQ(received.due(), Time() + absl::Milliseconds(1)) << "of the first";
  EXPECT_FALSE(received.OwesMuch());
  received.Take(Time(), 3, 90);
  EXPECT_TRUE(received.OwesMuch());
  EXPECT_EQ(received.Acknowledge(), 3);
  EXPECT_FALSE(received.OwesMuch());
  EXPECT_TRUE(received.due().is_infinite());
}

}  // namespace
}  // namespace lockstep::transport

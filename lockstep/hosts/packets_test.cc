#include "lockstep/hosts/packets.h"

#include <string>

#include "gmock/gmock.h"

namespace lockstep::hosts {
namespace {

Ping FullPing() {
  Ping ping{.from = HostId(7),
            .to = kServer,
            .number = 1ULL << 60,
            .heard_ago = absl::Milliseconds(1234),
            .version = 99,
            .counted = 66,
            .round_trip = absl::Microseconds(310),
            .clock_us = 1'800'000'000'123'456,
            .lost = {}};
  for (size_t i = 0; i < kVerdictsMax; ++i) {
    ping.lost.push_back({HostId(100 + i), i == 0 ? absl::InfiniteDuration()
                                                 : absl::Milliseconds(static_cast<int64_t>(i))});
  }
  return ping;
}

Ack FullAck() {
  Ack ack{.from = kServer,
          .to = HostId(7),
          .number = 5,
          .lost = true,
          .version = 1ULL << 63,
          .gone = {}};
  for (size_t i = 0; i < kVerdictsMax; ++i) ack.gone.emplace_back(200 + i);
  return ack;
}

TEST(PacketsTest, WhatIsWrittenIsRead) {
  for (const Packet& packet :
       {Packet(FullPing()), Packet(FullAck()), Packet(Ping{.from = HostId(1), .to = HostId(2)}),
        Packet(Ack{.from = HostId(1), .to = HostId(2)})}) {
    const std::string bytes = Encode(packet);
    EXPECT_LE(bytes.size(), kDatagramBytesMax - kKeyBytes - kProofBytes);
    EXPECT_EQ(Decode(bytes), packet);
  }
}

TEST(PacketsTest, WhatIsCutOffOrLongerIsNone) {
  for (const Packet& packet : {Packet(FullPing()), Packet(FullAck())}) {
    const std::string bytes = Encode(packet);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(Decode(bytes.substr(0, size))) << size;
    }
    EXPECT_FALSE(Decode(bytes + "x"));
  }
}

TEST(PacketsTest, WhatCannotBeIsNone) {
  std::string bytes = Encode(FullPing());
  bytes[4] = 3;  // no kind
  EXPECT_FALSE(Decode(bytes));
  bytes = Encode(FullPing());
  bytes[0] = 'X';
  EXPECT_FALSE(Decode(bytes));
  EXPECT_FALSE(Decode(Encode(Ping{.from = HostId(7), .to = HostId(7)})));
  // More lost hosts than a packet may name.
  bytes = Encode(Ping{.from = HostId(7), .to = kServer});
  bytes.back() = static_cast<char>(kVerdictsMax + 1);
  EXPECT_FALSE(Decode(bytes + std::string(12 * (kVerdictsMax + 1), '\0')));
}

TEST(PacketsTest, TimesThatAreTooLongAreTheLongest) {
  Ping ping{.from = HostId(7), .to = kServer, .heard_ago = absl::Hours(24 * 365)};
  const auto read = Decode(Encode(ping));
  ASSERT_TRUE(read);
  EXPECT_GT(std::get<Ping>(*read).heard_ago, absl::Hours(24 * 40));
  EXPECT_NE(std::get<Ping>(*read).heard_ago, absl::InfiniteDuration());
}

}  // namespace
}  // namespace lockstep::hosts

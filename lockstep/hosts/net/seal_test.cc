#include "lockstep/hosts/net/seal.h"

#include <string>

#include "gmock/gmock.h"

namespace lockstep::hosts {
namespace {

const Packet kPacket = Ping{.from = HostId(1), .to = kServer, .number = 9};

TEST(SealTest, WhoKnowsTheSecretReadsThePacket) {
  const Secret secret = Secret::Draw();
  const std::string datagram = Seal(secret, kPacket);
  EXPECT_EQ(KeyOf(datagram), secret.key);
  EXPECT_EQ(Unseal(secret, datagram), kPacket);
}

TEST(SealTest, NobodyElseCanMakeOne) {
  const Secret secret = Secret::Draw();
  Secret other = Secret::Draw();
  EXPECT_NE(other.bytes, secret.bytes);
  other.key = secret.key;
  EXPECT_FALSE(Unseal(secret, Seal(other, kPacket)));
}

TEST(SealTest, EveryBitCounts) {
  const Secret secret = Secret::Draw();
  const std::string datagram = Seal(secret, kPacket);
  for (size_t bit = 0; bit < datagram.size() * 8; ++bit) {
    std::string changed = datagram;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(Unseal(secret, changed)) << bit;
  }
}

TEST(SealTest, WhatIsTooShortOrTooLongHasNoKey) {
  EXPECT_FALSE(KeyOf(""));
  EXPECT_FALSE(KeyOf(std::string(kKeyBytes + kProofBytes, 'x')));
  EXPECT_TRUE(KeyOf(std::string(kKeyBytes + kProofBytes + 1, 'x')));
  EXPECT_FALSE(KeyOf(std::string(kDatagramBytesMax + 1, 'x')));
}

}  // namespace
}  // namespace lockstep::hosts

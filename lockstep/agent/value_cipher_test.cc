#include "lockstep/agent/value_cipher.h"

#include "gtest/gtest.h"
#include "lockstep/agent/value_wire.h"

namespace lockstep::agent {
namespace {

constexpr size_t kSize = ValueCipher::kChunkBytes + 10;
const std::string kKey(ValueCipher::kKeyBytes, 'k');
const std::string kTicket(kTicketBytes, 't');

TEST(ValueCipher, OpensWhatItSealed) {
  const ValueCipher cipher(kKey, kTicket, kSize);
  ASSERT_EQ(cipher.chunks(), 2u);
  EXPECT_EQ(cipher.ChunkBytes(1), 10u);
  const std::string sealed = cipher.Seal(1, "0123456789");
  EXPECT_EQ(sealed.size(), 10 + ValueCipher::kTagBytes);
  EXPECT_EQ(sealed.find("0123"), std::string::npos);
  EXPECT_EQ(cipher.Open(1, sealed), "0123456789");
  const std::string first(ValueCipher::kChunkBytes, 'v');
  EXPECT_EQ(cipher.Open(0, cipher.Seal(0, first)), first);
}

TEST(ValueCipher, EveryAgentSealsToTheSameBytes) {
  EXPECT_EQ(ValueCipher(kKey, kTicket, 3).Seal(0, "abc"),
            ValueCipher(kKey, kTicket, 3).Seal(0, "abc"));
}

TEST(ValueCipher, OpensNothingThatWasChanged) {
  const ValueCipher cipher(kKey, kTicket, 4);
  const std::string sealed = cipher.Seal(0, "abcd");
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(cipher.Open(0, changed), std::nullopt) << i;
  }
  EXPECT_EQ(cipher.Open(0, sealed.substr(1)), std::nullopt);
  EXPECT_EQ(cipher.Open(0, ""), std::nullopt);
  EXPECT_EQ(cipher.Open(1, sealed), std::nullopt) << "there is no such chunk";
}

TEST(ValueCipher, AChunkIsGoodForItsPlaceItsAnswerAndItsKeyOnly) {
  const size_t two = 2 * ValueCipher::kChunkBytes;
  const std::string chunk(ValueCipher::kChunkBytes, 'v');
  const std::string sealed = ValueCipher(kKey, kTicket, two).Seal(0, chunk);
  EXPECT_EQ(ValueCipher(kKey, kTicket, two).Open(1, sealed), std::nullopt);
  EXPECT_EQ(ValueCipher(kKey, std::string(16, 'u'), two).Open(0, sealed), std::nullopt);
  EXPECT_EQ(ValueCipher(kKey, kTicket, two + 1).Open(0, sealed), std::nullopt);
  EXPECT_EQ(ValueCipher(std::string(32, 'x'), kTicket, two).Open(0, sealed), std::nullopt);
}

TEST(ValueWire, ARequestIsItsMagicAndTheTicket) {
  const std::string ask = EncodeAsk(kTicket);
  EXPECT_EQ(ask, std::string("LSFO\1\0\0\0", 8) + kTicket);
  EXPECT_EQ(TicketOf(ask), kTicket);
  EXPECT_EQ(TicketOf("GET / HTTP/1.1\r\nHost: abc"), "");
  EXPECT_EQ(TicketOf(ask.substr(1)), "");
}

}  // namespace
}  // namespace lockstep::agent

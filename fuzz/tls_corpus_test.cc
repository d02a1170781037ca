#include <string>

#include "fuzz/corpus_testing.h"
#include "fuzz/tls_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(TlsCorpus, IsReadWithoutHarm) {
  ReadCorpus(LOCKSTEP_CORPUS_DIR, [](std::string_view bytes) { DriveTls(bytes); });
}

// Otherwise the fuzzer would never come behind the handshake.
TEST(TlsCorpus, ARecordedConversationIsOneWhenItIsPlayedAgain) {
  EXPECT_TRUE(DriveTls(RealClient()).server_established);
  EXPECT_TRUE(DriveTls(RealServer()).client_established);
  const TlsOutcome both = DriveTls(RealConversation());
  EXPECT_TRUE(both.server_established);
  EXPECT_TRUE(both.client_established);
}

TEST(TlsCorpus, AChangedConversationIsNone) {
  for (const std::string& real : {RealClient(), RealServer()}) {
    for (size_t at = 2 + 11; at < real.size(); at += 97) {
      std::string changed = real;
      changed[at] ^= 0x20;
      DriveTls(changed);
    }
  }
}

}  // namespace
}  // namespace lockstep::fuzz

#include <string>

#include "fuzz/corpus_testing.h"
#include "fuzz/handshake_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(HandshakeCorpus, IsReadWithoutHarm) {
  ReadCorpus(LOCKSTEP_CORPUS_DIR, [](std::string_view bytes) { DriveHandshake(bytes); });
}

// Otherwise the fuzzer would never come behind the first message.
TEST(HandshakeCorpus, TwoMembersBelieveEachOtherInAnyPieces) {
  std::string acts = RealHandshake();
  for (const int piece : {0, 1, 7, 31, 32, 33, 64, 100}) {
    acts[0] = static_cast<char>(piece);
    const HandshakeOutcome outcome = DriveHandshake(acts);
    EXPECT_TRUE(outcome.taker_done);
    EXPECT_TRUE(outcome.giver_done);
  }
}

TEST(HandshakeCorpus, ChangedWordsConvinceNeither) {
  // In the place of the giver's proof: the same with any one of its bytes changed.
  for (int at = 0; at < 64; ++at) {
    std::string acts = RealHandshake();
    acts[3] = static_cast<char>(acts[3] + 1);
    acts.insert(5, {static_cast<char>(at), static_cast<char>(at % 8)});
    const HandshakeOutcome outcome = DriveHandshake(acts);
    EXPECT_FALSE(outcome.taker_done) << at;
    EXPECT_FALSE(outcome.giver_done) << at;
  }
}

}  // namespace
}  // namespace lockstep::fuzz

#include "fuzz/corpus_testing.h"
#include "fuzz/peer_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(PeerCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadPeerMessage); }

}  // namespace
}  // namespace lockstep::fuzz

#include "fuzz/corpus_testing.h"
#include "fuzz/hosts_fuzzer.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(HostsCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadHostPacket); }

}  // namespace
}  // namespace lockstep::fuzz

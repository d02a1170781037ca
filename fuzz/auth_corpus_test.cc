#include "fuzz/auth_fuzzer.h"
#include "fuzz/corpus_testing.h"
#include "gtest/gtest.h"

namespace lockstep::fuzz {
namespace {

TEST(AuthCorpus, IsReadWithoutHarm) { ReadCorpus(LOCKSTEP_CORPUS_DIR, ReadGreeting); }

}  // namespace
}  // namespace lockstep::fuzz
